"""Train the rest of the instruction reader: goals, names, choices and subjects; one checkpoint.

They read the tags of the token tagger (``stategate train tagger`` comes first). Sentences come from
the shop's wordings by several writers and from people's sentences for tasks in rooms. The splits of
wordings in ``held_out`` and the goals of ``valid_unseen``'s games are left out of training, so that
both can be tested. Parts are trained in the order in which they read each other.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch

from stategate.language.instruction.aligned import subject_features
from stategate.language.instruction.choices import choice_features
from stategate.language.instruction.goals import KINDS, OTHER
from stategate.language.instruction.parsed import parse
from stategate.language.instruction.weights import install
from stategate.stores.assets.downloads import sha256
from stategate.stores.assets.weights import load_arrays
from stategate.stores.progress import Progress
from stategate.trainers.instruction import networks
from stategate.trainers.instruction.rooms import Recombined, goals_of_games, read_people
from stategate.trainers.instruction.shop import (
    ChoiceExample,
    Instance,
    ShopData,
    SubjectExample,
    choice_examples,
    subject_examples,
)
from stategate.trainers.settings import InstructionSettings, open_run, save_checkpoint
from stategate.trainers.trainer import Figures, Trainer, shuffled

_LAYERED_RATE = 0.2  # of the learning rate, for layers over few features
_HELD_ROOMS = 2  # of the made sentences of rooms, one in so many is held out

E = TypeVar("E")
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

    def fit(self, part: networks.Part[E], name: str, sides: Sides[E], rate: float = 1.0) -> None:
        """Fit ``part`` to the first of ``sides``, and note its figures on the second."""
        fitted, held = sides
        told = self.settings
        changes = {"run": f"{told.run}/{name}", "learning_rate": told.learning_rate * rate}
        own = told.model_copy(update=changes)

        @torch.no_grad()
        def right() -> Figures:
            return part.right(held)

        Trainer(lambda g: shuffled(fitted, own.batch, g), part, part.loss, right).fit(own)
        self.figures |= right()
        self.arrays |= part.arrays()

    def install(self) -> None:
        """Read by what is fitted so far, from here on."""
        arrays = {name: t.detach().contiguous().numpy() for name, t in self.arrays.items()}
        install(arrays, {"architecture": self.columns})


def train(settings: InstructionSettings) -> dict[str, Any]:
    """Train all parts, each read by the earlier ones; write the checkpoint and a summary."""
    torch.manual_seed(settings.seed)
    people = Path(settings.people)
    facts: dict[str, Any] = {"data": {"people": sha256(people), "name": people.name}}
    run = open_run(settings, facts)
    reader, shop = Reader(settings), ShopData.of(settings)
    _fit_rooms(reader, people)
    reader.install()
    _describe(reader.columns)
    shops = shop.instances(settings.pages, settings.seed)
    choices: Sides[ChoiceExample] = _examples(choice_examples, shops)
    first = choices[0][0]
    network = networks.ChoiceNetwork(first.rows.shape[1], len(first.none))
    reader.fit(network, "choices", choices, _LAYERED_RATE)
    reader.install()
    subjects: Sides[SubjectExample] = _examples(partial(subject_examples, shop.world), shops)
    part = networks.SubjectNetwork(len(subjects[0][0].row))
    reader.fit(part, "subjects", subjects, _LAYERED_RATE)
    facts |= {"metrics": reader.figures, "held_out": list(settings.held_out)}
    facts |= {"families": shop.families}
    save_checkpoint(settings, "instruction", reader.columns, reader.arrays, half=False, **facts)
    return run.summarise([{"agent": "held out", "n": len(shops[1]), **reader.figures}], [])


def _fit_rooms(reader: Reader, people: Path) -> None:
    """Fit goals, and names, to people's sentences for tasks in rooms."""
    settings = reader.settings
    unseen = goals_of_games(Path(settings.games), "valid_unseen")
    sentences = Recombined(read_people(people, "train", unseen))
    develop = Recombined([s for s in read_people(people, "dev") if s.goal not in unseen])
    rng = random.Random(settings.seed)
    rooms = [*sentences.originals(), *sentences.made(settings.rooms, rng)]
    for slot in ("thing", "place"):
        own = {str(getattr(sentence.goal, slot)) for sentence in sentences.originals()}
        reader.columns[slot] = sorted(own | {OTHER})
    reader.install()
    names = [*reader.columns.values()]
    fitted, held = (
        [networks.goal_example(one, names) for one in part] for part in (rooms, develop.originals())
    )
    reader.fit(networks.GoalNetwork(names), "goals", (fitted, held))
    reader.install()
    held_rooms = [*develop.originals(), *develop.made(settings.rooms // _HELD_ROOMS, rng)]
    for slot in ("thing", "place"):
        rng = random.Random(f"{settings.seed} {slot}")
        examples = list(networks.name_examples(held_rooms, slot, rng))
        rng.shuffle(examples)
        cut = len(examples) // 5
        part = networks.NameNetwork(slot, examples[0][0].shape[1])
        reader.fit(part, f"names-{slot}", (examples[cut:], examples[:cut]))


def _examples(
    examples_of: Callable[[Instance], Iterable[E]], shops: Sequence[Sequence[Instance]]
) -> tuple[list[E], list[E]]:
    fitted, held = (
        [x for one in Progress(part, unit="text") for x in examples_of(one)] for part in shops
    )
    return fitted, held


def _describe(columns: dict[str, list[str]]) -> None:
    """Name the features of choices and subjects, as an example has them."""
    text = "a red mug"
    rows, none, _ = next(choice_features(text, (("color", ("red", "blue")),), "mug"))
    columns |= {"value": list(rows[0]), "none": list(none)}
    columns["subject"] = list(subject_features(parse(text), (), "mug"))
