"""Train the rest of the instruction reader: goals, names, choices and subjects; one checkpoint.

They read the tags of the token tagger (``stategate train tagger`` comes first). Sentences come from
the shop's wordings by several writers and from people's sentences for tasks in rooms. The splits of
wordings in ``held_out`` and the goals of ``valid_unseen``'s games are left out of training, so that
both can be tested. Parts are trained in the order in which they read each other.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Generator, Tensor, nn

from stategate.envs.webshop import WebShop
from stategate.language.instruction.aligned import subject_features
from stategate.language.instruction.choices import choice_features
from stategate.language.instruction.goals import KINDS, OTHER
from stategate.language.instruction.parsed import parse
from stategate.language.instruction.weights import install
from stategate.stores.assets.downloads import sha256
from stategate.stores.assets.weights import load_arrays, save_weights
from stategate.stores.progress import Progress
from stategate.stores.runs import provenance
from stategate.trainers.instruction import networks
from stategate.trainers.instruction.pages import (
    Instance,
    choice_examples,
    subject_examples,
)
from stategate.trainers.instruction.rooms import (
    Recombined,
    Sentence,
    goals_of_games,
    read_people,
)
from stategate.trainers.instruction.shop import ShopData
from stategate.trainers.settings import InstructionSettings, open_run
from stategate.trainers.trainer import Figures, Trainer

_LAYERED_RATE = 0.2  # of the learning rate, for layers over few features
_HELD_ROOMS = 2  # of the made sentences of rooms, one in so many is held out

N = TypeVar("N", bound=nn.Module)
E = TypeVar("E")
#: Weights by name, as the reader has them.
Arrays = dict[str, Tensor]


def train(settings: InstructionSettings) -> dict[str, Any]:
    """Train all parts, each read by the earlier ones; write the checkpoint and a summary."""
    torch.manual_seed(settings.seed)
    people = Path(settings.people)
    facts = {"data": {"people": sha256(people), "name": people.name}}
    run = open_run(settings, facts)
    old, _ = load_arrays(settings.meanings, "instruction")
    arrays: Arrays = {
        name: torch.from_numpy(array) for name, array in old.items() if name.startswith("meaning/")
    }
    columns: dict[str, list[str]] = {"kind": list(KINDS)}
    meta: dict[str, Any] = {"architecture": columns}
    unseen = goals_of_games(Path(settings.games), "valid_unseen")
    people_train = Recombined(read_people(people, "train", unseen))
    develop = Recombined([s for s in read_people(people, "dev") if s.goal not in unseen])
    rng = random.Random(settings.seed)
    rooms = [*people_train.originals(), *people_train.made(settings.rooms, rng)]
    for slot in ("thing", "place"):
        own = {str(getattr(sentence.goal, slot)) for sentence in people_train.originals()}
        columns[slot] = sorted(own | {OTHER})
    _install(arrays, meta)
    names = [columns[slot] for slot in ("kind", "thing", "place")]
    figures = dict(_fit_goals(settings, (rooms, list(develop.originals())), names, arrays))
    shop = ShopData.of(settings)
    _install(arrays, meta)
    held_rooms = [*develop.originals(), *develop.made(settings.rooms // _HELD_ROOMS, rng)]
    figures |= _fit_names(settings, held_rooms, arrays)
    _install(arrays, meta)
    _describe(columns)
    shops = shop.instances(settings.pages, settings.seed)
    figures |= _fit_choices(settings, shops, arrays)
    _install(arrays, meta)
    figures |= _fit_subjects(settings, shop.world, shops, arrays)
    made = {"kind": "instruction", "metrics": figures, "seed": settings.seed, **meta, **facts}
    made |= {"held_out": list(settings.held_out), "families": shop.families, **provenance()}
    save_weights(settings.checkpoint, arrays, made, half=False)
    return run.summarise([{"agent": "held out", "n": len(shops[1]), **figures}], [])


def _describe(columns: dict[str, list[str]]) -> None:
    """Name the features of choices and subjects, as an example has them."""
    text = "a red mug"
    rows, none = choice_features(text, (("color", ("red", "blue")),), "mug")[0]
    columns |= {"value": list(rows[0]), "none": list(none)}
    columns["subject"] = list(subject_features(parse(text), (), "mug"))


def _install(arrays: Arrays, meta: Mapping[str, Any]) -> None:
    install({name: t.detach().contiguous().numpy() for name, t in arrays.items()}, meta)


def fit_part(
    settings: InstructionSettings,
    name: str,
    model: N,
    examples: tuple[Sequence[E], Sequence[E]],
    loss: Callable[[N, Sequence[E]], Tensor],
    metric: Callable[[N, Sequence[E]], Figures],
    rate: float = 1.0,
) -> Figures:
    """Fit one part of the reader to the first of ``examples``; return its figures on the second."""
    fitted, held = examples

    def batches(generator: Generator) -> Iterator[Sequence[E]]:
        order = torch.randperm(len(fitted), generator=generator).tolist()
        for start in range(0, len(order), settings.batch):
            yield [fitted[i] for i in order[start : start + settings.batch]]

    run, learning_rate = f"{settings.run}/{name}", settings.learning_rate * rate
    Path(run).mkdir(parents=True, exist_ok=True)
    own = settings.model_copy(update={"run": run, "learning_rate": learning_rate})
    trainer = Trainer(batches, model, lambda b: loss(model, b), lambda: metric(model, held))
    trainer.fit(own)
    return metric(model, held)


def _fit_goals(
    settings: InstructionSettings,
    sentences: tuple[Sequence[Sentence], Sequence[Sentence]],
    names: Sequence[Sequence[str]],
    arrays: Arrays,
) -> Figures:
    network = networks.GoalNetwork(names)
    fitted, held = ([networks.goal_example(one, names) for one in part] for part in sentences)
    parts = (fitted, held)
    figures = fit_part(settings, "goals", network, parts, networks.goal_loss, networks.goals_right)
    arrays |= network.arrays()
    return figures


def _fit_names(
    settings: InstructionSettings, sentences: Sequence[Sentence], arrays: Arrays
) -> Figures:
    figures: dict[str, float] = {}
    for slot in ("thing", "place"):
        rng = random.Random(f"{settings.seed} {slot}")
        examples = list(networks.name_examples(sentences, slot, rng))
        rng.shuffle(examples)
        cut = len(examples) // 5
        network = nn.Linear(examples[0][0].shape[1], 1, bias=False)
        parts = (examples[cut:], examples[:cut])
        own = fit_part(
            settings, f"names-{slot}", network, parts, networks.name_loss, networks.names_right
        )
        figures[f"{slot}_named"] = own["names_right"]
        arrays[f"name/{slot}"] = network.weight[0]
    return figures


def _fit_choices(
    settings: InstructionSettings, shops: tuple[Sequence[Instance], ...], arrays: Arrays
) -> Figures:
    fitted, held = (
        [x for one in Progress(part, unit="text") for x in choice_examples(one)] for part in shops
    )
    network = networks.ChoiceNetwork(fitted[0].rows.shape[1], len(fitted[0].none))
    loss, right = networks.choice_loss, networks.choices_right
    parts = (fitted, held)
    figures = fit_part(settings, "choices", network, parts, loss, right, _LAYERED_RATE)
    arrays |= network.arrays()
    return figures


def _fit_subjects(
    settings: InstructionSettings,
    shop: WebShop,
    shops: tuple[Sequence[Instance], ...],
    arrays: Arrays,
) -> Figures:
    fitted, held = (
        [x for one in Progress(part, unit="text") for x in subject_examples(shop, one)]
        for part in shops
    )
    network = networks.Layered("subject", len(fitted[0].row), 1)
    loss, right = networks.subject_loss, networks.subjects_right
    parts = (fitted, held)
    figures = fit_part(settings, "subjects", network, parts, loss, right, _LAYERED_RATE)
    arrays |= network.arrays()
    return figures
