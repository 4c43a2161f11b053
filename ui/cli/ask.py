"""``stategate ask``, ``chat`` and ``rank``: questions to the QA agent; documents weighed for one."""

import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, cast

import numpy as np
from rich.console import Console
from rich.table import Table

from stategate.envs.protocols import answered
from stategate.graph.build import build_graph
from stategate.graph.config import load_config
from stategate.graph.forgetting import forget_everywhere
from stategate.graph.session import Session
from stategate.graph.state import to_plain
from stategate.language.utterance import read_utterance
from stategate.nodes.act.answerability import NOTED, NOTHING_FOUND
from stategate.nodes.build_context.rico import Partner, documents_of, weigh
from stategate.nodes.models.documents import shared_backend
from stategate.nodes.models.embedders import MiniLM
from stategate.nodes.observe.qa import QaEnv
from stategate.nodes.protocols import StepRecord
from stategate.nodes.resources import Resources
from stategate.nodes.retrieval.ranking import bm25
from stategate.nodes.retrieval.remember import owned_by
from stategate.nodes.write_memory.long_term import LongTermMemory, memory_place
from stategate.nodes.write_memory.trace import Trace
from stategate.stores.corpus.chunking import Passage
from stategate.stores.corpus.corpus import corpus_names
from stategate.stores.errors import UserError
from stategate.stores.files import user_path
from stategate.stores.home import is_home_kept, new_thread, own_name_of, this_user, thread_of
from stategate.stores.memory.long_term import LongTerm
from stategate.stores.settings import (
    Commas,
    ConfigName,
    JsonFile,
    Overrides,
    Question,
    Settings,
    argument,
    option,
)
from stategate.stores.text import one_line, plural
from stategate.ui.cli import output
from stategate.ui.cli.settings_command import command

#: What was answered is kept, what was not is asked again.
_GO_ON = "go on with: stategate chat --thread {}{}"


class ChatSettings(Settings):
    """Which conversation, about what, and whose memory it reads."""

    corpus: str | None = option(None, "A folder, or an ingested corpus.", metavar="FOLDER|NAME")
    config: ConfigName = "qa"
    thread: str | None = option(None, "A conversation to begin or to go on with.")
    user: str | None = option(None, "Whose long-term memory; by default yours.")
    overrides: Overrides = ()


class AskSettings(ChatSettings):
    """One question."""

    question: Question = argument(...)
    show: bool = option(False, "Print what the model read, and scores.")
    remember: bool = option(False, "Keep what is told for later; a --thread always does.")
    json_target: JsonFile = None


@command(
    'stategate ask "What did we decide about the boat?" --corpus notes/',
    'stategate ask "Where is that?" --thread monday --set actor.kind=answer',
)
def ask(settings: AskSettings) -> None:
    """Answer one question from a corpus and from memory."""
    question, json_target = settings.question, settings.json_target
    name = settings.thread or new_thread("ask")
    is_kept = settings.thread is not None
    session = open_session(settings, name, is_kept, remembers=is_kept or settings.remember)
    out = output.console(stderr=json_target == "-")
    passages = load_parts(session)
    how = _GO_ON.format(shlex.quote(name), _of(settings.user or this_user()))
    with output.stoppable(how if is_kept else ""):
        result = speak(session, question, out)
        if not _writes(session) and _answer_of(result) == NOTED:
            out.print("(not remembered: --remember keeps it)", style="dim")
        forget_named(session, result, out, sys.stdin.isatty())
    titles = {passage.id: passage.title or passage.document for passage in passages}
    pieces = [(piece, titles.get(piece.id, "")) for piece in result.context.pieces]
    if settings.show:
        out.print(result.context.text, markup=False, style="dim")
        scored = [
            (piece.score, f"{'*' if piece.text else ' '} {title}")
            for piece, title in pieces
            if piece.score is not None and piece.kind == "passage"
        ]
        out.print(_ranking(("", "* read"), sorted(scored, key=lambda row: -row[0])))
    if json_target is not None:
        reply = {
            "question": question,
            "answer": _answer_of(result),
            "pieces": [{**asdict(piece), "title": title} for piece, title in pieces],
            "tokens": result.tokens,
            "decision": to_plain(vars(result.decision)),
            "config": session.agent.config.model_dump(mode="json"),
            "thread": name,
        }
        output.wrote(json_target, reply)


@command("stategate chat --corpus notes --thread monday --config qa-stm")
def chat(settings: ChatSettings) -> None:
    """Talk with the agent; an empty line or /quit ends, and --thread goes on later."""
    name = settings.thread or new_thread("chat")
    session = open_session(settings, name, True)
    out = output.console()
    load_parts(session)
    output.say(f"thread {name}; an empty line ends", "dim")
    how = _GO_ON.format(shlex.quote(name), _of(settings.user or this_user()))
    with output.stoppable(how):
        while True:
            try:
                question = input("> ").strip()
            except EOFError:
                question = ""
            if question in ("", "/quit", "/exit"):
                output.say(how, "dim")
                return
            forget_named(session, speak(session, question, out), out, True)


def open_session(
    settings: ChatSettings, thread: str, is_kept: bool, remembers: bool = True
) -> Session:
    """Return a thread of the agent; ``is_kept`` conversations have their checkpoints on disk.

    A thread goes on with the corpus that it answered from last, unless ``--corpus`` names one: the
    checkpoints' metadata hold it. A change is said in a line.
    """
    config = load_config(settings.config, settings.overrides)
    env, user = config.env, settings.user or this_user()
    if not isinstance(env, QaEnv):
        raise UserError(f"config '{settings.config}' is no conversation: use one whose env is qa")
    corpus = settings.corpus or env.corpus
    if corpus not in (env.corpus, *corpus_names()) and user_path(corpus).exists():
        corpus = str(user_path(corpus).resolve())  # read again from another folder
    parts = config.memory
    if not remembers:  # nor a trace in this home
        parts = tuple(p for p in parts if p.kind != "long_term" and p != Trace())
    changed = {"env": env.model_copy(update={"corpus": corpus}), "memory": parts}
    config = config.model_copy(update=changed)
    session = Session(
        build_graph(config.durable() if is_kept else config), thread_of(user, thread), user=user
    )
    if is_kept:
        metadata = session.graph.get_state(session.config).metadata or {}
        last = str(metadata.get("corpus", corpus))
        if last != corpus and settings.corpus is None:
            output.say(f"this thread goes on with {last} (--corpus names another)", stderr=True)
            settings = settings.model_copy(update={"corpus": last})
            return open_session(settings, thread, is_kept, remembers)
        session.metadata = {"corpus": corpus}
    return session


def load_parts(session: Session) -> Sequence[Passage]:
    """Index the corpus and start the chat model, saying so where it takes time; return passages."""
    env = cast(QaEnv, session.agent.config.env)
    with output.working(f"reading {env.corpus}"):
        passages = env.index(session.agent.resources).passages
    if not passages:
        empty = f"there is no text in '{env.corpus}', so nothing can be found: add files to it"
        output.say(empty, "yellow", stderr=True)
    load_model(session)
    return passages


def load_model(session: Session) -> None:
    """Start the chat model where the actor asks one, apart from its thinking."""
    config = session.agent.config
    if config.actor.asks_model and config.llm is not None:
        with output.working("loading the model"):
            _ = session.agent.resources.llm


def speak(session: Session, question: str, out: Console) -> StepRecord:
    """Put one question, print the answer and what is to be known of it, return the step."""
    with output.waiting("thinking"):
        result = session.ask(question)
    answer = _answer_of(result)
    out.print(answer, markup=False, soft_wrap=True)
    asides = [result.decision.reason, result.decision.fallback]
    if answer == NOTHING_FOUND:
        asides += [piece.reason for piece in result.context.pieces if piece.kind == "memory"]
    written = _written(session, question, answer) if is_home_kept() else ()
    for line in filter(None, [*asides, *written]):
        out.print(f"({line})", style="dim", markup=False, soft_wrap=True)
    return result


def _written(session: Session, told: str, answer: str) -> Iterator[str]:
    """Yield what the last turn, ``told``, wrote into long-term memory, a line a fact."""
    if not _writes(session):
        return
    store, user = _memory_of(session)
    facts = store.facts(user, session.values["episode_id"])
    if not facts and answer == NOTED:
        yield "nothing in it is remembered: it was read as small talk"
    elif not facts and answer == NOTHING_FOUND and not told.endswith("?"):
        yield "it was read as a question: questions are not remembered"
    for fact in facts:
        undo = f"stategate memory forget {fact.id}{_of(user)}"
        is_whole = one_line(told) == one_line(fact.text.partition(" (about: ")[0])
        part = "" if is_whole else ", without what it asks"
        yield f"remembered as fact {fact.id}{part}; {undo} undoes it"
        ended = store.ended_by(fact.id)
        for number, statement in ended:
            yield f"it ends fact {number}: {one_line(statement)}"
        if not ended and read_utterance(fact.text).purpose == "correction":
            yield "nothing was found to correct"


def _writes(session: Session) -> bool:
    return any(isinstance(writer, LongTermMemory) for writer in session.agent.config.memory)


def _of(user: str) -> str:
    """Return the option of ``stategate memory`` that names a user, "" where it needs none."""
    return "" if user == this_user() else f" --user {shlex.quote(user)}"


def _memory_of(session: Session) -> tuple[LongTerm, str]:
    """Return the long-term memory that a session writes, and whose part of it."""
    with owned_by(session.user or ""):
        place = memory_place(session.agent.config.memory)
        return place.open(), place.owner


def forget_named(session: Session, result: StepRecord, out: Console, asks: bool) -> None:
    """Forget the facts that a wish to forget speaks of, if the user says so; else say how to.

    ``asks``: somebody is there to be asked.
    """
    named, of = result.context.visible("forget"), _of(session.user or this_user())
    ids = [int(piece.id.removeprefix("fact:")) for piece in named]
    if not ids:
        if any(piece.kind == "forget" for piece in result.context.pieces):
            which, erase = f"stategate memory list{of} numbers the facts", "stategate memory forget"
            line = f"({which}; {erase} --all{of} forgets all"
            if _writes(session):
                thread = shlex.quote(own_name_of(session.thread_id))
                line += f", {erase} --thread {thread}{of} this conversation, your words too"
            line += ")"
            out.print(line, style="dim", markup=False, soft_wrap=True)
        return
    numbers = " ".join(map(str, ids))
    if not asks or input("forget? [y/N] ").strip().lower() not in ("y", "yes"):
        out.print(f"(stategate memory forget {numbers}{of} forgets)", style="dim", markup=False)
        return
    checkpoints = session.agent.config.checkpoints
    counts = forget_everywhere(*_memory_of(session), ids, checkpoints=checkpoints)
    of_all = plural(len(ids), "fact")
    out.print(f"(forgot {counts['facts']} of {of_all})", style="dim", markup=False)


def _answer_of(result: StepRecord) -> str:
    text = answered(result.decision.action)
    return result.decision.action if text is None else text


class RankSettings(Settings):
    """Which documents, by which scores."""

    question: Question = argument(..., "What the documents should explain.")
    corpus: str = option(..., "A corpus, or a folder or file of documents.", metavar="NAME|PATH")
    top: int = option(10, "How many documents to show.", ge=1)
    fuse_with: Commas[Partner] = option(
        ("bm25_stem", "embedder"), "Scores to add: bm25, bm25_stem, embedder.", "--with"
    )
    candidates: int = option(20, "Weigh only so many, the BM25-best.", ge=1)
    model: str = option("smollm2-135m", "Asset, folder, .gguf file, hub name.")
    json_target: JsonFile = None


@command(
    """stategate rank "Who wrote the song Counterparts?" --corpus notes/ --top 3""",
    """stategate rank "Which film is older?" --corpus films/ --json -""",
)
def rank(settings: RankSettings) -> None:
    """Weigh documents for a question by how much attending to them would help predict it."""
    question = settings.question
    documents = documents_of(settings.corpus)
    if len(documents) > settings.candidates:  # those that BM25 puts first, in the corpus's order
        scores = bm25(question, [document.as_text() for document in documents], stemmed=True)
        first = np.argsort(-scores, kind="stable")[: settings.candidates]
        documents = [documents[i] for i in sorted(first)]
    if not documents:
        why = f"there is no text in '{settings.corpus}'"
        raise UserError(f"{why}: put a file into it, or name another")
    with output.working("weighing the documents"):
        weighed = weigh(
            question,
            documents,
            lambda: shared_backend(settings.model),
            lambda: MiniLM().build(Resources()),
            settings.fuse_with,
        )
    rows: list[dict[str, Any]] = [
        {
            "title": documents[i].title,
            "text": documents[i].text,
            "weight": float(weighed.weights[i]),
            "score": float(weighed.scores[i]),
            "parts": {name: float(scores[i]) for name, scores in weighed.parts.items()},
        }
        for i in weighed.order()[: settings.top]
    ]
    report = {"question": question, "documents": rows}
    if not output.wrote(settings.json_target, report):
        head = ("weight", "document", *rows[0]["parts"])
        table = [(r["weight"], r["title"] or r["text"], *r["parts"].values()) for r in rows]
        output.console().print(_ranking(head, table))


def _ranking(head: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> Table:
    """Return a table of scored titles, best first: the score, the title, other scores."""
    cells = [(f"{score:.3f}", one_line(title)[:48], *others) for score, title, *others in rows]
    return output.table(head, cells)
