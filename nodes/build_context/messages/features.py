"""The features of the need scorer: of a result's part, and of the thread that it stands in.

A *part* is a row, a key with its value, a line or a paragraph (``envs.messages.reading``). Its *values*
are the ids, amounts, dates, codes and names that a later call could take from it. No feature depends
on a vocabulary: key names are hashed, a word counts by how few parts of the result have it ("failed" in
one row of forty), a value by whether calls took such ones, a number by whether it is the least or the
greatest of its column.
"""

import math
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from typing import Any

import numpy as np
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from stategate.envs.messages.history import bounded, calls_text, text_of
from stategate.envs.messages.needs import readable_text
from stategate.envs.messages.reading import Span, format_of, spans
from stategate.nodes.protocols import Vector
from stategate.stores.text import words_of

#: Words are hashed to so many places; 0 stands for no word.
BUCKETS = 8192
#: Hashed words of a part's keys.
KEY_WORDS = 8
_PART, _TURN = 2000, 4000  # characters of a part, and of a turn, that are read
_SORTED, _NUMBERS = 600, 12  # characters and numbers of a part that are compared with its siblings'
_FORMATS = ("outline", "table", "log", "text", "markdown")
_VALUE = re.compile(r"[A-Za-z0-9_$#@][\w./:@#+-]*\w|\b[A-Z0-9]\b")
_KEY = re.compile(r"[\"']?([A-Za-z_][\w -]{0,30}?)[\"']?\s*[:=](?=\s|\"|'|\[|\{|\d|$|\w)")
_COLUMN = re.compile(r"[{,]([^{},]+)(?=[{},])")
_NAME_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_KINDS = tuple(
    re.compile(pattern)
    for pattern in (
        r"\d[A-Za-z]|[A-Za-z]\d|\w_\w",  # ids
        r"\d\.\d|[$€£]\s?\d",  # amounts
        r"\d{4}-\d\d|\d\d:\d\d|\d\d/\d\d",  # dates, times
        r"\w/\w|\w\.\w+\b(?<=[a-z])|@\w",  # paths, addresses
        r"\b[A-Z]{2,}\b",  # codes
        r"\b\d+\b",  # numbers
        r"\b[A-Z][a-z]+",  # names
        r"\b(?:true|false|null|none|None)\b",
        r"\b(?:error|Error|failed|not found)\b",
    )
)
_DIGITS, _UPPER, _LOWER = re.compile(r"\d+"), re.compile("[A-Z]+"), re.compile("[a-z]+")
_NUMBER = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d)?|\d+(?:\.\d+)?")
#: How many numbers a row of :func:`features` has: those of the part, then those of the thread.
FEATURES = len(_KINDS) + 12 + len(_FORMATS) + 4 + 28


@dataclass(frozen=True)
class Part:
    """One part of a result: its values, the hashes of its key names, and its own features.

    ``words`` gives each word's rarity: one by the number of the result's parts that have it. ``leads``
    are the values of the parts that lead it, ``shapes`` those of its values with digits.
    """

    values: frozenset[str]
    words: Mapping[str, float]
    leads: frozenset[str]
    shapes: frozenset[str]
    keys: tuple[int, ...]
    static: tuple[float, ...]


@lru_cache(maxsize=512)
def parts_of(text: str) -> tuple[Part, ...]:
    """Return the parts of a result, in order, with the features that stay the same."""
    regions = spans(text)
    kind = format_of(text)
    siblings = Counter(span.leads for span in regions)
    positions: Counter[tuple[Span, ...]] = Counter()
    words = [frozenset(words_of(span.text[:_PART])) for span in regions]
    holders = Counter(chain.from_iterable(words))
    parts = []
    for span, extremes in zip(regions, _extremes(regions), strict=True):
        part_text, lead = span.text, span.leads[-1].text if span.leads else ""
        position = positions[span.leads]
        positions[span.leads] += 1
        found = _VALUE.findall(part_text[:_PART])
        values = frozenset(w for w in found if len(w) > 1 and not (w.islower() and w.isalpha()))
        names = [*_names_in(part_text[:600])[:4], *_names_in(lead[:200])[-2:]]
        names += _COLUMN.findall(lead) if kind == "outline" else []
        static = (
            *(float(bool(pattern.search(part_text[:_PART]))) for pattern in _KINDS),
            _log(len(part_text) / 4),
            _log(len(values)),
            len(values) / (1 + len(part_text) / 6),
            float(span.is_lead),
            _log(len(span.leads)),
            span.number / len(regions),
            _log(position),
            _log(siblings[span.leads]),
            float(position == 0),
            float(not names),
            _log(len(regions)),
            _log(len(text) / 4),
            *(float(kind == one) for one in _FORMATS),
            *map(_log, extremes),
        )
        rarity = {word: 1 / holders[word] for word in words[span.number]}
        leads = frozenset(chain.from_iterable(values_in(one.text[:_PART]) for one in span.leads))
        keys = hashes("k", names, KEY_WORDS)
        parts.append(Part(values, rarity, leads, _shapes(values), keys, static))
    return tuple(parts)


def _extremes(regions: Sequence[Span]) -> list[list[float]]:
    """Return of how many columns each part has the least and greatest number, and date.

    A column is what stands at one place among the numbers of parts with the same leads. Parts with the
    same number share it.
    """
    flags = [[0.0] * 4 for _ in regions]
    groups: dict[tuple[Span, ...], list[Span]] = {}
    for span in regions:
        if not span.is_lead:
            groups.setdefault(span.leads, []).append(span)
    for group in groups.values():
        rows = [(_NUMBER.findall(s.text[:_SORTED])[:_NUMBERS], flags[s.number]) for s in group]
        for column in range(_NUMBERS):
            cells = [(row[column], own) for row, own in rows if len(row) > column]
            _mark([(float(cell), own) for cell, own in cells if "-" not in cell], 0)
            _mark([(cell, own) for cell, own in cells if "-" in cell], 2)
    return flags


def _mark(cells: Sequence[tuple[Any, list[float]]], place: int) -> None:
    """Count the least and the greatest of at least three different ``cells`` at their own flags."""
    values = [value for value, _ in cells]
    ends = (min(values), max(values)) if len(set(values)) > 2 else ()
    for number, end in enumerate(ends):
        share = 1 / values.count(end)
        for value, own in cells:
            own[place + number] += share * (value == end)


def _shapes(values: Iterable[str]) -> frozenset[str]:
    """Return the shapes of the values with digits: "SHP-0821-GL3" and "SHP-9-A2" are A-9-A9."""
    shapes = (_LOWER.sub("a", _UPPER.sub("A", _DIGITS.sub("9", value))) for value in values)
    return frozenset(shape for shape in shapes if "9" in shape)


@lru_cache(maxsize=4096)
def _names_in(text: str) -> list[str]:
    return _KEY.findall(text[: max(text.rfind(":"), text.rfind("=")) + 2])


def hashes(prefix: str, names: Iterable[str], limit: int) -> tuple[int, ...]:
    """Return the places of the words in ``names``: "getOrder_id" has get, order and id."""
    words = dict.fromkeys(w.lower() for name in names for w in _NAME_PART.findall(name))
    return tuple(_hash(f"{prefix}:{word}") for word in list(words)[:limit])


@lru_cache(maxsize=65536)
def _hash(word: str) -> int:
    return 1 + zlib.crc32(word.encode(errors="replace")) % (BUCKETS - 1)


@lru_cache(maxsize=4096)
def values_in(text: str) -> frozenset[str]:
    """Return the values and the plain words of a text."""
    return frozenset(_VALUE.findall(text[:20_000]))


def _log(number: float) -> float:
    return math.log1p(number) / 4


@dataclass
class ThreadFacts:
    """The thread's words and the values that its calls took, up to a call.

    ``used`` and ``seen`` count key names by whether a call took a value that stood under them,
    ``shapes`` those of the values that calls took. ``first_asked`` and ``asked`` are the words of a
    person's first and last turn, ``said`` of the assistant's last; ``newest`` the last result's values.
    """

    turn_words: set[str] = field(default_factory=set)
    task: frozenset[str] = frozenset()
    last_words: frozenset[str] = frozenset()
    last_call: frozenset[str] = frozenset()
    called: set[str] = field(default_factory=set)
    argument_names: set[int] = field(default_factory=set)
    holders: Counter[str] = field(default_factory=Counter)
    used: Counter[int] = field(default_factory=Counter)
    seen: Counter[int] = field(default_factory=Counter)
    shapes: Counter[str] = field(default_factory=Counter)
    asked: frozenset[str] = frozenset()
    first_asked: frozenset[str] = frozenset()
    said: frozenset[str] = frozenset()
    newest: frozenset[str] = frozenset()
    turns: int = 0
    results: int = 0

    @classmethod
    def of(cls, messages: Sequence[BaseMessage]) -> "ThreadFacts":
        """Return the facts of ``messages``, read from the first to the last."""
        facts = cls()
        results: list[tuple[Part, ...]] = []
        for message in messages:
            if isinstance(message, ToolMessage):
                results.append(parts_of(bounded(text_of(message))))
                facts.results += 1
                facts.holders.update(chain.from_iterable(part.values for part in results[-1]))
                facts.seen.update(chain.from_iterable(part.keys for part in results[-1]))
                continue
            turn = readable_text(message)
            words, stems = values_in(turn), _stems(turn[:_TURN])
            if isinstance(message, HumanMessage):
                facts.asked, facts.first_asked = stems, facts.first_asked or stems
                facts.task = facts.task or words
                facts.last_words = words
                facts.turns += 1
            elif isinstance(message, AIMessage):
                facts.said = stems
            if isinstance(message, AIMessage) and message.tool_calls:
                names = [name for call in message.tool_calls for name in call["args"]]
                facts.argument_names.update(hashes("k", names, 64))
                facts.last_call = words
                facts.called |= words
                facts.shapes.update(_shapes(values_in(calls_text(message))))
                new_words = words - facts.turn_words
                recent = chain.from_iterable(results[-20:])
                taken = (part.keys for part in recent if not new_words.isdisjoint(part.values))
                facts.used.update(chain.from_iterable(taken))
            facts.turn_words |= words
        facts.newest = frozenset(chain.from_iterable(p.values for r in results[-1:] for p in r))
        return facts


def features(parts: Sequence[Part], facts: ThreadFacts, age: int) -> Vector:
    """Return the features of a result's parts (parts, FEATURES); ``age`` counts results since."""
    rows = [part.static for part in parts]
    any_called = any(part.values & facts.called for part in parts[:400])
    for number, part in enumerate(parts):
        values, count = part.values, max(len(part.values), 1)
        keys = max(len(part.keys), 1)
        seen = sum(facts.seen[key] for key in part.keys)
        used = sum(facts.used[key] for key in part.keys)
        rows[number] += (
            len(values & facts.turn_words) / count,
            len(values & facts.called) / count,
            len(values & facts.task) / count,
            len(values & facts.last_words) / count,
            len(values & facts.last_call) / count,
            float(bool(values - facts.turn_words)),
            sum(1 / facts.holders[v] for v in values if facts.holders[v]) / count,
            _log(min((facts.holders[v] for v in values), default=0)),
            sum(key in facts.argument_names for key in part.keys) / keys,
            used / (1 + seen),
            _log(used),
            float(any_called),
            _log(age),
            float(age == 0),
            _log(facts.turns),
            _log(facts.results),
            *_asked_for(part, facts.asked),
            *_asked_for(part, facts.said),
            *_asked_for(part, facts.first_asked),
            len(values & facts.newest) / count if age else 0.0,
            _log(max((facts.shapes[shape] for shape in part.shapes), default=0)),
            float(not part.leads.isdisjoint(facts.called)),
            float(not part.leads.isdisjoint(facts.last_call)),
            float(not part.leads.isdisjoint(facts.last_words)),
            max(
                (1 / facts.holders[v] for v in values & facts.called if facts.holders[v]),
                default=0.0,
            ),
        )
    return np.asarray(rows, dtype=np.float32).reshape(len(parts), FEATURES)


def _asked_for(part: Part, asked: frozenset[str]) -> tuple[float, float]:
    """Return the rarity of the rarest word that a part shares with ``asked``, and of all together."""
    shared = [part.words[word] for word in part.words.keys() & asked]
    return max(shared, default=0.0), _log(sum(shared))


@lru_cache(maxsize=4096)
def _stems(text: str) -> frozenset[str]:
    return frozenset(words_of(text))
