"""Three questions on one thread, as ``stategate ask`` puts them, with long-term memory and traces."""

from graph import Session, build_graph, load_config
from stores.memory.long_term import LongTerm
from stores.memory.records import Namespace
from stores.traces.store import TraceStore
from ui.memory import put_question

QUESTIONS = [f"What is a {thing}?" for thing in ("brinicle", "snailfish", "geyser")]
_RESOURCES = []


def _graph(folder, corpus=None):
    place = {"url": str(folder / "memory.sqlite")}
    values = {
        "env": {"kind": "qa", "corpus": str(corpus or _CORPUS[0]), "chunking": "fixed-64-10"},
        "embedder": "hashing",
        "context": {"kind": "recall", "budget": 800, "memory": {"place": place}, "extractor": "rules"},
        "actor": {"kind": "extract", "sentences": 1},
        "memory": [
            {"kind": "conversation"},
            {"kind": "long_term", "place": place, "extractor": "rules"},
            {"kind": "trace", "path": str(folder / "traces.sqlite")},
        ],
        "checkpoints": str(folder / "checkpoints.sqlite"),
        "max_steps": 100,
    }
    return build_graph(load_config(values), resources=_RESOURCES[0] if _RESOURCES else None)


_CORPUS = []


def prepare():
    import tempfile
    from pathlib import Path

    place = Path(tempfile.mkdtemp(prefix="corpus-"))
    corpus = place / "texts"
    corpus.mkdir()
    for question in QUESTIONS:
        thing = question.split()[-1].strip("?")
        (corpus / f"{thing}.md").write_text(f"# {thing.title()}\n\nA {thing} is found in the sea.")
    _CORPUS.append(corpus)
    warm = place / "warm"
    warm.mkdir()
    graph = _graph(warm)
    put_question(Session(graph, "warm"), QUESTIONS[0])
    # Chroma keeps threads, which do not outlive a fork: what they fetched must be there already.
    for question in QUESTIONS:
        put_question(Session(graph, question), question)
    _RESOURCES.append(graph.agent.resources)


def work(folder, acknowledge):
    graph = _graph(folder)
    done = {turn["question"] for turn in _memory(folder).turns(Namespace())}
    for question in QUESTIONS:
        session = Session(graph, "t")
        is_cut = bool(session.graph.get_state(session.config).next)
        if question in done and not is_cut and not _unsettled(session):
            continue
        result = put_question(session, question)
        acknowledge([question, result.decision.action])


def _unsettled(session):
    saved = session.graph.checkpointer.get_tuple(session.config)
    return saved is not None and bool(saved.pending_writes)


def _memory(folder):
    return LongTerm(f"sqlite:///{folder / 'memory.sqlite'}")


def check(folder, acknowledged):
    turns = _memory(folder).turns(Namespace())
    asked = [turn["question"] for turn in turns]
    assert len(asked) == len(set(asked)), f"a turn is there twice: {asked}"
    for question, _ in acknowledged:
        assert question in asked, f"'{question}' was answered and is forgotten"
    traces = TraceStore(folder / "traces.sqlite")
    traced = [row["instruction"] for row in traces.episodes()]
    assert len(traced) == len(set(traced)), f"an episode is there twice: {traced}"
    values = Session(_graph(folder), "t").values
    messages = [m.text for m in values.get("messages") or []]
    return [sorted(asked), sorted(traced), len(messages), len(values.get("events") or [])]
