"""``long_term``: what was told in conversations, as facts in SQL, across sessions."""

import time
from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from stategate.envs.protocols import answered
from stategate.nodes.protocols import MemoryParams, MemoryWriter, StepRecord
from stategate.nodes.resources import Resources
from stategate.nodes.retrieval.remember import MemoryPlace, texts_of
from stategate.stores.memory.records import Turn
from stategate.stores.memory.statements import extract_statements, told_part


class LongTermMemory(MemoryParams):
    """Keeps statements for later conversations; no questions, answers or wishes to forget."""

    kind: Literal["long_term"] = "long_term"
    place: MemoryPlace = Field(default=MemoryPlace(), description="which memory, whose part")

    def build(self, resources: Resources) -> MemoryWriter:
        """Open the memory. Raises ``UserError`` where that fails."""
        store = self.place.open()

        def write_memory(record: StepRecord) -> None:
            decision = record.decision
            if answered(decision.action) is None or decision.fallback is not None:
                return
            told = told_part(record.instruction, ("question", "forget"))
            if not told:
                return
            at, embedder = time.time(), resources.embedder
            pieces = record.context.pieces
            about = " ".join(filter(None, (piece.says("about") for piece in pieces)))
            first, *more = embedder.embed([f"{about} {told}".strip(), *texts_of(told)[1:]])
            turn = Turn(
                record.thread_id,
                record.episode_id,
                record.step,
                told,
                first,
                embedder.name,
                at=at,
                about=about,
                statements=extract_statements(told, "user", at),
                more=tuple(more),
            )
            store.add(self.place.owner, turn, gated=True)

        return write_memory


def memory_place(writers: Sequence[MemoryParams]) -> MemoryPlace:
    """Return the long-term memory that ``writers`` write (this machine's where none does)."""
    places = (node.place for node in writers if isinstance(node, LongTermMemory))
    return next(places, MemoryPlace())
