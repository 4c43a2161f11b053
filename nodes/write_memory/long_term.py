"""``long_term``: every answered question as a fact, with its entities, in SQL, across sessions."""

from typing import Literal

from pydantic import Field

from envs.protocols import UNKNOWN, answered
from nodes.protocols import MemoryParams, MemoryWriter, StepRecord
from nodes.resources import Resources
from nodes.retrieval.entities import ExtractorKind, extractor_of
from nodes.retrieval.memory import MemoryPlace


class LongTermMemory(MemoryParams):
    """Write each turn once: a fact of salience 0.5, more if it was answered and names something."""

    kind: Literal["long_term"] = "long_term"
    place: MemoryPlace = Field(default=MemoryPlace(), description="which memory, whose part")
    extractor: ExtractorKind = Field(
        default="spacy",
        description="of entities: 'rules' is light, 'model' asks the language model",
    )

    def build(self, resources: Resources) -> MemoryWriter:
        """Open the memory. Raises ``UserError`` where that fails."""
        store = self.place.open()
        extract = extractor_of(self.extractor, resources)

        def write_memory(record: StepRecord) -> None:
            said = answered(record.decision.action)
            if said is None or record.decision.fallback is not None:
                return
            from nodes.build_context.follow_up import subject
            from stores.memory.records import Turn

            embedder = resources.embedder
            before = [event for event in record.events if event.t < record.turn]
            about = subject(record.instruction, before, extract)
            vectors = embedder.embed([f"{about} {record.instruction}".strip(), said])
            entities, relations = extract(f"{about} {record.instruction}\n{said}")
            success = said.rstrip(". ").lower() != UNKNOWN.rstrip(". ").lower()
            turn = Turn(
                record.thread_id, record.episode_id, record.step, record.instruction, said,
                vectors[0], vectors[1], embedder.name, success,
                0.5 + 0.1 * success + 0.1 * bool(entities),
                tuple(entities[:20]), tuple(relations[:20]), about=about,
            )  # fmt: skip
            store.write(self.place.namespace, turn)

        return write_memory
