"""``trace``: writes each step's events to the trace store."""

from typing import Literal

from pydantic import Field

from stategate.nodes.protocols import MemoryParams, MemoryWriter, StepRecord
from stategate.nodes.resources import Resources
from stategate.stores.home import home
from stategate.stores.trace_store import TraceStore
from stategate.stores.traces import Event


class Trace(MemoryParams):
    """Writes every step down, to look at later. A step written twice is kept once."""

    kind: Literal["trace"] = "trace"
    path: str | None = Field(
        default=None,
        description="a file (by default traces.sqlite in $STATEGATE_HOME), or $STATEGATE_POSTGRES",
    )

    def store(self) -> TraceStore:
        """Open the store. Raises ``UserError`` where that fails."""
        return TraceStore(self.path or home() / "traces.sqlite")

    def build(self, resources: Resources) -> MemoryWriter:
        """Open the store, once. Raises ``UserError`` where that fails."""
        store = self.store()

        def write_memory(record: StepRecord) -> None:
            store.write_step(
                record.episode_id,
                record.step,
                events_of(record),
                thread_id=record.thread_id,
                task=record.task,
                instruction=record.instruction,
                reward=record.outcome.reward if _is_scored(record) else None,
                done=record.outcome.done,
            )

        return write_memory


def events_of(record: StepRecord) -> list[Event]:
    """Return a step's events: page, action, error if any, reward, and the last page when done."""
    t = record.step
    events = [Event("OBS", record.observation.text, t), Event("ACT", record.decision.action, t)]
    if record.decision.fallback is not None:
        events.append(Event("ERROR", record.decision.fallback, t))
    pieces = record.context.pieces
    events += [Event("ERROR", piece.id, t) for piece in pieces if piece.kind == "fallback"]
    if (record.outcome.reward or record.outcome.done) and _is_scored(record):
        events.append(Event("REWARD", str(record.outcome.reward), t))
    if record.outcome.done:
        events += [Event("OBS", record.outcome.text, t), Event("DONE", "", t)]
    return events


def _is_scored(record: StepRecord) -> bool:
    """Say whether the task has a reward: a world without one sets ``scored`` to False in its info."""
    return record.outcome.info.get("scored") is not False
