"""``long_term``: every answered question as a fact, in SQL, across sessions."""

import re
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from stategate.envs.protocols import UNKNOWN, answered
from stategate.nodes.act.support import NOTHING_FOUND
from stategate.nodes.protocols import MemoryParams, MemoryWriter, StepRecord
from stategate.nodes.resources import Resources
from stategate.nodes.retrieval.memory import MemoryPlace
from stategate.nodes.retrieval.statements import StatementKind, statements_of
from stategate.stores.text import one_line, words_of
from stategate.stores.traces import Event

if TYPE_CHECKING:
    from stategate.stores.memory.records import Turn

#: The share of an answer's words from which a remembered fact is what it was made from, where the
#: passages hold fewer.
_QUOTED = 0.8
#: What makes a turn a question.
_ASKS = re.compile(
    r"\?\s*$|^\W*(?:who|whom|whose|when|where|why|how|which|what|is|are|was|were|do|does|did|can|could|"
    r"should|would|will|has|have|had|tell|explain|name|list)\b",
    re.IGNORECASE,
)


class LongTermMemory(MemoryParams):
    """Write each turn once: found by question, answer and their sentences; small talk is left out."""

    hint: ClassVar[str] = "keeps what was said, for later conversations"
    kind: Literal["long_term"] = "long_term"
    place: MemoryPlace = Field(default=MemoryPlace(), description="which memory, whose part")
    statements: StatementKind = Field(
        default="rules",
        description="what reads who is or does what, and when: 'model' asks the language model",
    )
    gate: bool = Field(default=True, description="keep no small talk")

    def build(self, resources: Resources) -> MemoryWriter:
        """Open the memory. Raises ``UserError`` where that fails."""
        store = self.place.open()
        state = statements_of(self.statements, resources)

        def write_memory(record: StepRecord) -> None:
            said = answered(record.decision.action)
            if said is None:
                now = store.now(self.place.namespace, record.thread_id)
                for turn in settled(record, resources, now):
                    store.add(self.place.namespace, turn)
                return
            if record.decision.fallback is not None:
                return
            from stategate.nodes.retrieval.remember import texts_of
            from stategate.stores.memory.records import Turn

            embedder, asked = resources.embedder, record.instruction
            now = store.now(self.place.namespace, record.thread_id)
            pieces = record.context.pieces if record.context is not None else ()
            about = " ".join(filter(None, (piece.says("about") for piece in pieces)))
            statements = tuple(state(asked, "user", now))
            halves = [f"{about} {asked}".strip(), said]
            more = [*texts_of(asked, "", statements)[1:], *texts_of(said)[1:]]
            vectors = embedder.embed([*halves, *more])
            failures = {text.rstrip(". ").lower() for text in (UNKNOWN, NOTHING_FOUND)}
            success = said.rstrip(". ").lower() not in failures
            source, lineage = _origin(record, said)
            turn = Turn(
                record.thread_id,
                record.episode_id,
                record.step,
                asked,
                said,
                vectors[0],
                vectors[1],
                embedder.name,
                success,
                0.5 + 0.1 * success,
                at=now,
                about=about,
                source=source,
                lineage=lineage,
                statements=statements,
                more=tuple(vectors[2:]),
            )
            store.add(self.place.namespace, turn, gated=self.gate)

        return write_memory


def settled(record: StepRecord, resources: Resources, now: float) -> list["Turn"]:
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
    if not kept:
        return []
    vectors = resources.embedder.embed([text for text, _ in kept])
    turns = []
    for place, (text, states) in enumerate(kept):
        turns.append(
            Turn(
                record.thread_id,
                f"{record.episode_id}#{place}",
                record.step,
                text,
                "",
                vectors[place],
                None,
                resources.embedder.name,
                at=now,
                source="agent",
                statements=states,
            )
        )
    return turns


def _episode(record: StepRecord) -> list[Event]:
    """Return the episode's events as far as they are recent, this step's included."""
    t = record.step
    own = [
        Event("OBS", record.observation.text, t),
        Event("ACT", record.decision.action, t),
        Event("OBS", record.outcome.text, t + 1),
    ]
    known = {(event.kind, event.t) for event in own}
    return [*(e for e in record.events if (e.kind, e.t) not in known), *own]


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
    if not _ASKS.search(record.instruction):
        return "user", ()
    talk = share(" ".join(piece.text for piece in shown if piece.kind == "history"))
    is_talk = talk >= _QUOTED and talk > read
    return ("document" if passages and not is_talk else "agent"), lineage
