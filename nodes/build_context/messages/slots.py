"""Messages on their way into one prompt: what each costs, what is shown of it, and its audit row."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from stategate.envs.messages.history import (
    Count,
    Repaired,
    calls_text,
    key_of,
    name_of,
    rounds_of,
    text_of,
    tool_of,
    tools_called,
    with_text,
)
from stategate.nodes.build_context.messages.audit import Row
from stategate.nodes.build_context.messages.render import Rendering

#: In a message's metadata: this result was shortened before it was kept.
SHORTENED = "stategate_shortened"
_APPENDIX_ID = "stategate-appendix-"


@dataclass(eq=False)
class Slot:
    """One message on its way into the prompt."""

    place: int
    key: str
    name: str
    message: BaseMessage
    size: int  # tokens of the original
    text: str
    text_size: int  # tokens of the text alone
    turn: int
    role: str
    is_result: bool = False
    is_new: bool = False  # a result that no call has shown yet
    tool: str = ""  # whose result it is
    rendering: Rendering | None = None  # None: whole
    is_out: bool = False
    why: str = ""

    @property
    def shown_size(self) -> int:
        """Tokens of what is shown."""
        if self.is_out:
            return 0
        return self.size if self.rendering is None else self.bare_size + self.rendering.size

    @property
    def bare_size(self) -> int:
        """Tokens beside the text: role, ids, images."""
        return self.size - self.text_size

    @property
    def shown_text_size(self) -> int:
        """Tokens of the text that is shown."""
        return self.text_size if self.rendering is None else self.rendering.size


def slots_of(
    messages: Sequence[BaseMessage],
    repair: Repaired,
    size_of: Callable[[BaseMessage], int],
    count: Count,
) -> list[Slot]:
    """Return a slot a message of ``repair``, which was made of ``messages``."""
    slots: list[Slot] = []
    rounds = rounds_of(repair.messages)
    names = tools_called(repair.messages)
    for number, round_ in enumerate(rounds):
        for i in range(round_.start, round_.end):
            message, place = repair.messages[i], repair.places[i]
            is_result = isinstance(message, ToolMessage)
            text = text_of(message)
            slots.append(
                Slot(
                    place,
                    key_of(messages[place], place),
                    name_of(messages[place], place),
                    message,
                    size_of(message),
                    text,
                    count(text) if is_result else 0,
                    round_.turn,
                    round_.role,
                    is_result,
                    is_result and number == len(rounds) - 1,
                    tool=tool_of(message, names),
                )
            )
    return slots


def shown_messages(slots: Sequence[Slot], appendices: dict[str, str]) -> tuple[BaseMessage, ...]:
    """Return the messages that a call reads; those that are shown whole are the very same objects."""
    shown: list[BaseMessage] = []
    for slot in slots:
        appendix = appendices.get(slot.key, "")
        if slot.is_out:
            continue
        message = slot.message
        if slot.is_result and appendix:
            message = with_text(message, joined(slot, appendix))
        elif slot.rendering is not None:
            message = with_text(message, slot.rendering.text)
        shown.append(message)
        if appendix and not slot.is_result:
            shown.append(HumanMessage(appendix, id=f"{_APPENDIX_ID}{slot.name}"))
    return tuple(shown)


def joined(slot: Slot, appendix: str) -> str:
    """Return what is shown of a result, with the appendix after it."""
    text = slot.text if slot.rendering is None else slot.rendering.text
    return f"{text}\n\n{appendix}"


def is_appendix(message: BaseMessage) -> bool:
    """Say whether an earlier call added this message."""
    return str(message.id or "").startswith(_APPENDIX_ID)


def was_shortened(message: BaseMessage) -> bool:
    """Say whether ``graph.tool_results`` shortened a result; what its text says of it is only text."""
    return bool(message.response_metadata.get(SHORTENED))


def calls_in(slots: Sequence[Slot]) -> dict[str, str]:
    """Return each call, by its id, in short."""
    return {
        str(call["id"]): f"{call['name']}({', '.join(str(v) for v in call['args'].values())[:60]})"
        for slot in slots
        if isinstance(slot.message, AIMessage)
        for call in slot.message.tool_calls
    }


def rows_of(slots: Sequence[Slot]) -> list[Row]:
    """Return a row for each message that is not shown whole."""
    rows: list[Row] = []
    for slot in slots:
        rendering = slot.rendering
        if rendering is None and not slot.is_out:
            continue
        fate: Any = "left out"
        parts, parts_shown, score = 1, 0, None
        if rendering is not None:
            fate = "shortened" if rendering.shown else "note"
            parts, parts_shown, score = rendering.parts, rendering.shown, rendering.score
        label = slot.text[:80] or calls_text(slot.message)[:80]
        rows.append(
            Row(
                slot.key,
                slot.name,
                slot.message.type,
                " ".join(label.split()),
                fate,
                slot.size,
                slot.shown_size,
                parts,
                parts_shown,
                score,
                slot.why,
            )
        )
    return rows


def orphan_rows(
    messages: Sequence[BaseMessage],
    places: Sequence[int],
    orphans: Sequence[str],
    size_of: Callable[[BaseMessage], int],
) -> list[Row]:
    """Return a row for each message that is left out because its other half is missing."""
    shown = {*places}
    return [
        Row(
            key_of(message, i),
            name_of(message, i),
            message.type,
            " ".join(text_of(message)[:80].split()),
            "orphan",
            size_of(message),
            0,
            1,
            0,
            why="a call without its result, or a result without its call",
        )
        for i, message in enumerate(messages)
        if orphans and i not in shown
    ]
