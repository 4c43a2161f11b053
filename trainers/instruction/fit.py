"""Train ``instruction``: what tasks in rooms ask for, as goals and names; one checkpoint.

They read the tags of the token tagger (``stategate train tagger`` comes first). Sentences are people's;
the goals of ``valid_unseen``'s games are held out. The names read the goals, which are trained first.
All else (choices and subjects of shops, meanings of words) is carried over from the checkpoint
``meanings``. ``language/instruction`` reads the weights in NumPy.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from stategate.language.amounts import tokens
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
from stategate.trainers.instruction.marked import unmarked
from stategate.trainers.instruction.rooms import Recombined, Sentence, goals_of_games, read_people
from stategate.trainers.settings import InstructionSettings
from stategate.trainers.trainer import Figures, Trainer, TrainingRun, file_hashes, shuffled

_GOAL_BUCKETS = 8192
_DROPPED = 0.12  # share of hashed features that training hides
_IN_ROOM = 0.7  # share of examples whose candidates are a room's places alone
_ROOM_NAMES = 12  # names that a room shows
E = TypeVar("E")  # an example

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


class GoalNetwork(nn.Module):
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


class NameNetwork(nn.Module):
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


def train(settings: InstructionSettings) -> dict[str, Any]:
    """Train goals, then names; write the checkpoint and a summary, and return the latter."""
    people = Path(settings.people)
    start, meta = load_arrays(settings.meanings, "instruction")
    arrays = {name: torch.from_numpy(array) for name, array in start.items()}
    carried_over = sorted(k for k in arrays if not k.startswith(("goal/", "name/")))
    unseen = goals_of_games(Path(settings.games), "valid_unseen")
    sentences = Recombined(read_people(people, "train", unseen))
    develop = Recombined([s for s in read_people(people, "dev") if s.goal not in unseen])
    run = TrainingRun(settings, file_hashes(people))
    rng = random.Random(settings.seed)
    rooms = [*sentences.originals(), *sentences.generated(settings.rooms, rng)]
    slots = {
        slot: sorted({str(getattr(s.goal, slot)) for s in sentences.originals()} | {OTHER})
        for slot in ("thing", "place")
    }
    names: list[Sequence[str]] = [KINDS, *slots.values()]
    training, heldout = (
        [goal_example(sentence, names) for sentence in part]
        for part in (rooms, develop.originals())
    )
    goals = GoalNetwork(names)
    figures = _fit(settings, "goals", goals, goals.loss, goals.accuracy, (training, heldout))
    arrays |= goals.arrays()
    architecture = {**meta["architecture"], "kind": list(KINDS), **slots}
    # The examples of names are read by the goals that are fitted.
    fitted = {name: t.detach().contiguous().numpy() for name, t in arrays.items()}
    install(fitted, {"architecture": architecture})
    held_rooms = [*develop.originals(), *develop.generated(settings.rooms // 2, rng)]
    for slot in slots:
        rng = random.Random(f"{settings.seed} {slot}")
        examples = list(name_examples(held_rooms, slot, rng))
        rng.shuffle(examples)
        cut = len(examples) // 5
        sides = examples[cut:], examples[:cut]
        part = NameNetwork(slot, examples[0][0].shape[1])
        figures |= _fit(settings, f"names-{slot}", part, part.loss, part.accuracy, sides)
        arrays |= part.arrays()
    table = [{"agent": "held out", "n": len(heldout), **figures}]
    facts = {"carried_over": carried_over, "carried_over_commit": meta.get("commit", "")}
    return run.finish("instruction", architecture, arrays, table, facts, half=False)


def _fit(
    settings: InstructionSettings,
    name: str,
    network: nn.Module,
    loss: Callable[[Sequence[E]], Tensor],
    accuracy: Callable[[Sequence[E]], Figures],
    sides: tuple[Sequence[E], Sequence[E]],
) -> dict[str, float]:
    """Fit ``network`` to the first of ``sides``; return its figures on the other, held out."""
    training, heldout = sides

    @torch.no_grad()
    def metric() -> Figures:
        return accuracy(heldout)

    own = settings.model_copy(update={"run": f"{settings.run}/{name}"})
    Trainer(lambda g: shuffled(training, settings.batch, g), network, loss, metric).fit(own)
    return dict(metric())
