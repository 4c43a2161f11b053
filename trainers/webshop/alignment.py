"""Train the aligner: which words of an instruction matter, which values it asks for or excludes.

Goals of training products, and made ones for products that no goal names, are said in the wordings
to train on; choices are those of the goal's product and of others that the shop's search finds for it,
so that a value that is not offered is seen too. Products are split between training and validation;
what is reported is on the wordings to develop with (corrections, negations and the template among
them), on products held back. All networks see numbers
only (``envs.asking``), so what they learn holds for any world's words.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy
from tqdm import tqdm

from stategate.envs.asking.meaning import SIZE, reduced
from stategate.envs.asking.request import read_request
from stategate.envs.asking.subject import subject_features
from stategate.envs.asking.text import content
from stategate.envs.asking.values import ask_choices, locate, value_features
from stategate.envs.asking.weights import NONE, SUBJECT, VALUE, WORD, install
from stategate.envs.webshop import WebShop
from stategate.envs.webshop.catalogue import Product
from stategate.envs.webshop.reward import score
from stategate.envs.webshop.wordings import TEMPLATE, names_of, reword
from stategate.stores.assets.weights import save_weights
from stategate.stores.runs import mean, provenance
from stategate.stores.text import stem
from stategate.trainers.settings import AlignerSettings, open_run
from stategate.trainers.trainer import Trainer
from stategate.trainers.webshop.goals import load_shop, practice
from stategate.trainers.webshop.recombined import recombined
from stategate.trainers.webshop.roles import (
    RoleNetwork,
    Words,
    in_other_words,
    role_loss,
    roles_right,
    words_of_goal,
)

_HIDDEN = {"word": 64, "roles": 32, "value": 32, "subject": 8}
_BINS = 10
_LETTERS = 14  # of a word whose meaning is kept
_THINNED = 0.35  # share of wordings that ask for less than the goal
#: Splits of wordings that it learns from, those played in former rounds among them, and is chosen by.
_TRAINING = (
    "train",
    "held-out",
    "unseen",
    "strange",
    "fresh",
    "untried",
    "distant",
    "blind",
    "blind-second",
)
_DEVELOPING = ("develop", "paraphrased")
#: Drawn more often than others: they have the most to tell apart, and the shop's own words are usual.
_OFTEN = ("negation", "amend", "correction", "bare", TEMPLATE)
_OFTENER = 0.3  # share of wordings that are drawn among these


@dataclass(frozen=True)
class Choosing:
    """One choice of a page: its features, the value that is asked (n: none), what is excluded."""

    rows: NDArray[np.float32]
    none: NDArray[np.float32]
    asked: int
    excluded: tuple[int, ...]
    family: str


class Aligner(nn.Module):
    """The networks, a hidden layer each, and the words' meanings, which are not trained."""

    def __init__(self, meaning: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.meaning = meaning
        self.word = RoleNetwork(len(WORD) + SIZE, _HIDDEN["word"], _HIDDEN["roles"])
        self.value = _layers(len(VALUE), _HIDDEN["value"], 2)
        self.none = nn.Linear(len(NONE), 1)
        self.subject = _layers(len(SUBJECT), _HIDDEN["subject"], 1)

    def arrays(self) -> dict[str, Tensor]:
        """Return the weights as ``envs.asking`` reads them."""
        found: dict[str, Tensor] = {}
        layers = {
            "value": (self.value[0], self.value[2], self.none),
            "subject": (self.subject[0], self.subject[2]),
        }
        for part, own in layers.items():
            for i, layer in enumerate(own, 1):
                found |= {f"{part}/w{i}": layer.weight.T, f"{part}/b{i}": layer.bias}
        words = {f"word/{name}": tensor for name, tensor in self.word.arrays().items()}
        return {**words, **found, **self.meaning}


def meanings(settings: AlignerSettings) -> dict[str, Tensor]:
    """Return the meanings of a sentence model's vocabulary, of the last aligner if it has any."""
    from safetensors.torch import load_file

    known = Path(f"{settings.checkpoint}.safetensors")
    old = load_file(known) if known.is_file() else {}
    if "meaning/vectors" in old:
        return {name: old[name] for name in ("meaning/words", "meaning/vectors")}
    from stategate.nodes.models.embedders import load_minilm

    model = load_minilm()
    plain: dict[str, str] = {}
    for word, _ in sorted(model.tokenizer.get_vocab().items(), key=lambda pair: pair[1]):
        if word.isascii() and word.isalpha() and 3 <= len(word) <= _LETTERS:
            plain.setdefault(stem(word), word)  # the commonest word of a stem speaks for it
    vectors = model.encode(list(plain.values()), batch_size=256, normalize_embeddings=True)
    keys = np.frombuffer(" ".join(plain).encode(), dtype=np.uint8).copy()
    return {
        "meaning/words": torch.from_numpy(keys),
        "meaning/vectors": torch.from_numpy(reduced(vectors)),
    }


def _layers(size: int, hidden: int, out: int) -> Any:
    return nn.Sequential(nn.Linear(size, hidden), nn.Tanh(), nn.Linear(hidden, out))


def choosings(goal: Mapping[str, Any], pages: Sequence[Product]) -> Iterator[Choosing]:
    """Yield the choices of ``pages`` (products) as the goal's instruction asks of them."""
    request = read_request(goal["instruction_text"])
    family = str(goal.get("wording", TEMPLATE))
    wanted = {str(k): str(v) for k, v in goal["goal_options"].items()}
    for product in pages:
        choices = [
            (name, tuple(map(str, values))) for name, values in product.options.items() if values
        ]
        title = frozenset(token.key for token in content(product.name))
        whole = {name: _whole(request, name, values) for name, values in choices}
        for name, values in choices:
            asked = values.index(wanted[name]) if wanted.get(name) in values else len(values)
            mine = len(whole[name])
            others = {
                p
                for other, places in whole.items()
                if other != name and len(places) > mine
                for p in places
            }
            rows, none = value_features(request, name, values, title, frozenset(others))
            out = goal.get("excluded", {}).get(name)
            excluded = tuple(i for i, value in enumerate(values) if value == out)
            yield Choosing(rows, none, asked, excluded, family)


def _whole(request: Any, name: str, values: Sequence[str]) -> tuple[int, ...]:
    spans = (locate(request, value, name) for value in values)
    return max((s.places for s in spans if s.is_whole), key=len, default=())


@dataclass(frozen=True)
class Subject:
    """A product's page as an instruction asks of it, and whether it can be what is asked."""

    row: NDArray[np.float32]
    is_met: bool
    family: str


def subjects_of(shop: WebShop, said: "Said") -> Iterator[Subject]:
    """Yield the products of ``said.pages``; one is met if buying it rightly has the reward 1."""
    goal = said.goal
    wanted = {str(k): str(v) for k, v in goal["goal_options"].items()}
    for product in said.pages:
        choices = tuple((name, tuple(map(str, vs))) for name, vs in product.options.items() if vs)
        chosen = {k: v for k, v in wanted.items() if v in product.options.get(k, ())}
        reward = score(product, goal, shop.prices[product.asin], chosen)[0]
        request = read_request(goal["instruction_text"])
        asked = ask_choices(request.text, choices, product.name)
        row = subject_features(request, asked, product.name)
        yield Subject(row, reward == 1.0, str(goal.get("wording", TEMPLATE)))


def _fit_subjects(
    model: Aligner, settings: AlignerSettings, fitted: Sequence[Subject], held: Sequence[Subject]
) -> None:
    rows = torch.from_numpy(np.stack([s.row for s in fitted]))
    met = torch.tensor([float(s.is_met) for s in fitted])

    def loss(part: Tensor) -> Tensor:
        return binary_cross_entropy_with_logits(model.subject(rows[part]).squeeze(-1), met[part])

    _fit(
        model,
        settings,
        "subjects",
        len(rows),
        loss,
        lambda: _subjects_right(model, held),
    )


def _subjects_right(model: Aligner, subjects: Sequence[Subject]) -> dict[str, float]:
    if not subjects:
        return {}
    met = np.asarray([s.is_met for s in subjects])
    with torch.inference_mode():
        told = (
            model.subject(torch.from_numpy(np.stack([s.row for s in subjects]))).squeeze(-1).numpy()
            > 0
        )
    return {"subjects_right": float((told == met).mean())}


@dataclass(frozen=True)
class Said:
    """A goal in some wording, and the products on whose pages it is read."""

    goal: Mapping[str, Any]
    pages: tuple[Product, ...]


def say(
    shop: WebShop,
    goals: Sequence[Mapping[str, Any]],
    families: Sequence[str],
    times: int,
    seed: int,
    is_thinned: bool = False,
) -> list[Said]:
    """Say each goal in ``times`` wordings, the template's among them; some goals ask for less."""
    rng = random.Random(seed)
    said: list[Said] = []
    for i, goal in enumerate(goals):
        own = shop.products[goal["asin"]]
        hits = [shop.products[a] for a in shop.search(f"{goal['query']} {goal['name']}", 12)]
        others = [p for p in hits if p.asin != own.asin and p.options]
        for lap in range(times):
            family = rng.choice(_OFTEN if rng.random() < _OFTENER else families)
            words = dict(goal)
            if family != TEMPLATE:
                asked = _thinned(goal, rng) if is_thinned and rng.random() < _THINNED else goal
                words = reword(asked, own, family, f"{seed} {i} {lap}")
            said.append(Said(words, (own, *rng.sample(others, min(2, len(others))))))
    return said


def _thinned(goal: Mapping[str, Any], rng: random.Random) -> dict[str, Any]:
    """Return a goal that asks for little: people say less than the shop's goals do."""
    few = min(len(goal["attributes"]), rng.randint(1, 2))
    options = {name: value for name, value in goal["goal_options"].items() if rng.random() < 0.5}
    return {
        **goal,
        "attributes": rng.sample(list(goal["attributes"]), few),
        "goal_options": options,
        "price_upper": rng.choice((goal["price_upper"], 1_000_000.0)),
    }


def train(settings: AlignerSettings) -> dict[str, Any]:
    """Train the networks, the words' first; report by family of wordings, write the checkpoint."""
    plan = practice(load_shop(settings.data, "rich"), settings.seed)
    facts, goals = {"data": {"sha256": plan.world.fingerprint}}, plan.world.goals
    run = open_run(settings, facts)
    fitted, held = (
        [goals[i] for i in side] for side in (plan.training, plan.heldout + plan.made_heldout)
    )
    names = [name for split in _TRAINING for name in names_of(split)]
    develop = [name for split in _DEVELOPING for name in names_of(split)]
    said = say(plan.world, fitted, names, settings.times, settings.seed, is_thinned=True)
    held_said = say(plan.world, held, develop, 4, settings.seed + 1)
    torch.manual_seed(settings.seed)
    model = Aligner(meanings(settings))
    _install_meanings(model)
    offered = [plan.world.products[asin] for asin in sorted({goal["asin"] for goal in fitted})]
    strange = recombined(fitted, offered, names, settings.recombined, settings.seed)
    held_words = [words_of_goal(one.goal) for one in held_said]
    readers = _fit_roles(model, settings, said, strange, names, held_words)

    def read_by_strangers(see: Callable[["Said"], Iterator[Any]], desc: str) -> list[Any]:
        found: list[Any] = []
        for fold, reader in enumerate(readers):
            reader.value, reader.none = model.value, model.none
            _install(reader)
            own = [one for one in said if _half_of(one.goal, names) == fold]
            found += [x for one in tqdm(own, desc=desc, disable=None) for x in see(one)]
        _install(model)
        return found

    def choices_of(one: Said) -> Iterator[Choosing]:
        return choosings(one.goal, one.pages)

    choices = read_by_strangers(choices_of, "pages")
    held_choices = [c for one in held_said for c in choices_of(one)]
    epochs = _fit_values(model, settings, choices, held_choices)
    subjects = read_by_strangers(partial(subjects_of, plan.world), "subjects")
    held_subjects = [s for one in held_said for s in subjects_of(plan.world, one)]
    _fit_subjects(model, settings, subjects, held_subjects)
    rows = [
        _family_row(model, name, held_choices, held_words, held_subjects)
        for name in ("all", TEMPLATE, *develop)
    ]
    save_weights(
        settings.checkpoint,
        model.arrays(),
        {
            "kind": "aligner",
            "trained": "wordings",
            "seed": settings.seed,
            "metrics": rows[0],
            "architecture": _architecture(),
            "families": list(names),
            "epochs": epochs,
            **facts,
            **provenance(),
        },
        half=False,
    )
    return run.summarise(rows, [])


def _install_meanings(model: Aligner) -> None:
    """Let instructions be read by the words' meanings alone: nothing is known of roles yet."""
    nothing = {name: np.zeros(t.shape, np.float32) for name, t in model.arrays().items()}
    install({**nothing, **{name: t.numpy() for name, t in model.meaning.items()}})


def _architecture() -> dict[str, Any]:
    """Return what the networks read and how wide they are, as checkpoints say it."""
    return {
        "word": [*WORD, "meaning"],
        "value": list(VALUE),
        "none": list(NONE),
        "subject": list(SUBJECT),
        **{f"hidden_{name}": size for name, size in _HIDDEN.items()},
    }


def _half_of(goal: Mapping[str, Any], families: Sequence[str]) -> int:
    """Return the half (0 or 1) of the families to which a goal's wording belongs."""
    return families.index(goal.get("wording", families[0])) % 2


def _fit_roles(
    model: Aligner,
    settings: AlignerSettings,
    said: Sequence["Said"],
    strange: Sequence[Mapping[str, Any]],
    families: Sequence[str],
    held: Sequence[Words],
) -> list[Aligner]:
    """Fit the words' roles; return two readers, each fitted to the half that the other has not heard.

    The other networks read roles as they come in families that nobody has heard.
    """
    shown = partial(tqdm, disable=None)
    rng = random.Random(settings.seed)
    words = [
        (words_of_goal(one.goal), in_other_words(one.goal, rng))
        for one in shown(said, desc="words")
    ]
    strange_words = [words_of_goal(goal) for goal in shown(strange, desc="recombined")]
    readers = []
    for fold in (0, 1):
        reader = Aligner(model.meaning)
        heard = [
            pair
            for pair, one in zip(words, said, strict=True)
            if _half_of(one.goal, families) != fold
        ]
        also = [
            own
            for goal, own in zip(strange, strange_words, strict=True)
            if _half_of(goal, families) != fold
        ]
        _fit_words(reader, settings, f"half-{fold}", [*chain(*heard), *also], held)
        readers.append(reader)
    _fit_words(model, settings, "words", [*chain(*words), *strange_words], held)
    return readers


def _family_row(
    model: Aligner,
    family: str,
    choices: Sequence[Choosing],
    words: Sequence[Words],
    subjects: Sequence["Subject"],
) -> dict[str, Any]:
    """Return a summary row of one family of wordings, or of "all"."""
    own = [c for c in choices if family in ("all", c.family)]
    figures = measure(model, own)
    figures |= roles_right(model.word, [w for w in words if family in ("all", w.family)])
    figures |= _subjects_right(model, [s for s in subjects if family in ("all", s.family)])
    return {"agent": family, "n": len(own), **figures}


def _install(model: Aligner) -> None:
    install({name: tensor.detach().numpy() for name, tensor in model.arrays().items()})


def _fit_words(
    model: Aligner,
    settings: AlignerSettings,
    name: str,
    fitted: Sequence[Words],
    held: Sequence[Words],
) -> None:
    def loss(part: Tensor) -> Tensor:
        return role_loss(model.word, [fitted[i] for i in part.tolist()])

    _fit(
        model,
        settings,
        name,
        len(fitted),
        loss,
        lambda: roles_right(model.word, held),
        batch=settings.batch // 2,
    )


def _fit_values(
    model: Aligner, settings: AlignerSettings, fitted: Sequence[Choosing], held: Sequence[Choosing]
) -> int:
    def loss(part: Tensor) -> Tensor:
        logits, ruled, targets, excluded, present = batch(model, [fitted[i] for i in part.tolist()])
        ruling = binary_cross_entropy_with_logits(ruled[present], excluded[present])
        return cross_entropy(logits, targets) + 0.5 * ruling

    def validate() -> dict[str, float]:
        figures = measure(model, held)
        figures = {"fair": figures.pop("fair"), **figures}  # what decides stands first
        return {f"validation_{name}": value for name, value in figures.items()}

    return _fit(model, settings, "values", len(fitted), loss, validate)


def _fit(
    model: Aligner,
    settings: AlignerSettings,
    name: str,
    size: int,
    loss: Callable[[Tensor], Tensor],
    validate: Callable[[], dict[str, float]],
    batch: int | None = None,
) -> int:
    """Fit by the ``loss`` of some of ``size`` rows at a time; returns the number of epochs."""

    def data(generator: Generator) -> Iterator[Tensor]:
        order = torch.randperm(size, generator=generator)
        yield from torch.split(order, batch or settings.batch)

    own = settings.model_copy(update={"run": f"{settings.run}/{name}"})
    return len(Trainer(data, model, loss, validate).fit(own)) - 1


def batch(
    model: Aligner, choices: Sequence[Choosing]
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return logits (B, n + 1; none is last), exclusion logits (B, n), targets, excluded, present."""
    most = max(len(c.rows) for c in choices)
    rows = torch.zeros(len(choices), most, len(VALUE))
    present = torch.zeros(len(choices), most, dtype=torch.bool)
    excluded = torch.zeros(len(choices), most)
    for i, choice in enumerate(choices):
        rows[i, : len(choice.rows)] = torch.from_numpy(choice.rows)
        present[i, : len(choice.rows)] = True
        for place in choice.excluded:
            excluded[i, place] = 1.0
    targets = torch.tensor([most if c.asked == len(c.rows) else c.asked for c in choices])
    rest = torch.from_numpy(np.stack([c.none for c in choices]))
    out = model.value(rows)
    logits = out[..., 0].masked_fill(~present, -1e9)
    logits = torch.cat([logits, model.none(rest)], dim=-1)
    return logits, out[..., 1], targets, excluded, present


def measure(model: Aligner, choices: Sequence[Choosing]) -> dict[str, float]:
    """Return accuracies, and the expected calibration error of P(asked)."""
    right: list[float] = []
    offered: list[float] = []
    none: list[float] = []
    sure: list[float] = []
    ruled_out: list[float] = []
    with torch.inference_mode():
        for at in range(0, len(choices), 512):
            part = choices[at : at + 512]
            logits, ruled, targets, excluded, present = batch(model, part)
            chances = logits.softmax(-1)
            top, best = chances.max(-1)
            hits = (best == targets).float()
            right += hits.tolist()
            sure += top.tolist()
            is_none = targets == logits.shape[1] - 1
            offered += hits[~is_none].tolist()
            none += hits[is_none].tolist()
            ruled_out += ((ruled > 0) & present)[excluded > 0].float().tolist()
    return {
        "right": mean(right),
        "right_offered": mean(offered),
        "right_none": mean(none),
        "fair": (mean(offered) + mean(none)) / 2,
        "excluded_found": mean(ruled_out),
        "calibration_error": _calibration(sure, right),
    }


def _calibration(sure: Sequence[float], right: Sequence[float]) -> float:
    """Return the mean distance of confidence and accuracy over ten bins, weighed by their sizes."""
    chances, hits = np.asarray(sure), np.asarray(right)
    bins = np.minimum((chances * _BINS).astype(int), _BINS - 1)
    gaps = [
        abs(chances[bins == b].mean() - hits[bins == b].mean()) * (bins == b).mean()
        for b in range(_BINS)
        if (bins == b).any()
    ]
    return float(sum(gaps))
