"""``experience``: finished episodes go into a bank as the agent works.

Each step goes into the trace store, as ``trace`` writes it. A finished episode is read from there,
labelled with its return and added at once. One that the step cap cuts off is not finished, and not
added.
"""

from contextlib import suppress
from typing import Literal

from pydantic import Field

from stategate.nodes.experience.episode import add_episode, from_events, make_of, task_name
from stategate.nodes.protocols import MemoryParams, MemoryWriter, StepRecord
from stategate.nodes.resources import Resources
from stategate.nodes.write_memory.trace import Trace
from stategate.stores.bank import Bank, bank_place


class ExperienceWriter(MemoryParams):
    """Adds finished episodes to the bank that context.kind=experience reads."""

    kind: Literal["experience"] = "experience"
    bank: str | None = Field(
        default=None,
        description="name ('state' by default) or folder, or $STATEGATE_POSTGRES#NAME",
    )
    trace: Trace = Field(default=Trace(), description="the trace store that steps go into, too")

    def build(self, resources: Resources) -> MemoryWriter:
        """Open or make the bank. Raises ``UserError`` where its vectors are of another make."""
        embedder, adapter = resources.embedder, resources.profile.experience
        bank = Bank(bank_place(self.bank), "state", make_of(embedder), create=True)
        write_trace, traces = self.trace.build(resources), self.trace.store()

        def write_memory(record: StepRecord) -> None:
            write_trace(record)
            if not record.outcome.done:
                return
            with suppress(ValueError):  # the first steps of a fork are another episode's
                episode = from_events(
                    record.episode_id,
                    traces.events(record.episode_id),
                    question=record.instruction,
                    reward=float(record.outcome.reward),
                    task_id=task_name(record.task),
                    source="live",
                )
                add_episode(bank, episode, embedder, adapter)

        return write_memory
