"""A list of chat messages as data: texts, calls and their results, rounds, and what is out of order.

All functions are pure, and none changes a message: one that must differ is a copy.
"""

import json
import re
import zlib
from collections.abc import Mapping, Sequence, Set
from functools import lru_cache
from itertools import pairwise, takewhile
from typing import Any, TypeAlias

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from stategate.envs.messages.reading import is_json
from stategate.stores.tokens import count_tokens

#: A part of a message: text, or a mapping with a "type".
Block: TypeAlias = str | dict[str, Any]
#: Characters of a result that are read; of a larger one its beginning and its end.
LARGEST = 200_000
BEGINNING, _END = 80_000, 20_000
#: What is quoted of a message that is an image or a file alone.
NO_TEXT = "[no text]"
#: A string of JSON, or space beside strings.
_JSON_SPACE = re.compile(r'("(?:[^"\\]|\\.)*")|\s+')
#: What an image costs at most at the resolution that OpenAI and Anthropic scale it to.
IMAGE_TOKENS = 1600
#: Role, separators, name: what every message costs beside its contents.
MESSAGE_TOKENS = 4


def key_of(message: BaseMessage, place: int) -> str:
    """Return the name of a message: its id, else its place and contents."""
    if message.id:
        return message.id
    return f"{place}-{zlib.crc32(repr(message.content).encode()):08x}"


def names_of(messages: Sequence[BaseMessage]) -> list[str]:
    """Return the five letters by which a model can name each message; a result goes by its call.

    Some servers give each turn's calls the same ids: where a name is taken, the message's own is added.
    """
    names: dict[str, None] = {}
    for place, message in enumerate(messages):
        key = key_of(message, place)
        text = (message.tool_call_id if isinstance(message, ToolMessage) else "") or key
        while (name := f"{zlib.crc32(text.encode(errors='replace')):08x}"[:5]) in names:
            text = name + key
        names[name] = None
    return list(names)


def digest(text: str) -> int:
    """Return a checksum that tells whether a result is still the one that was read."""
    return zlib.crc32(text.encode(errors="surrogatepass"))


def text_of(message: BaseMessage) -> str:
    """Return the text of a message: all text blocks and JSON blocks, joined by line breaks."""
    if isinstance(message.content, str):
        return message.content
    return "\n".join(text for block in message.content if (text := _block_text(block)) is not None)


@lru_cache(maxsize=2048)
def bounded(text: str) -> str:
    """Return a text as its parts are read: JSON without the spaces between its values.

    Of a text that is larger than ``LARGEST`` it is the beginning and the end, by lines.
    """
    if len(text) <= LARGEST:
        return _JSON_SPACE.sub(r"\1", text) if is_json(text) else text
    start, end = text[:BEGINNING], text[-_END:]
    return f"{start[: start.rfind(chr(10)) + 1] or start}…\n{end[end.find(chr(10)) + 1 :]}"


@lru_cache(maxsize=4096)
def tokens_in(text: str) -> int:
    """Return the tokens of a text of any size; of a large one they are estimated by its beginning.

    Histories repeat themselves: each text is counted once.
    """
    if len(text) <= LARGEST:
        return count_tokens(text)
    return round(count_tokens(text[:BEGINNING]) * len(text) / BEGINNING)


def with_text(message: BaseMessage, text: str) -> BaseMessage:
    """Return a copy of ``message`` whose text is ``text``; blocks that are no text stay.

    What stands beside the text of its last block (``cache_control``) stays with it.
    """
    if isinstance(message.content, str):
        return message.model_copy(update={"content": text})
    texts = [block for block in message.content if _block_text(block) is not None]
    extra = texts[-1] if texts and isinstance(texts[-1], dict) and "text" in texts[-1] else {}
    blocks: list[Block] = []
    is_written = False
    for block in message.content:
        if _block_text(block) is None:
            blocks.append(block)
        elif not is_written:
            blocks.append({**extra, "type": "text", "text": text})
            is_written = True
    return message.model_copy(update={"content": blocks})


def _block_text(block: Block) -> str | None:
    if isinstance(block, str):
        return block
    if block.get("type") in ("text", "text-plain") and isinstance(block.get("text"), str):
        text: str = block["text"]
        return text
    if block.get("type") == "json" or "json" in block:
        return json.dumps(block.get("json", block), ensure_ascii=False)
    return None


def tokens_of(message: BaseMessage) -> int:
    """Return what ``message`` costs to read: text, calls, reasoning, images and files."""
    total = MESSAGE_TOKENS + tokens_in(text_of(message))
    if isinstance(message.content, list):
        total += sum(_block_tokens(block) for block in message.content)
    if isinstance(message, AIMessage):
        for call in (*message.tool_calls, *message.invalid_tool_calls):
            args = call.get("args")
            body = (
                args if isinstance(args, str) else json.dumps(args, ensure_ascii=False, default=str)
            )
            name = f"{call.get('name')}{call.get('id')}"
            total += MESSAGE_TOKENS + tokens_in(name) + tokens_in(body)
    if isinstance(message, ToolMessage):
        total += tokens_in(message.tool_call_id)
    return total


def _block_tokens(block: Block) -> int:
    if isinstance(block, str) or _block_text(block) is not None:
        return 0
    kind = str(block.get("type", ""))
    if kind in ("tool_use", "tool_call", "function_call", "input_json_delta"):
        return 0  # counted as calls
    if "image" in kind:
        return IMAGE_TOKENS
    reasoning = block.get("thinking") or block.get("reasoning")
    if isinstance(reasoning, str):
        return tokens_in(reasoning)
    size = len(json.dumps(block, default=str))
    return min(size // 4, IMAGE_TOKENS * max(1, size // 200_000)) if size > 8000 else size // 4


# Calls and results --------------------------------------------------------------------------------


def calls_of(message: BaseMessage) -> list[str]:
    """Return the ids of the calls that a message makes, in order, unreadable ones too."""
    if not isinstance(message, AIMessage):
        return []
    calls = (*message.tool_calls, *message.invalid_tool_calls)
    return [str(call.get("id")) for call in calls]


def tools_called(messages: Sequence[BaseMessage]) -> dict[str, str]:
    """Return the name of the tool by the id of each call."""
    return {
        str(call["id"]): call["name"]
        for message in messages
        if isinstance(message, AIMessage)
        for call in message.tool_calls
    }


def tool_of(message: BaseMessage, called: Mapping[str, str]) -> str:
    """Return the name of the tool whose result a message is, "" where it is none or nobody says."""
    if not isinstance(message, ToolMessage):
        return ""
    return message.name or called.get(message.tool_call_id, "")


def repaired(messages: Sequence[BaseMessage]) -> dict[int, BaseMessage]:
    """Return the messages that providers take, by place: no result without a call, no lost call.

    A call belongs to the results that follow its message before anybody else speaks. The calls of
    the last AI message may still be waiting: they stay, unless a person spoke after them.
    """
    standing: dict[int, BaseMessage] = {}
    waiting: set[str] = set()
    for place, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            if message.tool_call_id in waiting:
                waiting.remove(message.tool_call_id)
                standing[place] = message
            continue
        waiting = set(calls_of(message))
        results = list(takewhile(_is_result, messages[place + 1 :]))
        lost = waiting - {m.tool_call_id for m in results if isinstance(m, ToolMessage)}
        is_open = place + len(results) + 1 == len(messages)  # the rest may still come
        whole = _without_calls(message, lost) if lost and not is_open else message
        if whole is not None:
            standing[place] = whole
    return standing


def _is_result(message: BaseMessage) -> bool:
    return isinstance(message, ToolMessage)


def _without_calls(message: BaseMessage, lost: Set[str]) -> BaseMessage | None:
    """Return a copy without the calls ``lost``, None where the message is then empty."""
    if not isinstance(message, AIMessage):
        return message
    content: Any = message.content
    if isinstance(content, list):
        names = ("id", "call_id", "tool_call_id")
        content = [b for b in content if isinstance(b, str) or lost.isdisjoint(map(b.get, names))]
    extra = dict(message.additional_kwargs)

    def stays(call: Mapping[str, object]) -> bool:
        return str(call.get("id")) not in lost

    raw = list(filter(stays, extra.pop("tool_calls", None) or ()))
    update = {
        "tool_calls": list(filter(stays, message.tool_calls)),
        "invalid_tool_calls": list(filter(stays, message.invalid_tool_calls)),
        "content": content,
        "additional_kwargs": {**extra, "tool_calls": raw} if raw else extra,
    }
    copy = message.model_copy(update=update)
    has_calls = copy.tool_calls or copy.invalid_tool_calls
    return copy if has_calls or text_of(copy).strip() else None


def rounds_of(messages: Sequence[BaseMessage]) -> list[range]:
    """Return the places of (repaired) messages that stay or go together: a message, its results."""
    starts = [at for at, message in enumerate(messages) if not _is_result(message) or not at]
    return [range(*pair) for pair in pairwise([*starts, len(messages)])]


def calls_text(message: BaseMessage, without: str = "") -> str:
    """Return the calls of a message as text: name and arguments; not those of the tool ``without``."""
    if not isinstance(message, AIMessage):
        return ""
    return "; ".join(
        f"{call['name']} {json.dumps(call['args'], ensure_ascii=False, default=str)}"
        for call in message.tool_calls
        if call["name"] != without
    )


def instruction_of(messages: Sequence[BaseMessage]) -> str:
    """Return what people asked for: the last message of theirs, and the first where that is another."""
    requests = [text_of(m) for m in messages if isinstance(m, HumanMessage)]
    return "\n".join(dict.fromkeys([*requests[:1], *requests[-1:]]))
