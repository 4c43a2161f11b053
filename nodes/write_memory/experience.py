"""``experience``: finished episodes go into a bank as the agent works.

A finished episode is labelled with its return and added at once. One that the step cap cuts off is
not finished, and not added.
"""

from collections import OrderedDict
from typing import Literal

from pydantic import Field

from stategate.nodes.experience.episode import add_episode, from_events, make_of, task_name
from stategate.nodes.protocols import MemoryParams, MemoryWriter, StepRecord
from stategate.nodes.resources import Resources
from stategate.nodes.write_memory.trace import events_of
from stategate.stores.bank import Bank, bank_place

_MAX_RUNNING = 64  # unfinished episodes in memory, so that abandoned ones do not add up


class ExperienceWriter(MemoryParams):
    """Adds finished episodes to the bank that context.kind=experience reads."""

    kind: Literal["experience"] = "experience"
    bank: str | None = Field(
        default=None,
        description="name ('state' by default) or folder, or $STATEGATE_POSTGRES#NAME",
    )

    def build(self, resources: Resources) -> MemoryWriter:
        """Open or make the bank. Raises ``UserError`` where its vectors are of another make."""
        embedder, adapter = resources.embedder, resources.profile.experience
        bank = Bank(bank_place(self.bank), "state", make_of(embedder), create=True)
        running: OrderedDict[str, list[StepRecord]] = OrderedDict()

        def write_memory(record: StepRecord) -> None:
            steps = running.pop(record.episode_id, [])
            # A session that went back takes later steps again.
            steps = [*(earlier for earlier in steps if earlier.step < record.step), record]
            if not record.outcome.done:
                running[record.episode_id] = steps
                if len(running) > _MAX_RUNNING:
                    running.popitem(last=False)
            elif len(steps) == record.step + 1:  # else it was resumed in another process
                episode = from_events(
                    record.episode_id,
                    [event for one in steps for event in events_of(one)],
                    question=record.instruction,
                    reward=float(record.outcome.reward),
                    task_id=task_name(record.task),
                    source="live",
                )
                add_episode(bank, episode, embedder, adapter)

        return write_memory
