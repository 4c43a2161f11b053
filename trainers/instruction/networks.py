"""The networks of the instruction reader in torch: each with its examples, loss and figures.

``language/instruction`` reads the same weights in NumPy. Every loss and metric takes the network first,
then examples, so that one function fits them all (``fit.fit_part``).
"""

import random
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from stategate.language.amounts import tokens
from stategate.language.instruction.goals import (
    OTHER,
    name_features,
    own_names,
    read_goal,
    sentence_features,
)
from stategate.language.instruction.weights import buckets
from stategate.trainers.instruction.marked import unmarked
from stategate.trainers.instruction.pages import ChoiceExample, SubjectExample
from stategate.trainers.instruction.rooms import Sentence
from stategate.trainers.trainer import Figures

_GOAL_BUCKETS = 8192
_DROPPED = 0.12  # share of hashed features that are hidden in training
_IN_ROOM = 0.7  # share of examples that choose among a room's places alone
_OFFERED = 12  # names that a room shows
_HIDDEN = {"value": 32, "subject": 8}


class HashedLinear(nn.Module):
    """A sum of hashed features' weights; rounded to bytes where it is shipped."""

    def __init__(self, size: int, out: int) -> None:
        super().__init__()
        self.table = nn.EmbeddingBag(size, out, mode="sum")
        nn.init.zeros_(self.table.weight)

    def forward(self, rows: Sequence[NDArray[np.int64]]) -> Tensor:
        """Return (rows, out); in training some features of each row are hidden."""
        flat = torch.from_numpy(np.concatenate(rows))
        starts = torch.tensor(np.cumsum([0, *map(len, rows[:-1])]))
        weights = torch.ones(len(flat))
        if self.training:
            weights = (torch.rand(len(flat)) >= _DROPPED) / (1 - _DROPPED)
        summed: Tensor = self.table(flat, starts, per_sample_weights=weights)
        return summed

    def arrays(self, name: str) -> dict[str, Tensor]:
        """Return the table as bytes, with a scale for each column."""
        weight = self.table.weight.detach()
        scale = weight.abs().amax(0).clamp_min(1e-6) / 127
        return {f"{name}/table": (weight / scale).round().to(torch.int8), f"{name}/scale": scale}


class GoalNetwork(nn.Module):
    """What ``language.instruction.goals`` does: a linear layer for kind, thing and place."""

    def __init__(self, names: Sequence[Sequence[str]]) -> None:
        super().__init__()
        self.sizes = [len(own) for own in names]
        self.sparse = HashedLinear(_GOAL_BUCKETS, sum(self.sizes))
        self.bias = nn.Parameter(torch.zeros(sum(self.sizes)))

    def forward(self, rows: Sequence[NDArray[np.int64]]) -> tuple[Tensor, ...]:
        """Return the logits of kind, thing and place."""
        length = torch.tensor([[max(len(row), 1) ** 0.5] for row in rows])
        logits: Tensor = self.sparse(rows) / length + self.bias
        return tuple(torch.split(logits, self.sizes, 1))

    def arrays(self) -> dict[str, Tensor]:
        """Return the weights as the reader of goals reads them."""
        return {**self.sparse.arrays("goal"), "goal/bias": self.bias}


#: A sentence's buckets, and the places of its kind, thing and place among the names.
GoalExample = tuple[NDArray[np.int64], tuple[int, int, int]]


def goal_example(sentence: Sentence, names: Sequence[Sequence[str]]) -> GoalExample:
    """Return a sentence as the classifier learns it; names that it does not know are "other"."""
    words = [token.word for token in tokens(unmarked(sentence.text)[0])]
    goal = (sentence.goal.kind, sentence.goal.thing, sentence.goal.place)
    kind, thing, place = (
        own.index(one) if one in own else own.index(OTHER)
        for own, one in zip(names, goal, strict=True)
    )
    return np.array(buckets(sentence_features(words), _GOAL_BUCKETS)), (kind, thing, place)


def goal_loss(network: GoalNetwork, batch: Sequence[GoalExample]) -> Tensor:
    """Return the cross-entropy of kind, thing and place."""
    gold = torch.tensor([own for _, own in batch])
    logits = network([row for row, _ in batch])
    return sum((cross_entropy(one, gold[:, i]) for i, one in enumerate(logits)), torch.zeros(()))


def goals_right(network: GoalNetwork, examples: Sequence[GoalExample]) -> Figures:
    """Return how often all is read right, and each of kind, thing and place."""
    gold = torch.tensor([own for _, own in examples])
    with torch.inference_mode():
        logits = network([row for row, _ in examples])
    right = torch.stack([one.argmax(1) for one in logits], 1) == gold
    figures = {"goals_right": float(right.all(1).float().mean())}
    return figures | dict(
        zip(("kind", "thing", "place"), right.float().mean(0).tolist(), strict=True)
    )


#: The features of each candidate of a slot, and the place of the right one.
NameExample = tuple[Tensor, int]


def name_examples(
    sentences: Sequence[Sentence], slot: str, rng: random.Random
) -> Iterator[NameExample]:
    """Yield candidates of ``slot`` with their features; those of a room are some of all names."""
    every = sorted({str(getattr(sentence.goal, slot)) for sentence in sentences})
    for sentence in sentences:
        gold = str(getattr(sentence.goal, slot))
        reading = read_goal(unmarked(sentence.text)[0])
        own = set() if slot == "place" and rng.random() < _IN_ROOM else own_names(reading, slot)
        names = sorted({*own, *rng.sample(every, min(_OFFERED, len(every))), gold} - {OTHER})
        rows = [name_features(reading, slot, name) for name in names]
        yield torch.tensor(rows), names.index(gold)


def name_loss(network: nn.Linear, batch: Sequence[NameExample]) -> Tensor:
    """Return the mean cross-entropy of the right candidates."""
    losses = [cross_entropy(network(rows)[:, 0][None], torch.tensor([i])) for rows, i in batch]
    return torch.stack(losses).mean()


def names_right(network: nn.Linear, examples: Sequence[NameExample]) -> Figures:
    """Return how often the likeliest candidate is the right one."""
    with torch.inference_mode():
        right = [int(network(rows)[:, 0].argmax()) == i for rows, i in examples]
    return {"names_right": float(np.mean(right))}


class Layered(nn.Module):
    """One hidden layer over named features."""

    def __init__(self, name: str, size: int, out: int) -> None:
        super().__init__()
        self.name = name
        self.first, self.second = nn.Linear(size, _HIDDEN[name]), nn.Linear(_HIDDEN[name], out)

    def forward(self, rows: Tensor) -> Tensor:
        """Return (rows, out)."""
        logits: Tensor = self.second(torch.tanh(self.first(rows)))
        return logits

    def arrays(self) -> dict[str, Tensor]:
        """Return the weights as they are read."""
        layers = {"1": self.first, "2": self.second}
        return {
            f"{self.name}/{kind}{i}": tensor
            for i, layer in layers.items()
            for kind, tensor in (("w", layer.weight.T), ("b", layer.bias))
        }


class ChoiceNetwork(nn.Module):
    """Which value of a choice is asked or excluded, and whether none is."""

    def __init__(self, value: int, none: int) -> None:
        super().__init__()
        self.value, self.none = Layered("value", value, 2), nn.Linear(none, 1)

    def arrays(self) -> dict[str, Tensor]:
        """Return the weights as ``language.instruction.choices`` reads them."""
        return {**self.value.arrays(), "none/w1": self.none.weight.T, "none/b1": self.none.bias}


def choice_logits(network: ChoiceNetwork, one: ChoiceExample) -> tuple[Tensor, Tensor]:
    """Return the logits of being asked (none last), and of being excluded."""
    out = network.value(torch.from_numpy(one.rows))
    return torch.cat([out[:, 0], network.none(torch.from_numpy(one.none))]), out[:, 1]


def choice_loss(network: ChoiceNetwork, batch: Sequence[ChoiceExample]) -> Tensor:
    """Return the mean cross-entropy of the asked value and of those excluded."""
    losses = []
    for one in batch:
        asked, out = choice_logits(network, one)
        losses.append(cross_entropy(asked[None], torch.tensor([one.asked])))
        others = [i for i in range(len(out)) if i != one.asked]
        if others:
            gold = torch.tensor([float(i in one.excluded) for i in others])
            losses.append(binary_cross_entropy_with_logits(out[others], gold))
    return torch.stack(losses).sum() / len(batch)


def choices_right(network: ChoiceNetwork, examples: Sequence[ChoiceExample]) -> Figures:
    """Return how often the likeliest value (or none) is the asked one."""
    with torch.inference_mode():
        right = [int(choice_logits(network, one)[0].argmax()) == one.asked for one in examples]
    return {"choices_right": float(np.mean(right))}


def subject_logits(network: Layered, examples: Sequence[SubjectExample]) -> Tensor:
    """Return the logit that each product is the thing that was asked for."""
    logits: Tensor = network(torch.from_numpy(np.stack([one.row for one in examples])))
    return logits[:, 0]


def subject_loss(network: Layered, batch: Sequence[SubjectExample]) -> Tensor:
    """Return the cross-entropy of being the thing that was asked for."""
    gold = torch.tensor([float(one.is_met) for one in batch])
    return binary_cross_entropy_with_logits(subject_logits(network, batch), gold)


def subjects_right(network: Layered, examples: Sequence[SubjectExample]) -> Figures:
    """Return how often a product is rightly taken for the thing asked for, or for another."""
    with torch.inference_mode():
        is_likely = subject_logits(network, examples) > 0
    return {
        "subjects_right": float(
            (is_likely == torch.tensor([e.is_met for e in examples])).float().mean()
        )
    }
