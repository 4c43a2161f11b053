"""Three things told on one thread, as ``stategate ask`` puts them, with long-term memory and traces."""

from stategate.graph import Session, build_graph, load_config
from stategate.nodes.observe.qa import QaEnv
from stategate.stores.memory.long_term import open_long_term
from stategate.stores.trace_store import TraceStore
from tests.faults.scenarios import kept
from tests.kit import Passages, qa_settings

THINGS = ("brinicle", "snailfish", "geyser")
QUESTIONS = [f"I saw a {thing}." for thing in THINGS]
PASSAGES = [f"A {thing} is found in the sea." for thing in THINGS]
_RESOURCES = []


def _graph(folder):
    values = qa_settings("sample", kept(folder, "memory"))
    values["memory"].append({"kind": "trace", "path": kept(folder, "traces")})
    values["checkpoints"] = kept(folder, "checkpoints")
    return build_graph(load_config(values), resources=_RESOURCES[0] if _RESOURCES else None)


def prepare():
    import tempfile
    from pathlib import Path

    # Chroma keeps threads, which do not outlive a fork: passages come from a list.
    QaEnv.source = lambda self, seen, resources: Passages(PASSAGES, not seen.done)
    graph = _graph(Path(tempfile.mkdtemp(prefix="warm-")))
    Session(graph, "warm").ask(QUESTIONS[0])
    _RESOURCES.append(graph.agent.resources)


def work(folder, acknowledge):
    graph = _graph(folder)
    done = _remembered(folder)
    for question in QUESTIONS:
        session = Session(graph, "t")
        if question in done and not _is_cut(session, question):
            continue
        result = session.ask(question)
        acknowledge([question, result.decision.action])
    graph.finish({"configurable": {"thread_id": "t"}})


def _is_cut(session, question):
    """Say whether a kill left this very question half done."""
    snapshot = session.graph.get_state(session.config)
    asked = str(snapshot.values.get("episode", {}).get("question"))
    return asked == question and snapshot.next == ("write_memory",)


def _remembered(folder):
    """Return the question of every turn that is remembered."""
    facts = open_long_term(kept(folder, "memory")).facts("thread t")
    return [fact.text.partition(" (about: ")[0] for fact in facts]


def check(folder, acknowledged):
    asked = _remembered(folder)
    assert len(asked) == len(set(asked)), f"a turn is there twice: {asked}"
    for question, _ in acknowledged:
        assert question in asked, f"'{question}' was answered and is forgotten"
    traces = TraceStore(kept(folder, "traces"))
    traced = [row["instruction"] for row in traces.episodes()]
    assert len(traced) == len(set(traced)), f"an episode is there twice: {traced}"
    values = Session(_graph(folder), "t").values
    messages = [m.text for m in values.get("messages") or []]
    return [sorted(asked), sorted(traced), len(messages), len(values.get("events") or [])]
