"""``long_term``: every answered question as a fact, in SQL, across sessions."""

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from stategate.envs.protocols import UNKNOWN, answered
from stategate.language.utterance import is_asking, is_forgetting
from stategate.nodes.act.answerability import NOTHING_FOUND
from stategate.nodes.protocols import Embedder, MemoryParams, MemoryWriter, StepRecord
from stategate.nodes.resources import Resources
from stategate.nodes.retrieval.memory import MemoryPlace, StatementKind, statements_of
from stategate.stores.text import one_line, words_of
from stategate.stores.traces import Event

if TYPE_CHECKING:
    from stategate.stores.memory.records import Statement, Turn

#: The share of an answer's words from which a remembered fact is what it was made from, where the
#: passages hold fewer.
_QUOTED = 0.8


class LongTermMemory(MemoryParams):
    """Write what the user tells, once a turn; small talk, questions and answers are left out."""

    hint: ClassVar[str] = "keeps what was said, for later conversations"
    kind: Literal["long_term"] = "long_term"
    place: MemoryPlace = Field(default=MemoryPlace(), description="which memory, whose part")
    statements: StatementKind = Field(
        default="rules",
        description="what reads who is or does what, and when: 'model' asks the language model",
    )
    answers: bool = Field(
        default=False, description="also keep each question with the agent's answer, as one fact"
    )

    def build(self, resources: Resources) -> MemoryWriter:
        """Open the memory. Raises ``UserError`` where that fails."""
        store = self.place.open()
        state = statements_of(self.statements, resources)

        def write_memory(record: StepRecord) -> None:
            namespace = self.place.namespace
            now = store.now(namespace, record.thread_id)
            answer = answered(record.decision.action)
            if answer is None:
                for turn in settled(record, resources, now):
                    store.add(namespace, turn)
                return
            if is_forgetting(record.instruction):
                return
            is_question = is_asking(record.instruction)
            if record.decision.fallback is not None or (is_question and not self.answers):
                return
            # What was replied to a statement is the agent's, and no part of what was told.
            said = answer if is_question else ""
            statements = tuple(state(record.instruction, "user", now))
            turn = _answered_turn(record, said, resources.embedder, statements, now)
            store.add(namespace, turn, gated=True)

        return write_memory


def _answered_turn(
    record: StepRecord,
    said: str,
    embedder: Embedder,
    statements: "tuple[Statement, ...]",
    at: float,
) -> "Turn":
    """Return a question with its answer, or a statement (``said`` is ""), and vectors to find it by."""
    from stategate.nodes.retrieval.remember import texts_of
    from stategate.stores.memory.records import Turn

    asked = record.instruction
    pieces = record.context.pieces if record.context is not None else ()
    about = " ".join(filter(None, (piece.says("about") for piece in pieces)))
    answer = texts_of(said) if said else []
    own = [f"{about} {asked}".strip(), *texts_of(asked, "", statements)[1:]]
    vectors = embedder.embed([own[0], *answer[:1], *own[1:], *answer[1:]])
    halves = 1 + len(answer[:1])
    failures = {text.rstrip(". ").lower() for text in (UNKNOWN, NOTHING_FOUND)}
    success = said.rstrip(". ").lower() not in failures
    source, lineage = _origin(record, said)
    return Turn(
        record.thread_id,
        record.episode_id,
        record.step,
        asked,
        said,
        vectors[0],
        vectors[1] if said else None,
        embedder.name,
        success,
        at=at,
        about=about,
        source=source,
        lineage=lineage,
        statements=statements,
        more=tuple(vectors[halves:]),
    )


def settled(record: StepRecord, resources: Resources, now: float) -> "list[Turn]":
    """Return what an episode that ended ``now`` has settled and shown, as its view says, a turn a line.

    "Chosen: shade = teal" is what this user wanted of this thing: another task's choice does not end
    it. "shelf 2 holds a red box" holds until another episode shows something else there. Nothing is
    kept of an episode that is not done, or that earned nothing.
    """
    if not record.outcome.done or not record.outcome.reward:
        return []
    from stategate.stores.memory.records import Statement, Turn

    view, page = resources.view, record.observation
    lines = [line.text for line in view.status(page, view.chunks(page)) if line.is_settled]
    kept: list[tuple[str, tuple[Statement, ...]]] = []
    for line in lines:
        name, equals, value = line.partition(": ")[2].partition(" = ")
        chosen = (Statement("user", name, value),) if equals else ()
        kept.append((f"{line} (when asked: {one_line(record.instruction)})", chosen))
    for fact in resources.experience.facts(_episode(record), record.outcome):
        if fact.lasts:
            state = Statement(fact.subject, fact.relation, fact.value, is_state=True)
            kept.append((one_line(f"{fact.subject} {fact.relation} {fact.value}"), (state,)))
    embedder = resources.embedder
    vectors = embedder.embed([text for text, _ in kept]) if kept else ()
    return [
        Turn(
            record.thread_id,
            f"{record.episode_id}#{place}",
            record.step,
            text,
            "",
            vectors[place],
            None,
            embedder.name,
            at=now,
            source="agent",
            statements=states,
        )
        for place, (text, states) in enumerate(kept)
    ]


def _episode(record: StepRecord) -> list[Event]:
    """Return the episode's events as far as they are recent, this step's included."""
    t = record.step
    earlier = [event for event in record.events if event.t < t]
    return [
        *earlier,
        Event("OBS", record.observation.text, t),
        Event("ACT", record.decision.action, t),
        Event("OBS", record.outcome.text, t + 1),
    ]


def _origin(record: StepRecord, said: str) -> tuple[str, tuple[int, ...]]:
    """Return what a turn is worth as a source, and the facts that its answer was made from.

    What the user tells is the user's; an answer is the agent's, or the documents' that it comes from.
    """
    pieces = record.context.pieces if record.context is not None else ()
    shown = [piece for piece in pieces if piece.text]
    words = set(words_of(said))

    def share(text: str) -> float:
        return len(words & set(words_of(text))) / len(words) if words else 0.0

    passages = [piece.text for piece in shown if piece.kind == "passage"]
    read = share(" ".join(passages))
    lineage = tuple(
        int(piece.id.removeprefix("fact:"))
        for piece in shown
        if piece.kind == "fact" and share(piece.text) >= _QUOTED and share(piece.text) > read
    )
    if not is_asking(record.instruction):
        return "user", ()
    talk = share(" ".join(piece.text for piece in shown if piece.kind == "history"))
    is_talk = talk >= _QUOTED and talk > read
    return ("document" if passages and not is_talk else "agent"), lineage
