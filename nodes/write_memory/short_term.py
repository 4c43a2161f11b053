"""``short_term``: the last few events in graph state, within a token budget."""

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from envs.protocols import View
from nodes.protocols import MemoryParams, MemoryWriter, StepRecord
from nodes.resources import Resources
from stores.tokens import count_tokens, truncate
from stores.traces import Event


class ShortTerm(MemoryParams):
    """Keep recent events, oldest out first; old pages are kept cut, actions whole."""

    kind: Literal["short_term"] = "short_term"
    budget: int = Field(default=600, ge=1, description="tokens (cl100k) all kept events may have")
    page_tokens: int = Field(default=40, ge=1, description="tokens an earlier page may have")

    def build(self, resources: Resources) -> MemoryWriter:
        """Return the writer; nothing is loaded."""
        view = resources.view

        def write_memory(record: StepRecord) -> Sequence[Event]:
            # A step that runs again after a crash finds its own events here: they go first.
            earlier = [event for event in record.events if event.t < record.step]
            return self._within(earlier + self._step(record, view))

        return write_memory

    def _step(self, record: StepRecord, view: View) -> list[Event]:
        page = view.gist(record.observation.text, record.instruction)
        events = [
            Event("OBS", truncate(page, self.page_tokens), record.step),
            Event("ACT", record.decision.action, record.step),
        ]
        if record.outcome.reward:
            events.append(Event("REWARD", str(record.outcome.reward), record.step))
        return events

    def _within(self, events: list[Event]) -> list[Event]:
        """Return the newest events that fit; the newest of all is cut rather than dropped."""
        left = self.budget
        newest: list[Event] = []
        for event in reversed(events):
            size = count_tokens(event.text)
            if size > left:
                if not newest:
                    newest.append(Event(event.kind, truncate(event.text, left), event.t))
                break
            newest.append(event)
            left -= size
        return newest[::-1]
