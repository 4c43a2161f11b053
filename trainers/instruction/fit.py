"""Train ``instruction``: goals, names, choices and subjects of an instruction; one checkpoint.

They read the tags of the token tagger (``stategate train tagger`` comes first). Sentences come from
the shop's wordings and from people's sentences for tasks in rooms. The splits of wordings in
``held_out`` and the goals of ``valid_unseen``'s games are held out. Parts are trained in the order in
which they read each other; ``language/instruction`` reads the same weights in NumPy.
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
_DROPPED = 0.12  # share of hashed features that training hides
_IN_ROOM = 0.7  # share of examples whose candidates are a room's places alone
_ROOM_NAMES = 12  # names that a room shows
_HIDDEN = {"value": 32, "subject": 8}
_LAYERED_RATE = 0.2  # of the learning rate, for layers over few features
E = TypeVar("E")  # an example


class Part(nn.Module, Generic[E]):
    """A part of the reader: its loss, accuracies (the first chooses the epoch), arrays to ship."""

    loss: Callable[[Sequence[E]], Tensor]
    accuracy: Callable[[Sequence[E]], Figures]
    arrays: Callable[[], dict[str, Tensor]]


#: A sentence's hash buckets, and the indices of its kind, thing and place among the names.
GoalExample = tuple[NDArray[np.int64], tuple[int, int, int]]


def goal_example(sentence: Sentence, names: Sequence[Sequence[str]]) -> GoalExample:
    """Return a sentence as the classifier learns it; unknown names are "other"."""
    words = [token.word for token in tokens(unmarked(sentence.text)[0])]
    goal = (sentence.goal.kind, sentence.goal.thing, sentence.goal.place)
    kind, thing, place = (
        known.index(name if name in known else OTHER)
        for known, name in zip(names, goal, strict=True)
    )
    return np.array(buckets(sentence_features(words), _GOAL_BUCKETS)), (kind, thing, place)


class GoalNetwork(Part[GoalExample]):
    """The classifier of ``language.instruction.goals``: linear in hashed features, shipped as bytes."""

    def __init__(self, names: Sequence[Sequence[str]]) -> None:
        super().__init__()
        self.sizes = [len(known) for known in names]
        self.table = nn.EmbeddingBag(_GOAL_BUCKETS, sum(self.sizes), mode="sum")
        nn.init.zeros_(self.table.weight)
        self.bias = nn.Parameter(torch.zeros(sum(self.sizes)))

    def forward(self, rows: Sequence[NDArray[np.int64]]) -> tuple[Tensor, ...]:
        """Return the logits of kind, thing and place."""
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
        gold = torch.tensor([goal for _, goal in batch])
        logits = self([row for row, _ in batch])
        losses = [cross_entropy(part, gold[:, i]) for i, part in enumerate(logits)]
        return torch.stack(losses).sum()

    def accuracy(self, examples: Sequence[GoalExample]) -> Figures:
        """Return the accuracy of whole goals, and of kind, thing and place."""
        gold = torch.tensor([goal for _, goal in examples])
        logits = self([row for row, _ in examples])
        right = (torch.stack([part.argmax(1) for part in logits], 1) == gold).float()
        parts = dict(zip(("kind", "thing", "place"), right.mean(0).tolist(), strict=True))
        return {"goals_right": float(right.prod(1).mean()), **parts}

    def arrays(self) -> dict[str, Tensor]:
        """Return the table as bytes, with a scale for each column, and the bias."""
        weight = self.table.weight.detach()
        scale = weight.abs().amax(0).clamp_min(1e-6) / 127
        table = (weight / scale).round().to(torch.int8)
        return {"goal/table": table, "goal/scale": scale, "goal/bias": self.bias}


#: The features of each candidate of a slot, and the index of the right one.
NameExample = tuple[Tensor, int]


def name_examples(
    sentences: Sequence[Sentence], slot: str, rng: random.Random
) -> Iterator[NameExample]:
    """Yield candidates of ``slot`` with their features; a room's are drawn of all names."""
    names = sorted({str(getattr(sentence.goal, slot)) for sentence in sentences})
    for sentence in sentences:
        gold = str(getattr(sentence.goal, slot))
        reading = read_goal(unmarked(sentence.text)[0])
        is_room = slot == "place" and rng.random() < _IN_ROOM
        read = set() if is_room else own_names(reading, slot)
        drawn = rng.sample(names, min(_ROOM_NAMES, len(names)))
        candidates = sorted({*read, *drawn, gold} - {OTHER})
        rows = [name_features(reading, slot, name) for name in candidates]
        yield torch.tensor(rows), candidates.index(gold)


class NameNetwork(Part[NameExample]):
    """Which of a room's names is meant by the words for a slot: one linear layer."""

    def __init__(self, slot: str, size: int) -> None:
        super().__init__()
        self.slot, self.linear = slot, nn.Linear(size, 1, bias=False)

    def loss(self, batch: Sequence[NameExample]) -> Tensor:
        """Return the mean cross-entropy of the right candidates."""
        losses = [cross_entropy(self.linear(rows).T, torch.tensor([i])) for rows, i in batch]
        return torch.stack(losses).mean()

    def accuracy(self, examples: Sequence[NameExample]) -> Figures:
        """Return the accuracy of the most probable candidate."""
        right = [int(self.linear(rows)[:, 0].argmax()) == i for rows, i in examples]
        return {f"{self.slot}_named": float(np.mean(right))}

    def arrays(self) -> dict[str, Tensor]:
        """Return the weight of each feature."""
        return {f"name/{self.slot}": self.linear.weight[0]}


def layered(name: str, size: int, out: int) -> nn.Sequential:
    """Return a network of one hidden layer over the named features of a part."""
    return nn.Sequential(nn.Linear(size, _HIDDEN[name]), nn.Tanh(), nn.Linear(_HIDDEN[name], out))


def layered_arrays(name: str, layers: nn.Sequential) -> dict[str, Tensor]:
    """Return the weights by the names that ``language.instruction.choices.layered`` reads."""
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

    def forward(self, example: ChoiceExample) -> tuple[Tensor, Tensor]:
        """Return the logits of being asked (none last), and of being excluded."""
        logits = self.value(torch.from_numpy(example.rows))
        none = self.none(torch.from_numpy(example.none))
        return torch.cat([logits[:, 0], none]), logits[:, 1]

    def loss(self, batch: Sequence[ChoiceExample]) -> Tensor:
        """Return the mean cross-entropy of the asked value and of those excluded."""
        losses = []
        for example in batch:
            requested, excluded = self(example)
            losses.append(cross_entropy(requested[None], torch.tensor([example.requested])))
            others = [i for i in range(len(excluded)) if i != example.requested]
            if others:
                gold = torch.tensor([float(i in example.excluded) for i in others])
                losses.append(binary_cross_entropy_with_logits(excluded[others], gold))
        return torch.stack(losses).sum() / len(batch)

    def accuracy(self, examples: Sequence[ChoiceExample]) -> Figures:
        """Return the accuracy of the most probable value (or none)."""
        right = [int(self(example)[0].argmax()) == example.requested for example in examples]
        return {"choices_right": float(np.mean(right))}

    def arrays(self) -> dict[str, Tensor]:
        """Return the weights as ``language.instruction.choices`` reads them."""
        none = {"none/w1": self.none.weight.T, "none/b1": self.none.bias}
        return {**layered_arrays("value", self.value), **none}


class SubjectNetwork(Part[SubjectExample]):
    """Whether a product is of the kind that is asked for."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.layers = layered("subject", size, 1)

    def forward(self, examples: Sequence[SubjectExample]) -> tuple[Tensor, Tensor]:
        """Return the logit and the label of each product."""
        logits = self.layers(torch.from_numpy(np.stack([row for row, _ in examples])))[:, 0]
        return logits, torch.tensor([float(is_right) for _, is_right in examples])

    def loss(self, batch: Sequence[SubjectExample]) -> Tensor:
        """Return the cross-entropy."""
        return binary_cross_entropy_with_logits(*self(batch))

    def accuracy(self, examples: Sequence[SubjectExample]) -> Figures:
        """Return the accuracy."""
        logits, gold = self(examples)
        return {"subjects_right": float(((logits > 0) == (gold > 0)).float().mean())}

    def arrays(self) -> dict[str, Tensor]:
        """Return the weights as ``language.instruction.aligned`` reads them."""
        return layered_arrays("subject", self.layers)


# Training


#: Training and held-out examples of a part.
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
        """Fit ``part``; add its arrays, and its figures on held-out examples."""
        training, heldout = sides
        whole = self.settings
        changes = {"run": f"{whole.run}/{name}", "learning_rate": whole.learning_rate * rate}
        settings = whole.model_copy(update=changes)

        @torch.no_grad()
        def metric() -> Figures:
            return part.accuracy(heldout)

        Trainer(lambda g: shuffled(training, whole.batch, g), part, part.loss, metric).fit(settings)
        self.figures |= metric()
        self.arrays |= part.arrays()

    def install(self) -> None:
        """Make ``language.instruction`` read by what is fitted so far."""
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
    network = ChoiceNetwork(len(reader.columns["value"]), len(reader.columns["none"]))
    reader.fit(network, "choices", choices, _LAYERED_RATE)
    reader.install()
    subjects: Sides[SubjectExample] = _examples(partial(subject_examples, shop.world), shops)
    part = SubjectNetwork(len(reader.columns["subject"]))
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
        known = {str(getattr(sentence.goal, slot)) for sentence in sentences.originals()}
        reader.columns[slot] = sorted(known | {OTHER})
    reader.install()
    names = [*reader.columns.values()]
    training, heldout = (
        [goal_example(sentence, names) for sentence in part]
        for part in (rooms, develop.originals())
    )
    reader.fit(GoalNetwork(names), "goals", (training, heldout))
    reader.install()
    held_rooms = [*develop.originals(), *develop.generated(settings.rooms // 2, rng)]
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
    training, heldout = (
        [example for instance in Progress(part, unit="text") for example in examples_of(instance)]
        for part in shops
    )
    return training, heldout


def _describe(columns: dict[str, list[str]]) -> None:
    """Add the names of the features of choices and subjects, read off an example."""
    text = "a red mug"
    rows, none, _ = next(choice_features(text, (("color", ("red", "blue")),), "mug"))
    columns |= {"value": list(rows[0]), "none": list(none)}
    columns["subject"] = list(AlignedInstruction.of(text, (), "mug").subject_features())
