"""Train the rest of the instruction reader: goals, names, choices and subjects; one checkpoint.

They read the tags of the token tagger (``stategate train tagger`` comes first). Sentences come from
the shop's wordings by several writers and from people's sentences for tasks in rooms. The splits of
wordings in ``held_out`` and the goals of ``valid_unseen``'s games are left out of training, so that
both can be tested. Parts are networks in torch, trained in the order in which they read each other;
``language/instruction`` reads the same weights in NumPy.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from stategate.language.amounts import tokens
from stategate.language.instruction.aligned import AlignedInstruction
from stategate.language.instruction.choices import choice_features
from stategate.language.instruction.goals import (
    KINDS,
    OTHER,
    name_features,
    own_names,
    read_goal,
    sentence_features,
)
from stategate.language.instruction.weights import buckets, install
from stategate.stores.assets.weights import load_arrays
from stategate.stores.progress import Progress
from stategate.trainers.instruction.marked import unmarked
from stategate.trainers.instruction.rooms import Recombined, Sentence, goals_of_games, read_people
from stategate.trainers.instruction.shop import (
    ChoiceExample,
    Instance,
    ShopData,
    SubjectExample,
    choice_examples,
    subject_examples,
)
from stategate.trainers.settings import InstructionSettings
from stategate.trainers.trainer import Figures, Trainer, TrainingRun, file_hashes, shuffled

_GOAL_BUCKETS = 8192
_DROPPED = 0.12  # share of hashed features that are hidden in training
_IN_ROOM = 0.7  # share of examples that choose among a room's places alone
_OFFERED = 12  # names that a room shows
_HIDDEN = {"value": 32, "subject": 8}
_LAYERED_RATE = 0.2  # of the learning rate, for layers over few features
_HELD_ROOMS = 2  # of the made sentences of rooms, one in so many is held out
E = TypeVar("E")  # an example


class Part(nn.Module, Generic[E]):
    """One part of the reader: its cross-entropy, how often it is right, its arrays as they are read.

    The first figure of ``right`` decides which epoch is kept.
    """

    loss: Callable[[Sequence[E]], Tensor]
    right: Callable[[Sequence[E]], Figures]
    arrays: Callable[[], dict[str, Tensor]]


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


class GoalNetwork(Part[GoalExample]):
    """What ``language.instruction.goals`` does: a linear layer for kind, thing and place.

    It sums hashed features' weights, which are rounded to bytes where they are shipped.
    """

    def __init__(self, names: Sequence[Sequence[str]]) -> None:
        super().__init__()
        self.sizes = [len(own) for own in names]
        self.table = nn.EmbeddingBag(_GOAL_BUCKETS, sum(self.sizes), mode="sum")
        nn.init.zeros_(self.table.weight)
        self.bias = nn.Parameter(torch.zeros(sum(self.sizes)))

    def forward(self, rows: Sequence[NDArray[np.int64]]) -> tuple[Tensor, ...]:
        """Return the logits of kind, thing and place; in training some features are hidden."""
        flat = torch.from_numpy(np.concatenate(rows))
        starts = torch.tensor(np.cumsum([0, *map(len, rows[:-1])]))
        weights = torch.ones(len(flat))
        if self.training:
            weights = (torch.rand(len(flat)) >= _DROPPED) / (1 - _DROPPED)
        length = torch.tensor([[max(len(row), 1) ** 0.5] for row in rows])
        logits = self.table(flat, starts, per_sample_weights=weights) / length + self.bias
        return tuple(torch.split(logits, self.sizes, 1))

    def loss(self, batch: Sequence[GoalExample]) -> Tensor:
        """Return the cross-entropy of kind, thing and place."""
        gold = torch.tensor([own for _, own in batch])
        logits = self([row for row, _ in batch])
        return sum(
            (cross_entropy(one, gold[:, i]) for i, one in enumerate(logits)), torch.zeros(())
        )

    def right(self, examples: Sequence[GoalExample]) -> Figures:
        """Return how often all is read right, and each of kind, thing and place."""
        gold = torch.tensor([own for _, own in examples])
        logits = self([row for row, _ in examples])
        right = (torch.stack([one.argmax(1) for one in logits], 1) == gold).float()
        each = dict(zip(("kind", "thing", "place"), right.mean(0).tolist(), strict=True))
        return {"goals_right": float(right.prod(1).mean()), **each}

    def arrays(self) -> dict[str, Tensor]:
        """Return the table as bytes, with a scale for each column, and the bias."""
        weight = self.table.weight.detach()
        scale = weight.abs().amax(0).clamp_min(1e-6) / 127
        table = (weight / scale).round().to(torch.int8)
        return {"goal/table": table, "goal/scale": scale, "goal/bias": self.bias}


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


class NameNetwork(Part[NameExample]):
    """Which of a room's names is meant by the words for a slot: one linear layer."""

    def __init__(self, slot: str, size: int) -> None:
        super().__init__()
        self.slot, self.linear = slot, nn.Linear(size, 1, bias=False)

    def loss(self, batch: Sequence[NameExample]) -> Tensor:
        """Return the mean cross-entropy of the right candidates."""
        losses = [cross_entropy(self.linear(rows).T, torch.tensor([i])) for rows, i in batch]
        return torch.stack(losses).mean()

    def right(self, examples: Sequence[NameExample]) -> Figures:
        """Return how often the likeliest candidate is the right one."""
        right = [int(self.linear(rows)[:, 0].argmax()) == i for rows, i in examples]
        return {f"{self.slot}_named": float(np.mean(right))}

    def arrays(self) -> dict[str, Tensor]:
        """Return the weight of each feature."""
        return {f"name/{self.slot}": self.linear.weight[0]}


def layered(name: str, size: int, out: int) -> nn.Sequential:
    """Return a network of one hidden layer over the named features of a part."""
    return nn.Sequential(nn.Linear(size, _HIDDEN[name]), nn.Tanh(), nn.Linear(_HIDDEN[name], out))


def layered_arrays(name: str, layers: nn.Sequential) -> dict[str, Tensor]:
    """Return the weights as ``language.instruction.choices.layered`` reads them."""
    arrays, weights = {}, layers.state_dict()
    for number, layer in (1, 0), (2, 2):
        arrays[f"{name}/w{number}"] = weights[f"{layer}.weight"].T
        arrays[f"{name}/b{number}"] = weights[f"{layer}.bias"]
    return arrays


class ChoiceNetwork(Part[ChoiceExample]):
    """Which value of a choice is asked or excluded, and whether none is."""

    def __init__(self, value: int, none: int) -> None:
        super().__init__()
        self.value, self.none = layered("value", value, 2), nn.Linear(none, 1)

    def forward(self, one: ChoiceExample) -> tuple[Tensor, Tensor]:
        """Return the logits of being asked (none last), and of being excluded."""
        out = self.value(torch.from_numpy(one.rows))
        return torch.cat([out[:, 0], self.none(torch.from_numpy(one.none))]), out[:, 1]

    def loss(self, batch: Sequence[ChoiceExample]) -> Tensor:
        """Return the mean cross-entropy of the asked value and of those excluded."""
        losses = []
        for one in batch:
            requested, out = self(one)
            losses.append(cross_entropy(requested[None], torch.tensor([one.requested])))
            others = [i for i in range(len(out)) if i != one.requested]
            if others:
                gold = torch.tensor([float(i in one.excluded) for i in others])
                losses.append(binary_cross_entropy_with_logits(out[others], gold))
        return torch.stack(losses).sum() / len(batch)

    def right(self, examples: Sequence[ChoiceExample]) -> Figures:
        """Return how often the likeliest value (or none) is the asked one."""
        right = [int(self(one)[0].argmax()) == one.requested for one in examples]
        return {"choices_right": float(np.mean(right))}

    def arrays(self) -> dict[str, Tensor]:
        """Return the weights as ``language.instruction.choices`` reads them."""
        none = {"none/w1": self.none.weight.T, "none/b1": self.none.bias}
        return {**layered_arrays("value", self.value), **none}


class SubjectNetwork(Part[SubjectExample]):
    """Whether a product is the thing that was asked for."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.layers = layered("subject", size, 1)

    def forward(self, examples: Sequence[SubjectExample]) -> tuple[Tensor, Tensor]:
        """Return the logit of each product, and whether it is the thing."""
        logits = self.layers(torch.from_numpy(np.stack([row for row, _ in examples])))[:, 0]
        return logits, torch.tensor([float(is_met) for _, is_met in examples])

    def loss(self, batch: Sequence[SubjectExample]) -> Tensor:
        """Return the cross-entropy."""
        return binary_cross_entropy_with_logits(*self(batch))

    def right(self, examples: Sequence[SubjectExample]) -> Figures:
        """Return how often a product is rightly taken for the thing asked for, or for another."""
        logits, gold = self(examples)
        return {"subjects_right": float(((logits > 0) == (gold > 0)).float().mean())}

    def arrays(self) -> dict[str, Tensor]:
        """Return the weights as ``language.instruction.aligned`` reads them."""
        return layered_arrays("subject", self.layers)


# Training


#: What a part is fitted to, and what it is tested on.
Sides = tuple[Sequence[E], Sequence[E]]


class Reader:
    """The reader so far: ``arrays`` as they are read, the names of their columns, and figures."""

    def __init__(self, settings: InstructionSettings) -> None:
        self.settings = settings
        old, _ = load_arrays(settings.meanings, "instruction")
        meanings = {name: array for name, array in old.items() if name.startswith("meaning/")}
        self.arrays = {name: torch.from_numpy(array) for name, array in meanings.items()}
        self.columns: dict[str, list[str]] = {"kind": list(KINDS)}
        self.figures: dict[str, float] = {}

    def fit(self, part: Part[E], name: str, sides: Sides[E], rate: float = 1.0) -> None:
        """Fit ``part`` to the first of ``sides``, and note its figures on the second."""
        fitted, heldout = sides
        settings = self.settings
        changes = {"run": f"{settings.run}/{name}", "learning_rate": settings.learning_rate * rate}
        own = settings.model_copy(update=changes)

        @torch.no_grad()
        def right() -> Figures:
            return part.right(heldout)

        Trainer(lambda g: shuffled(fitted, own.batch, g), part, part.loss, right).fit(own)
        self.figures |= right()
        self.arrays |= part.arrays()

    def install(self) -> None:
        """Read by what is fitted so far, from here on."""
        arrays = {name: t.detach().contiguous().numpy() for name, t in self.arrays.items()}
        install(arrays, {"architecture": self.columns})


def train(settings: InstructionSettings) -> dict[str, Any]:
    """Train all parts, each read by the earlier ones; write the checkpoint and a summary."""
    people = Path(settings.people)
    run = TrainingRun(settings, file_hashes(people))
    reader, shop = Reader(settings), ShopData.of(settings)
    _fit_rooms(reader, people)
    reader.install()
    _describe(reader.columns)
    shops = shop.instances(settings.pages, settings.seed)
    choices: Sides[ChoiceExample] = _examples(choice_examples, shops)
    first = choices[0][0]
    network = ChoiceNetwork(first.rows.shape[1], len(first.none))
    reader.fit(network, "choices", choices, _LAYERED_RATE)
    reader.install()
    subjects: Sides[SubjectExample] = _examples(partial(subject_examples, shop.world), shops)
    part = SubjectNetwork(len(subjects[0][0][0]))
    reader.fit(part, "subjects", subjects, _LAYERED_RATE)
    table = [{"agent": "held out", "n": len(shops[1]), **reader.figures}]
    facts = {"families": shop.families}
    return run.finish("instruction", reader.columns, reader.arrays, table, facts, half=False)


def _fit_rooms(reader: Reader, people: Path) -> None:
    """Fit goals, and names, to people's sentences for tasks in rooms."""
    settings = reader.settings
    unseen = goals_of_games(Path(settings.games), "valid_unseen")
    sentences = Recombined(read_people(people, "train", unseen))
    develop = Recombined([s for s in read_people(people, "dev") if s.goal not in unseen])
    rng = random.Random(settings.seed)
    rooms = [*sentences.originals(), *sentences.generated(settings.rooms, rng)]
    for slot in ("thing", "place"):
        own = {str(getattr(sentence.goal, slot)) for sentence in sentences.originals()}
        reader.columns[slot] = sorted(own | {OTHER})
    reader.install()
    names = [*reader.columns.values()]
    fitted, heldout = (
        [goal_example(one, names) for one in part] for part in (rooms, develop.originals())
    )
    reader.fit(GoalNetwork(names), "goals", (fitted, heldout))
    reader.install()
    held_rooms = [*develop.originals(), *develop.generated(settings.rooms // _HELD_ROOMS, rng)]
    for slot in ("thing", "place"):
        rng = random.Random(f"{settings.seed} {slot}")
        examples = list(name_examples(held_rooms, slot, rng))
        rng.shuffle(examples)
        cut = len(examples) // 5
        part = NameNetwork(slot, examples[0][0].shape[1])
        reader.fit(part, f"names-{slot}", (examples[cut:], examples[:cut]))


def _examples(
    examples_of: Callable[[Instance], Iterable[E]], shops: Sequence[Sequence[Instance]]
) -> tuple[list[E], list[E]]:
    fitted, heldout = (
        [x for one in Progress(part, unit="text") for x in examples_of(one)] for part in shops
    )
    return fitted, heldout


def _describe(columns: dict[str, list[str]]) -> None:
    """Name the features of choices and subjects, as an example has them."""
    text = "a red mug"
    rows, none, _ = next(choice_features(text, (("color", ("red", "blue")),), "mug"))
    columns |= {"value": list(rows[0]), "none": list(none)}
    columns["subject"] = list(AlignedInstruction.of(text, (), "mug").subject_features())
