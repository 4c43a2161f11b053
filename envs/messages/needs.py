"""Needs of a model's turn: values of its calls that earlier messages hold literally.

A *value* is a leaf of a call's arguments ("HAT028", 310.23). One that no message holds whole (a shell
command, say) is split into identifiers: words with a digit, a capital inside, or one of ``_ . / @ -``.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from stategate.envs.messages.history import bounded, calls_text, text_of
from stategate.envs.messages.reading import spans

#: (index of the result among the messages, index of a part within it)
PartKey = tuple[int, int]
_SHORTEST = 3  # characters of a value: shorter ones occur by chance
_LONGEST = 200  # characters of a value that is searched whole
_WORD = re.compile(r"\w[\w./@:$#+-]*\w")
_BREAK = re.compile(r"[./@:$#+-]+")
IDENTIFIES = re.compile(r"\d|\w[_./@-]\w|[a-z][A-Z]")


@dataclass(frozen=True)
class Need:
    """A value that a turn takes from earlier messages; ``tool_only``: only tool results hold it."""

    value: str
    tool_only: bool


def needs_of(
    turn: BaseMessage, earlier: Sequence[BaseMessage], with_text: bool = False
) -> list[Need]:
    """Return the values in ``turn``'s calls that ``earlier`` messages hold, each once.

    ``with_text`` adds the identifiers in its text that only earlier results hold.
    """
    speech = "\n".join(readable_text(m) for m in earlier if not isinstance(m, ToolMessage))
    results = "\n".join(text_of(m) for m in earlier if isinstance(m, ToolMessage))
    calls = turn.tool_calls if isinstance(turn, AIMessage) else []
    leaves = (leaf for call in calls for leaf in _leaves(call["args"]))
    values = dict.fromkeys(v for leaf in leaves for v in _values_held(leaf, (speech, results)))
    needs = [Need(value, not stands_in(value, speech)) for value in values]
    words = dict.fromkeys(identifiers(text_of(turn)) if with_text else ())
    tool_only = (w for w in words if stands_in(w, results) and not stands_in(w, speech))
    return [*needs, *(Need(word, True) for word in tool_only)]


def calls_in(messages: Sequence[BaseMessage]) -> list[int]:
    """Return the indices of the AI messages, except an opening one: each was one model call."""
    return [i for i, message in enumerate(messages) if isinstance(message, AIMessage) and i]


def needed_parts(
    messages: Sequence[BaseMessage], with_answers: bool = False
) -> list[tuple[int, str, list[PartKey]]]:
    """Return (turn index, value, keys of the parts that hold it) of each value that only results hold.

    Values are those of calls and of the last answer; ``with_answers`` adds those of every answer.
    """
    turns = calls_in(messages)
    results = {
        index: bounded(text_of(message))
        for index, message in enumerate(messages)
        if isinstance(message, ToolMessage)
    }
    needed: list[tuple[int, str, list[PartKey]]] = []
    for turn in turns:
        is_answer = with_answers or turn == turns[-1]
        needs = needs_of(messages[turn], messages[:turn], is_answer)
        for value in dict.fromkeys(need.value for need in needs if need.tool_only):
            holders: list[PartKey] = []
            for index, text in results.items():
                parts = spans(text) if index < turn else ()
                holders += [(index, part.number) for part in parts if stands_in(value, part.text)]
            needed.append((turn, value, holders))
    return needed


def readable_text(message: BaseMessage, without: str = "") -> str:
    """Return the text and the calls of a message, except the calls of tool ``without``."""
    called = calls_text(message, without)
    return f"{text_of(message)}\n{called}" if called else text_of(message)


def stands_in(value: str, text: str) -> bool:
    """Say whether ``text`` holds ``value`` as a whole word: "3124" does not hold "12"."""
    return next(places_of(value, text), None) is not None


def places_of(value: str, text: str) -> Iterator[int]:
    """Yield the offsets at which ``text`` holds ``value`` as a whole word."""
    at = text.find(value)
    while at >= 0:
        end = at + len(value)
        before, after = text[max(at - 1, 0) : at], text[end : end + 1]
        goes_on_left = _is_word_character(before) and _is_word_character(value[:1])
        goes_on_right = _is_word_character(after) and _is_word_character(value[-1:])
        if not goes_on_left and not goes_on_right:
            yield at
        at = text.find(value, at + 1)


def identifiers(text: str) -> Iterator[str]:
    """Yield the identifiers in ``text``: ids, amounts, dates, paths, code names."""
    for match in _WORD.finditer(text):
        if len(match[0]) >= _SHORTEST and IDENTIFIES.search(match[0]):
            yield match[0]


def _is_word_character(character: str) -> bool:
    return character.isalnum() or character == "_"


def _values_held(leaf: str, texts: Sequence[str]) -> Iterator[str]:
    """Yield ``leaf`` if a text holds it, else those of its identifiers that a text holds."""
    if len(leaf) < _SHORTEST:
        return
    if len(leaf) <= _LONGEST and any(stands_in(leaf, text) for text in texts):
        yield leaf
        return
    for word in identifiers(leaf):
        if any(stands_in(word, text) for text in texts):
            yield word
            continue
        for piece in _BREAK.split(word):
            is_long = len(piece) >= _SHORTEST
            if is_long and IDENTIFIES.search(piece) and any(stands_in(piece, t) for t in texts):
                yield piece


def _leaves(args: object) -> Iterator[str]:
    """Yield the leaves of a call's arguments as text."""
    if isinstance(args, Mapping):
        args = list(args.values())
    if isinstance(args, list | tuple):
        for value in args:
            yield from _leaves(value)
    elif args is not None and not isinstance(args, bool):
        yield str(args).strip()
