"""``long_term``: what was told and what was settled, as facts in SQL, across sessions."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from stategate.envs.protocols import answered
from stategate.language.utterance import is_asking, is_forgetting
from stategate.nodes.protocols import Embedder, MemoryParams, MemoryWriter, StepRecord
from stategate.nodes.resources import Resources
from stategate.nodes.retrieval.memory import MemoryPlace
from stategate.stores.memory.extraction import extract_statements
from stategate.stores.text import one_line
from stategate.stores.traces import Event

if TYPE_CHECKING:
    from stategate.stores.memory.records import Statement, Turn


class LongTermMemory(MemoryParams):
    """Write what the user tells, once a turn; small talk, questions and answers are left out."""

    hint: ClassVar[str] = "keeps what was said, for later conversations"
    kind: Literal["long_term"] = "long_term"
    place: MemoryPlace = Field(default=MemoryPlace(), description="which memory, whose part")

    def build(self, resources: Resources) -> MemoryWriter:
        """Open the memory. Raises ``UserError`` where that fails."""
        store = self.place.open()

        def write_memory(record: StepRecord) -> None:
            owner = self.place.owner
            now = time.time()
            if answered(record.decision.action) is None:
                for turn in settled(record, resources, now):
                    store.add(owner, turn)
                return
            told = record.instruction
            if is_forgetting(told) or is_asking(told) or record.decision.fallback is not None:
                return
            statements = tuple(extract_statements(told, "user", now))
            store.add(owner, _told_turn(record, resources.embedder, statements, now), gated=True)

        return write_memory


def memory_place(writers: Sequence[MemoryParams]) -> MemoryPlace:
    """Return the long-term memory that ``writers`` write (this machine's where none does)."""
    places = (node.place for node in writers if isinstance(node, LongTermMemory))
    return next(places, MemoryPlace())


def _told_turn(
    record: StepRecord, embedder: Embedder, statements: "tuple[Statement, ...]", at: float
) -> "Turn":
    """Return what the user told, with the vectors to find it by."""
    from stategate.nodes.retrieval.remember import texts_of
    from stategate.stores.memory.records import Turn

    pieces = record.context.pieces if record.context is not None else ()
    about = " ".join(filter(None, (piece.says("about") for piece in pieces)))
    whole = f"{about} {record.instruction}".strip()
    first, *more = embedder.embed([whole, *texts_of(record.instruction, "", statements)[1:]])
    return Turn(
        record.thread_id,
        record.episode_id,
        record.step,
        record.instruction,
        first,
        embedder.name,
        at=at,
        about=about,
        statements=statements,
        more=tuple(more),
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

    view, page = resources.profile.view, record.observation
    lines = [line.text for line in view.status(page, view.chunks(page)) if line.is_settled]
    kept: list[tuple[str, tuple[Statement, ...]]] = []
    for line in lines:
        name, equals, value = line.partition(": ")[2].partition(" = ")
        chosen = (Statement("user", name, value),) if equals else ()
        kept.append((f"{line} (when asked: {one_line(record.instruction)})", chosen))
    for fact in resources.profile.experience.facts(_episode(record), record.outcome):
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
            vectors[place],
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
