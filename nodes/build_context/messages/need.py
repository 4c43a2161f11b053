"""The need scorer: a calibrated probability that a later turn needs a part of an earlier result.

A *part* is a row, a key with its value, a line or a paragraph (``envs.messages.reading``). Its *values*
are the ids, amounts, dates, codes and names that a later call could take from it. Words are hashed:
there is no vocabulary, so any agent's tools can be read.

A recurrent state of constant size reads the thread, message by message (a GRU over hashed words). With
it a small network scores every part: its structure, its key names, its tool, what calls took so far.
Inference is NumPy alone; ``stategate train need`` makes the checkpoint.
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
from numpy.typing import NDArray

from stategate.envs.messages.history import bounded, text_of, tool_of, tools_called
from stategate.envs.messages.needs import readable_text
from stategate.envs.messages.reading import Span, format_of, spans
from stategate.nodes.protocols import Vector
from stategate.stores.assets.weights import load_arrays

#: The checkpoint that ships, and the kind that its JSON names.
SHIPPED, KIND = "need", "need"
#: Words are hashed to so many places; 0 stands for no word.
BUCKETS = 8192
#: Hashed words of a part's keys, and of a message.
KEY_WORDS, MESSAGE_WORDS = 8, 48
#: Messages of a thread that are read, its first two aside.
RECENT = 500
#: Checkpoints have a column for each; none is "html" any more, since HTML is read as its visible text.
_FORMATS = ("outline", "table", "log", "text", "markdown", "html")
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


#: How many numbers a row of :func:`features` has: those of the part, then those of the thread.
FEATURES = len(_KINDS) + 12 + len(_FORMATS) + 16


@dataclass(frozen=True)
class Part:
    """One part of a result: its values, the hashes of its key names, and its own features."""

    values: frozenset[str]
    keys: tuple[int, ...]
    static: tuple[float, ...]


@lru_cache(maxsize=512)
def parts_of(text: str) -> tuple[Part, ...]:
    """Return the parts of a result, in order, with the features that stay the same."""
    regions = spans(text)
    kind = format_of(text)
    siblings = Counter(span.leads for span in regions)
    positions: Counter[tuple[Span, ...]] = Counter()
    parts = []
    for span in regions:
        part_text, lead = span.text, span.leads[-1].text if span.leads else ""
        position = positions[span.leads]
        positions[span.leads] += 1
        words = _VALUE.findall(part_text[:2000])
        values = frozenset(w for w in words if len(w) > 1 and not (w.islower() and w.isalpha()))
        names = [*_names_in(part_text[:600])[:4], *_names_in(lead[:200])[-2:]]
        names += _COLUMN.findall(lead) if kind == "outline" else []
        static = (
            *(float(bool(pattern.search(part_text[:2000]))) for pattern in _KINDS),
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
        )
        parts.append(Part(values, hashes("k", names, KEY_WORDS), static))
    return tuple(parts)


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

    ``used`` and ``seen`` count key names by whether a call took a value that stood under them.
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
            words = values_in(readable_text(message))
            if isinstance(message, HumanMessage):
                facts.task = facts.task or words
                facts.last_words = words
                facts.turns += 1
            elif isinstance(message, AIMessage) and message.tool_calls:
                names = [name for call in message.tool_calls for name in call["args"]]
                facts.argument_names.update(hashes("k", names, 64))
                facts.last_call = words
                facts.called |= words
                new_words = words - facts.turn_words
                recent = chain.from_iterable(results[-20:])
                taken = (part.keys for part in recent if not new_words.isdisjoint(part.values))
                facts.used.update(chain.from_iterable(taken))
            facts.turn_words |= words
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
        )
    return np.asarray(rows, dtype=np.float32).reshape(len(parts), FEATURES)


def message_words(message: BaseMessage, tools: Mapping[str, str]) -> tuple[int, ...]:
    """Return the hashed words by which the recurrent state is updated with a message."""
    role = hashes("r", [message.type], 1)
    if isinstance(message, ToolMessage):
        tool = hashes("t", [tool_of(message, tools)], 6)
        keys = dict.fromkeys(
            key for part in parts_of(bounded(text_of(message)))[:40] for key in part.keys
        )
        return (*role, *tool, *keys)[:MESSAGE_WORDS]
    words = hashes("w", [text_of(message)[:1500]], MESSAGE_WORDS // 2)
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    called = hashes("t", [call["name"] for call in calls], 8)
    names = hashes("k", [name for call in calls for name in call["args"]], 12)
    return (*role, *called, *names, *words)[:MESSAGE_WORDS]


def padded(rows: Sequence[Sequence[int]], width: int) -> NDArray[np.int64]:
    """Return rows of hashes as a matrix; 0 fills up."""
    matrix = np.zeros((len(rows), width), dtype=np.int64)
    for number, row in enumerate(rows):
        matrix[number, : min(len(row), width)] = row[:width]
    return matrix


class NeedScorer:
    """Scores parts by the probability that a later call or the answer takes a value from them."""

    def __init__(self, weights: Mapping[str, Any]) -> None:
        self._weights = {name: np.array(w, dtype=np.float32) for name, w in weights.items()}
        self._weights["words"][0] = 0.0  # of no word

    def read(self, messages: Sequence[BaseMessage]) -> tuple[Vector, ThreadFacts]:
        """Return the recurrent state after ``messages``, and their facts.

        The state is a GRU's, in the order of gates of torch's ``GRUCell``. Of a longer thread its
        beginning and its last ``RECENT`` messages are read: their parts are cached.
        """
        weights, tools = self._weights, tools_called(messages)
        messages = [*messages[:2], *messages[2:][-RECENT:]]
        size = len(weights["query"])
        state = np.zeros(size, dtype=np.float32)
        words = self._mean([message_words(message, tools) for message in messages])
        for seen in words @ weights["state.input"].T + weights["state.input_bias"]:
            before = weights["state.recurrent"].T @ state + weights["state.recurrent_bias"]
            gates = 1 / (1 + np.exp(-(seen[: 2 * size] + before[: 2 * size])))
            reset, keep = gates[:size], gates[size:]
            new = np.tanh(seen[2 * size :] + reset * before[2 * size :])
            state = (1 - keep) * new + keep * state
        return state, ThreadFacts.of(messages)

    def scores(
        self, state: Vector, facts: ThreadFacts, results: Sequence[tuple[Sequence[Part], str, int]]
    ) -> list[Vector]:
        """Return the probability of each part of ``results``: (parts, tool's name, age in results)."""
        weights = self._weights
        rows, keys, tools, lengths = [], [], [], []
        for parts, tool, age in results:
            rows.append(features(parts, facts, age))
            keys += [part.keys for part in parts]
            tools += [hashes("t", [tool], 6)] * len(parts)
            lengths.append(len(parts))
        if not sum(lengths):
            return [np.zeros(0, dtype=np.float32) for _ in lengths]
        key, tool_word = self._mean(keys), self._mean(tools)
        query = state @ weights["query"]
        width = key.shape[1]
        matches = np.stack([key @ query[:width], tool_word @ query[width:]], axis=1)
        inputs = (np.concatenate(rows) - weights["center"]) / weights["scale"]
        repeated = np.broadcast_to(state, (len(inputs), len(state)))
        joined = np.concatenate([inputs, key, tool_word, matches, repeated], axis=1)
        hidden = np.maximum(joined @ weights["hidden.weight"].T + weights["hidden.bias"], 0)
        logits = hidden @ weights["out.weight"].T[:, 0] + weights["out.bias"]
        scale, shift = weights["calibration"]
        chances = 1 / (1 + np.exp(-np.clip(scale * logits + shift, -30, 30)))
        return np.split(chances, np.cumsum(lengths)[:-1])

    def _mean(self, rows: Sequence[Sequence[int]]) -> Vector:
        """Return the mean embedding of the hashed words of each row."""
        width = max(KEY_WORDS, *(len(row) for row in rows)) if rows else KEY_WORDS
        buckets = padded(rows, width)
        counts = (buckets > 0).sum(axis=1, keepdims=True)
        vectors: Vector = self._weights["words"][buckets].sum(axis=1) / np.maximum(counts, 1)
        return vectors


@lru_cache(maxsize=8)
def load_scorer(name: str) -> NeedScorer:
    """Return the scorer of a checkpoint. Raises ``UserError`` where it is missing or damaged."""
    return NeedScorer(load_arrays(name, KIND)[0])
