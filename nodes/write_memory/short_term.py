"""``short_term`` and ``conversation``: the newest events or turns within a budget, in graph state."""

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from stategate.envs.protocols import answered
from stategate.nodes.protocols import MemoryParams, MemoryWriter, StepRecord
from stategate.nodes.resources import Resources
from stategate.stores.tokens import count_tokens, truncate
from stategate.stores.traces import Event


class ShortTerm(MemoryParams):
    """Keeps the last steps. The oldest go first; old pages are kept cut, actions whole."""

    kind: Literal["short_term"] = "short_term"
    budget: int = Field(default=600, ge=1, description="tokens (cl100k) all kept events may have")
    page_tokens: int = Field(default=40, ge=1, description="tokens an earlier page may have")

    def build(self, resources: Resources) -> MemoryWriter:
        """Return the writer; nothing is loaded."""
        adapter = resources.profile.experience

        def write_memory(record: StepRecord) -> Sequence[Event]:
            # A step that runs again after a crash replaces the events that it wrote.
            events = [event for event in record.events if event.t < record.step]
            page = adapter.summary_line(record.observation.text, record.instruction)
            events.append(Event("OBS", truncate(page, self.page_tokens), record.step))
            if note := adapter.matched_words(record.observation, record.instruction):
                events.append(Event("NOTE", truncate(note, self.page_tokens), record.step))
            events.append(Event("ACT", record.decision.action, record.step))
            if record.outcome.reward:
                events.append(Event("REWARD", str(record.outcome.reward), record.step))
            return self._within(events)

        return write_memory

    def _within(self, events: list[Event]) -> list[Event]:
        """Return the newest events that fit, pages filled in last; if none fits, the last one, cut."""
        left = self.budget
        kept: set[int] = set()
        for is_page in (False, True):
            for i in reversed(range(len(events))):
                if (events[i].kind == "OBS") != is_page:
                    continue
                size = count_tokens(events[i].text)
                if size > left:
                    break
                kept.add(i)
                left -= size
        if not kept and events:
            last = events[-1]
            return [Event(last.kind, truncate(last.text, left), last.t)]
        return [event for i, event in enumerate(events) if i in kept]


class Conversation(MemoryParams):
    """Keeps the last turns of a conversation.

    Whole turns, the oldest out first. They live in graph state, so the checkpointer brings them back
    after a restart.
    """

    kind: Literal["conversation"] = "conversation"
    budget: int = Field(default=2000, ge=1, description="tokens (cl100k) all recent turns may have")

    def build(self, resources: Resources) -> MemoryWriter:
        """Return the writer; nothing is loaded."""

        def write_memory(record: StepRecord) -> Sequence[Event]:
            # A step that runs again after a crash replaces the events that it wrote.
            earlier = [event for event in record.events if event.t < record.turn]
            answer = answered(record.decision.action)
            new = [
                Event("OBS", record.instruction, record.turn),
                Event("ACT", record.decision.action if answer is None else answer, record.turn),
            ]
            return self._within([*earlier, *new], record.turn)

        return write_memory

    def _within(self, events: Sequence[Event], turn: int) -> list[Event]:
        for start in (i for i, event in enumerate(events) if event.kind == "OBS"):
            recent = list(events[start:])
            if sum(count_tokens(event.text) for event in recent) <= self.budget:
                return recent
        # The newest turn alone exceeds the budget: each of its events is cut to an equal share.
        last = [event for event in events if event.t == turn]
        share = max(self.budget // max(len(last), 1), 1)
        return [Event(e.kind, truncate(e.text, share), e.t) for e in last]
