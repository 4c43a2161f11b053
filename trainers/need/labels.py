"""Recorded threads as training data: every part of every result, and whether a later turn needs it."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from langchain_core.messages import BaseMessage, ToolMessage
from numpy.typing import NDArray

from stategate.envs.messages.history import bounded, text_of, tool_of, tools_called
from stategate.envs.messages.needs import PartKey, calls_in, needed_parts
from stategate.nodes.build_context.messages.part_features import (
    KEY_WORDS,
    ThreadFacts,
    features,
    hashes,
    message_words,
    padded,
    parts_of,
)
from stategate.nodes.protocols import Vector

#: Numbers of places.
Places = NDArray[np.int64]
_MOST_PARTS = 20  # parts of one result that one decision learns from, beside those that are needed
_MOST_DECISIONS = 8  # decisions of one thread that are learned from


@dataclass(frozen=True)
class LabelledThread:
    """A thread's messages as hashed words, and a row a part and decision.

    ``decision`` is how many messages were read before it; ``weight`` stands for parts left out.
    """

    words: tuple[tuple[int, ...], ...]
    decision: Places
    features: Vector
    keys: Places
    tools: Places
    label: Vector
    weight: Vector


def labelled(task: str, messages: Sequence[BaseMessage], seed: int = 0) -> LabelledThread | None:
    """Return the rows of one thread, None where no result is read before a turn.

    A part that shares a needed value with others gets its share of the label.
    """
    rng = random.Random(f"{seed}-{task}")
    needs, tools = needed_parts(messages, True), tools_called(messages)
    turns = [turn for turn in calls_in(messages) if _results(messages[:turn])]
    matrices: list[Vector] = []
    rows: list[tuple[int, tuple[int, ...], tuple[int, ...], float, float]] = []
    for turn in sorted(rng.sample(turns, min(len(turns), _MOST_DECISIONS))):
        facts = ThreadFacts.of(messages[:turn])
        labels: dict[PartKey, float] = {}
        for later, _, holders in needs:
            for holder in holders if later >= turn else ():
                labels[holder] = labels.get(holder, 0.0) + 1 / len(holders)
        for age, place in enumerate(reversed(_results(messages[:turn]))):
            parts = parts_of(bounded(text_of(messages[place])))
            positive = [k for k in range(len(parts)) if (place, k) in labels]
            others = sorted(set(range(len(parts))) - set(positive))
            sampled = rng.sample(others, min(len(others), _MOST_PARTS))
            matrices.append(features(parts, facts, age)[[*positive, *sampled]])
            tool = hashes("t", [tool_of(messages[place], tools)], 6)
            share = len(others) / max(len(sampled), 1)
            for k in (*positive, *sampled):
                label = min(labels.get((place, k), 0.0), 1.0)
                rows.append((turn, parts[k].keys, tool, label, share if k in sampled else 1.0))
    if not rows:
        return None
    decisions, keys, tool_words, targets, weights = zip(*rows, strict=True)
    return LabelledThread(
        tuple(message_words(message, tools) for message in messages),
        np.asarray(decisions),
        np.concatenate(matrices),
        padded(keys, KEY_WORDS),
        padded(tool_words, 6),
        np.asarray(targets, dtype=np.float32),
        np.asarray(weights, dtype=np.float32) ** 0.5,
    )


def _results(messages: Sequence[BaseMessage]) -> list[int]:
    return [i for i, message in enumerate(messages) if isinstance(message, ToolMessage)]
