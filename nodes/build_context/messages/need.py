"""The need scorer: a calibrated probability that a later turn needs a part of an earlier result.

A recurrent state of constant size reads the thread, message by message (a GRU over hashed words). With
it a small network scores every part: its structure, its key names, its tool, what calls took so far.
Inference is NumPy alone; ``stategate train need`` makes the checkpoint.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from langchain_core.messages import BaseMessage

from stategate.envs.messages.history import tools_called
from stategate.nodes.build_context.messages.part_features import (
    KEY_WORDS,
    Part,
    ThreadFacts,
    features,
    hashes,
    message_words,
    padded,
)
from stategate.nodes.protocols import Vector
from stategate.stores.assets.weights import load_arrays

#: The checkpoint that ships, and the kind that its JSON names.
SHIPPED, KIND = "need", "need"


class NeedScorer:
    """Scores parts by the probability that a later call or the answer takes a value from them."""

    def __init__(self, weights: Mapping[str, Any], meta: Mapping[str, Any]) -> None:
        self._weights = {name: np.array(w, dtype=np.float32) for name, w in weights.items()}
        self._weights["words"][0] = 0.0  # of no word
        self.meta = meta

    def initial(self) -> Vector:
        """Return the state before the first message."""
        return np.zeros(self._weights["state.recurrent"].shape[0], dtype=np.float32)

    def update(self, state: Vector, messages: Sequence[BaseMessage], start: int = 0) -> Vector:
        """Return the state after ``messages`` from place ``start`` on: a GRU step each."""
        tools = tools_called(messages)
        for message in messages[start:]:
            state = self._step(state, self._mean([message_words(message, tools)])[0])
        return state

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
        places = padded(rows, width)
        there = (places > 0).sum(axis=1, keepdims=True)
        vectors: Vector = self._weights["words"][places].sum(axis=1) / np.maximum(there, 1)
        return vectors

    def _step(self, state: Vector, word: Vector) -> Vector:
        """Return the next state of the GRU, in the order of gates of torch's ``GRUCell``."""
        weights = self._weights
        seen = weights["state.input"] @ word + weights["state.input_bias"]
        before = weights["state.recurrent"].T @ state + weights["state.recurrent_bias"]
        size = len(state)
        gates = 1 / (1 + np.exp(-(seen[: 2 * size] + before[: 2 * size])))
        reset, keep = gates[:size], gates[size:]
        new = np.tanh(seen[2 * size :] + reset * before[2 * size :])
        after: Vector = (1 - keep) * new + keep * state
        return after


@lru_cache(maxsize=8)
def load_scorer(name: str = SHIPPED) -> NeedScorer:
    """Return the scorer of a checkpoint. Raises ``UserError`` where it is missing or damaged."""
    weights, meta = load_arrays(name, KIND)
    return NeedScorer(weights, meta)
