"""The need scorer: a calibrated probability that a later turn needs a part of an earlier result.

Words are hashed: there is no vocabulary, so any agent's tools can be read. A recurrent state of
constant size reads the thread, message by message (a GRU over hashed words). With it a small network
scores every part by its ``features``. Inference is NumPy alone; ``stategate train need`` makes the
checkpoint.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from numpy.typing import NDArray

from stategate.envs.messages.history import bounded, text_of, tool_of, tools_called
from stategate.nodes.build_context.messages.features import (
    FEATURES,
    KEY_WORDS,
    Part,
    ThreadFacts,
    features,
    hashes,
    parts_of,
)
from stategate.nodes.protocols import Vector
from stategate.stores.assets.weights import load_arrays
from stategate.stores.errors import UserError

#: The checkpoint that ships, and the kind that its JSON names.
SHIPPED, KIND = "need", "need"
#: Hashed words of a message that are read.
MESSAGE_WORDS = 48
#: Messages of a thread that are read, its first two aside.
RECENT = 500


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
    """Return the scorer of a checkpoint. Raises ``UserError`` where it is missing, damaged or old."""
    weights = load_arrays(name, KIND)[0]
    if len(weights["center"]) != FEATURES:
        raise UserError(f"'{name}' reads other features: train it again (stategate train need)")
    return NeedScorer(weights)
