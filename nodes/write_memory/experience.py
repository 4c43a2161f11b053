"""``experience``: finished episodes go into a bank as the agent works.

A finished episode is annotated by its return and added at once; an episode that is cut off at the
step cap is not finished and adds nothing. The bank is capped: the least useful tenth goes (see
``nodes.experience.grow``).
"""

from collections import OrderedDict
from typing import ClassVar, Literal

from pydantic import Field

from stategate.nodes.experience.episode import Episode, from_events, task_name
from stategate.nodes.experience.grow import add_episode, make_of, prune
from stategate.nodes.protocols import MemoryParams, MemoryWriter, StepRecord
from stategate.nodes.resources import Resources
from stategate.nodes.write_memory.trace import events_of
from stategate.stores.bank.bank import bank_place
from stategate.stores.bank.search import StateBank

_OPEN = 64  # unfinished episodes remembered


class ExperienceWriter(MemoryParams):
    """Add finished episodes to a state bank, return-based."""

    hint: ClassVar[str] = "learns from finished episodes, for experience to advise"
    kind: Literal["experience"] = "experience"
    bank: str | None = Field(
        default=None,
        description="name ('state' by default) or folder, or $STATEGATE_POSTGRES#NAME",
    )
    cap: int = Field(default=100_000, ge=10, description="rows the bank may have")

    def build(self, resources: Resources) -> MemoryWriter:
        """Open or make the bank. Raises ``UserError`` where its vectors are of another make."""
        return Writer(self, resources)


class Writer:
    """Collects the steps of running episodes; writes at their end."""

    def __init__(self, params: ExperienceWriter, resources: Resources) -> None:
        self._params = params
        self._embedder = resources.embedder
        self._told = resources.profile.experience
        make = make_of(self._embedder)
        self.bank = StateBank(bank_place(params.bank), make, create=True)
        self._running: OrderedDict[str, dict[int, StepRecord]] = OrderedDict()

    def __call__(self, record: StepRecord) -> None:
        """Keep the step; at the end of the episode, add it to the bank."""
        steps = self._running.setdefault(record.episode_id, {})
        for later in [t for t in steps if t > record.step]:
            del steps[later]  # stepped back: the old future is gone
        steps[record.step] = record
        self._running.move_to_end(record.episode_id)
        while len(self._running) > _OPEN:
            self._running.popitem(last=False)
        if not record.outcome.done:
            return
        del self._running[record.episode_id]
        if sorted(steps) == list(range(record.step + 1)):  # else it was resumed in another process
            self._finish([steps[t] for t in sorted(steps)])

    def _finish(self, records: list[StepRecord]) -> None:
        last = records[-1]
        if self.bank.bank.is_read(last.episode_id):
            return
        add_episode(self.bank, episode_of(records), self._embedder, self._told)
        if len(self.bank.bank) > self._params.cap:
            prune(self.bank.bank, int(0.9 * self._params.cap))


def episode_of(records: list[StepRecord]) -> Episode:
    """Make a trajectory of the steps of a finished episode."""
    events = [event for record in records for event in events_of(record)]
    last = records[-1]
    about = {"question": last.instruction, "task_id": task_name(last.task), "source": "live"}
    return from_events(last.episode_id, events, reward=float(last.outcome.reward), **about)
