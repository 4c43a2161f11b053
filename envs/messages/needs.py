"""What a model's turn needs: values of its calls that stand literally in earlier messages.

A *value* is a leaf of a call's arguments ("HAT028", 310.23). One that stands nowhere whole (a shell
command, say) falls into its identifiers: words with a digit, a capital inside, or one of ``_ . / @ -``.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from stategate.envs.messages.history import bounded, calls_text, text_of
from stategate.envs.messages.reading import spans

#: (place of a result, number of one of its parts)
PartKey = tuple[int, int]
_SHORTEST = 3  # letters of a value that a turn can be said to need
_LONGEST = 200  # characters of a value that is looked for whole
_WORD = re.compile(r"\w[\w./@:$#+-]*\w")
_BREAK = re.compile(r"[./@:$#+-]+")
_IDENTIFIES = re.compile(r"\d|\w[_./@-]\w|[a-z][A-Z]")


@dataclass(frozen=True)
class Need:
    """A value that a turn takes from earlier messages; ``tool_only``: it stands in results alone."""

    value: str
    tool_only: bool


def needs_of(
    turn: BaseMessage, earlier: Sequence[BaseMessage], with_text: bool = False
) -> list[Need]:
    """Return the values in ``turn``'s calls that stand in ``earlier`` messages, each once.

    ``with_text`` adds the identifiers in its text that stand in earlier results alone.
    """
    turns = "\n".join(readable_text(m) for m in earlier if not isinstance(m, ToolMessage))
    results = "\n".join(text_of(m) for m in earlier if isinstance(m, ToolMessage))
    calls = turn.tool_calls if isinstance(turn, AIMessage) else []
    leaves = (leaf for call in calls for leaf in _leaves(call["args"]))
    values = dict.fromkeys(v for leaf in leaves for v in _standing(leaf, (turns, results)))
    needs = [Need(value, not stands_in(value, turns)) for value in values]
    words = dict.fromkeys(identifiers(text_of(turn)) if with_text else ())
    alone = (w for w in words if stands_in(w, results) and not stands_in(w, turns))
    return [*needs, *(Need(word, True) for word in alone)]


def calls_in(messages: Sequence[BaseMessage]) -> list[int]:
    """Return the places of the AI messages: each was one call of the model."""
    return [i for i, message in enumerate(messages) if isinstance(message, AIMessage) and i]


def needed_parts(
    messages: Sequence[BaseMessage], with_answers: bool = False
) -> list[tuple[int, str, list[PartKey]]]:
    """Return (turn, value, parts that hold it) of every value that stands in results alone.

    Values are those of calls and of the last answer; ``with_answers`` those of every answer.
    """
    turns = calls_in(messages)
    results = {
        place: bounded(text_of(message))
        for place, message in enumerate(messages)
        if isinstance(message, ToolMessage)
    }
    needed: list[tuple[int, str, list[PartKey]]] = []
    for turn in turns:
        is_answer = with_answers or turn == turns[-1]
        needs = needs_of(messages[turn], messages[:turn], is_answer)
        for value in dict.fromkeys(need.value for need in needs if need.tool_only):
            holders: list[PartKey] = []
            for place, text in results.items():
                if place < turn:
                    starts = [span.start for span in spans(text)]
                    numbers = {bisect_right(starts, at) - 1 for at in places_of(value, text)}
                    holders += [(place, number) for number in sorted(numbers)]
            needed.append((turn, value, holders))
    return needed


def readable_text(message: BaseMessage, without: str = "") -> str:
    """Return what a model reads of a message: its text and its calls, but those of ``without``."""
    called = calls_text(message, without)
    return f"{text_of(message)}\n{called}" if called else text_of(message)


def stands_in(value: str, text: str) -> bool:
    """Say whether ``value`` stands in ``text`` as a word of its own: "12" does not in "3124"."""
    return next(places_of(value, text), None) is not None


def places_of(value: str, text: str) -> Iterator[int]:
    """Yield where ``value`` stands in ``text`` as a word of its own."""
    at = text.find(value)
    while at >= 0:
        end = at + len(value)
        before, after = text[max(at - 1, 0) : at], text[end : end + 1]
        if not (_joins(before) and _joins(value[:1])) and not (
            _joins(after) and _joins(value[-1:])
        ):
            yield at
        at = text.find(value, at + 1)


def identifiers(text: str) -> Iterator[str]:
    """Yield the words of ``text`` that name one thing: ids, amounts, dates, paths, code names."""
    for match in _WORD.finditer(text):
        if len(match[0]) >= _SHORTEST and _IDENTIFIES.search(match[0]):
            yield match[0]


def _joins(character: str) -> bool:
    return character.isalnum() or character == "_"


def _standing(leaf: str, texts: Sequence[str]) -> Iterator[str]:
    """Yield ``leaf`` if it stands in a text, else those of its identifiers that do."""
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
            if is_long and _IDENTIFIES.search(piece) and any(stands_in(piece, t) for t in texts):
                yield piece


def _leaves(args: object) -> Iterator[str]:
    """Yield the leaves of a call's arguments as text."""
    if isinstance(args, Mapping):
        args = list(args.values())
    if isinstance(args, list | tuple):
        for one in args:
            yield from _leaves(one)
    elif args is not None and not isinstance(args, bool):
        yield str(args).strip()
