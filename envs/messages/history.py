"""Chat messages as data: text, tokens, calls with their results, and the repair of broken pairs.

All functions are pure: a message that must change is copied.
"""

import json
import zlib
from collections.abc import Mapping, Sequence, Set
from functools import lru_cache
from itertools import pairwise, takewhile
from typing import Any, TypeAlias

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from stategate.envs.messages.outline import Outline, outline
from stategate.envs.messages.reading import is_html, readable
from stategate.stores.tokens import count_tokens

#: A content block of a message: text, or a mapping with a "type".
Block: TypeAlias = str | dict[str, Any]
#: Characters above which a result is cut (some 50,000 tokens), and those kept of its start and end.
LARGEST = 200_000
BEGINNING, _END = 80_000, 20_000
_PAGE = 8_000  # characters of HTML above which its tags are left out
#: Quoted for a message that holds only images or files.
NO_TEXT = "[no text]"
#: Tokens of an image, at most, at the resolution that OpenAI and Anthropic scale it to.
IMAGE_TOKENS = 1600
#: Tokens of a message beside its contents: role, separators, name.
MESSAGE_TOKENS = 4


def keys_of(messages: Sequence[BaseMessage]) -> list[str]:
    """Return a unique key for each message: its id, else its index and a checksum of its contents."""
    keys: dict[str, None] = {}
    for index, message in enumerate(messages):
        key = message.id or f"{index}-{zlib.crc32(repr(message.content).encode()):08x}"
        keys[f"{index}-{key}" if key in keys else key] = None
    return list(keys)


def names_of(messages: Sequence[BaseMessage]) -> list[str]:
    """Return a unique name of five hex digits for each message, a hash of its key or call id.

    Some servers repeat call ids: where a name is taken, the message's key is hashed with it.
    """
    names: dict[str, None] = {}
    for key, message in zip(keys_of(messages), messages, strict=True):
        text = (message.tool_call_id if isinstance(message, ToolMessage) else "") or key
        while (name := f"{zlib.crc32(text.encode(errors='replace')):08x}"[:5]) in names:
            text = name + key
        names[name] = None
    return list(names)


def digest(text: str) -> int:
    """Return the CRC-32 of a result, by which a later call notices that it was changed."""
    return zlib.crc32(text.encode(errors="surrogatepass"))


def text_of(message: BaseMessage) -> str:
    """Return the text of a message: all text blocks and JSON blocks, joined by line breaks."""
    if isinstance(message.content, str):
        return message.content
    return "\n".join(text for block in message.content if (text := _block_text(block)) is not None)


@lru_cache(maxsize=2048)
def bounded(text: str) -> str:
    """Return JSON as an outline, a long page of HTML as its visible text, any other text as it is.

    A text above ``LARGEST`` is cut to its first and last lines. Short HTML keeps its attributes.
    """
    if len(text) > LARGEST:
        head, tail = text[:BEGINNING], text[-_END:]
        head, tail = head[: head.rfind("\n") + 1] or head, tail[tail.find("\n") + 1 :]
        text = f"{head}…\n{tail}"
    shorter = outline(text)
    is_page = len(text) > _PAGE and not isinstance(shorter, Outline) and is_html(text)
    return (is_page and readable(text)) or shorter


@lru_cache(maxsize=4096)
def tokens_in(text: str) -> int:
    """Return the token count of a text; above ``LARGEST`` it is extrapolated from the beginning.

    Cached, since every call of a thread repeats its messages.
    """
    if len(text) <= LARGEST:
        return count_tokens(text)
    return round(count_tokens(text[:BEGINNING]) * len(text) / BEGINNING)


def with_text(message: BaseMessage, text: str) -> BaseMessage:
    """Return a copy of ``message`` with one block of ``text`` for its text blocks, before the others.

    The new block has the other keys (``cache_control``) of the last text block.
    """
    if isinstance(message.content, str):
        return message.model_copy(update={"content": text})
    texts = [block for block in message.content if _block_text(block) is not None]
    others = [block for block in message.content if _block_text(block) is None]
    extra = texts[-1] if texts and isinstance(texts[-1], dict) and "text" in texts[-1] else {}
    block = {**extra, "type": "text", "text": text}
    return message.model_copy(update={"content": [block, *others]})


def media_of(message: BaseMessage) -> list[Block]:
    """Return the blocks of a tool's result that are no text: images and files."""
    has_blocks = isinstance(message, ToolMessage) and isinstance(message.content, list)
    return [b for b in message.content if _block_text(b) is None] if has_blocks else []


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
    """Return the tokens of ``message``: its text, calls, reasoning, images and files."""
    total = MESSAGE_TOKENS + tokens_in(text_of(message))
    if isinstance(message.content, list):
        total += sum(_block_tokens(block) for block in message.content)
    if isinstance(message, AIMessage):
        for call in (*message.tool_calls, *message.invalid_tool_calls):
            args = call.get("args")
            if not isinstance(args, str):
                args = json.dumps(args, ensure_ascii=False, default=str)
            name = f"{call.get('name')}{call.get('id')}"
            total += MESSAGE_TOKENS + tokens_in(name) + tokens_in(args)
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
    text = json.dumps(block, default=str, ensure_ascii=False)
    data = max(text.split(), key=len)
    if len(data) > 400 and data.isascii() and data.count('"') < 3:  # base64
        return min(len(text) // 4, IMAGE_TOKENS * max(1, len(text) // 200_000))
    return tokens_in(text)


# Calls and results --------------------------------------------------------------------------------


def calls_of(message: BaseMessage) -> list[str]:
    """Return the ids of a message's calls, in order, those with unreadable arguments last."""
    if not isinstance(message, AIMessage):
        return []
    calls = (*message.tool_calls, *message.invalid_tool_calls)
    return [str(call.get("id")) for call in calls]


def tools_called(messages: Sequence[BaseMessage]) -> dict[str, str]:
    """Return the tool name of every call, by call id."""
    return {
        str(call["id"]): call["name"]
        for message in messages
        if isinstance(message, AIMessage)
        for call in message.tool_calls
    }


def tool_of(message: BaseMessage, called: Mapping[str, str]) -> str:
    """Return the name of the tool that a message is a result of, "" if it is none or unknown."""
    if not isinstance(message, ToolMessage):
        return ""
    return message.name or called.get(message.tool_call_id, "")


def repaired(messages: Sequence[BaseMessage]) -> dict[int, BaseMessage]:
    """Return the valid messages by index: every call has a result, and every result its call.

    A call's result follows its message before anybody else speaks. The calls of the last AI message
    may still be running: they stay, unless a person spoke after them.
    """
    valid: dict[int, BaseMessage] = {}
    waiting: list[str] = []  # some servers give two calls one id
    for index, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            if message.tool_call_id in waiting:
                waiting.remove(message.tool_call_id)
                valid[index] = message
            continue
        waiting = calls_of(message)
        results = list(takewhile(_is_result, messages[index + 1 :]))
        lost = set(waiting) - {m.tool_call_id for m in results if isinstance(m, ToolMessage)}
        is_open = index + len(results) + 1 == len(messages)  # the rest may still come
        repair = _without_calls(message, lost) if lost and not is_open else message
        if repair is not None:
            valid[index] = repair
    return valid


def _is_result(message: BaseMessage) -> bool:
    return isinstance(message, ToolMessage)


def _without_calls(message: BaseMessage, lost: Set[str]) -> BaseMessage | None:
    """Return the text of a message and its calls except those ``lost``, or None if it has neither."""
    if not isinstance(message, AIMessage):
        return message
    valid = [call for call in message.tool_calls if str(call["id"]) not in lost]
    invalid = [call for call in message.invalid_tool_calls if str(call["id"]) not in lost]
    if not valid and not invalid and not text_of(message).strip():
        return None
    return AIMessage(
        text_of(message),
        id=message.id,
        name=message.name,
        tool_calls=valid,
        invalid_tool_calls=invalid,
    )


def rounds_of(messages: Sequence[BaseMessage]) -> list[range]:
    """Return the index ranges of (repaired) messages: each message with its tool results."""
    starts = [i for i, message in enumerate(messages) if not _is_result(message) or not i]
    return [range(*pair) for pair in pairwise([*starts, len(messages)])]


def calls_text(message: BaseMessage, without: str = "") -> str:
    """Return a message's calls as text (name, JSON arguments), except those of tool ``without``."""
    if not isinstance(message, AIMessage):
        return ""
    return "; ".join(
        f"{call['name']} {json.dumps(call['args'], ensure_ascii=False, default=str)}"
        for call in message.tool_calls
        if call["name"] != without
    )


def instruction_of(messages: Sequence[BaseMessage]) -> str:
    """Return the text of the first and of the last human message, once if they are equal."""
    requests = [text_of(m) for m in messages if isinstance(m, HumanMessage)]
    return "\n".join(dict.fromkeys([*requests[:1], *requests[-1:]]))
