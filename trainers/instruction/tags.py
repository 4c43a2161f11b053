"""Train ``tagger``: an adapter on the sentence model that tags each word of an instruction.

Sentences come from other writers' requests (``written``), the shop's wordings (``recombined``) and
people's sentences for tasks in rooms; each epoch draws new ones. Held out are the splits of wordings in
``held_out``, one in ten of the writers' requests and the goals of ``valid_unseen``'s games.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from tokenizers import Encoding
from torch import Generator, Tensor, nn
from torch.nn.functional import cross_entropy

from stategate.envs.webshop.wordings import SPLITS, names_of
from stategate.language.amounts import tokens
from stategate.language.instruction.tagger import TAGS, token_places
from stategate.trainers.adapter import WIDTH, AdaptedModel
from stategate.trainers.instruction.marked import unmarked
from stategate.trainers.instruction.recombined import ShopParts, recombined, short_texts
from stategate.trainers.instruction.rooms import Recombined, goals_of_games, read_people
from stategate.trainers.instruction.written import WRITTEN, held_requests, written_texts
from stategate.trainers.settings import TaggerSettings
from stategate.trainers.trainer import Figures, TrainingRun, file_hashes
from stategate.trainers.webshop import load_shop, practice

_PIECES = 128  # word pieces of a text that are read
_HELD_TEXTS = 600  # of the shop
_NUMBER_WEIGHT = 6.0  # of a number's tag in the loss: upper or lower end is hardest to tell


@dataclass(frozen=True)
class TaggedText:
    """A text's word pieces, the token of each piece, and each token's gold tag."""

    pieces: Encoding
    places: NDArray[np.int64]
    tags: NDArray[np.int64]
    is_number: NDArray[np.bool_]


class TagModel(AdaptedModel[TaggedText]):
    """Reads each token as the mean of its pieces' states."""

    def __init__(self, rank: int) -> None:
        super().__init__(rank, nn.Linear(WIDTH, len(TAGS)), _PIECES)

    def example(self, marked: str) -> TaggedText:
        """Return a marked text as the model reads it."""
        text, tags = unmarked(marked)
        words, pieces = tokens(text), self.tokenizer.encode(text)
        is_number = np.array([word.value is not None for word in words])
        places = np.array(token_places(words, pieces.offsets))
        return TaggedText(pieces, places, np.array(tags, dtype=np.int64), is_number)

    def forward(self, batch: Sequence[TaggedText]) -> Tensor:
        """Return the logits (tokens, TAGS) of all tokens of ``batch``."""
        masks = [text.places == np.arange(len(text.tags))[:, None] for text in batch]
        logits: Tensor = self.head(self.means([text.pieces for text in batch], masks))
        return logits

    def length(self, example: TaggedText) -> int:
        """Return the number of word pieces."""
        return len(example.places)

    def loss(self, batch: Sequence[TaggedText]) -> Tensor:
        """Return the cross-entropy of the tags, numbers weighted."""
        gold = torch.from_numpy(np.concatenate([text.tags for text in batch]))
        is_number = torch.from_numpy(np.concatenate([text.is_number for text in batch]))
        weight = torch.where(is_number, _NUMBER_WEIGHT, 1.0)
        return (cross_entropy(self(batch), gold, reduction="none") * weight).sum() / weight.sum()

    @torch.inference_mode()
    def accuracy(self, texts: Sequence[TaggedText]) -> Figures:
        """Return the accuracy of tags, and the share of texts whose limits are all right."""
        ends = [TAGS.index("high"), TAGS.index("low")]
        tags, limits = [], []
        for text in texts:
            best = self([text]).argmax(1).numpy()
            tags += (best == text.tags).tolist()
            limits.append(all(((best == end) == (text.tags == end)).all() for end in ends))
        return {"tags_right": float(np.mean(tags)), "limits_right": float(np.mean(limits))}

    @torch.inference_mode()
    def calibrate(self, texts: Sequence[TaggedText]) -> float:
        """Calibrate the head on ``texts`` by temperature scaling (Guo et al. 2017).

        Returns the factor on the logits.
        """
        logits = torch.cat([self([text]) for text in texts])
        gold = torch.from_numpy(np.concatenate([text.tags for text in texts]))
        best = minimize_scalar(
            lambda scale: float(cross_entropy(scale * logits, gold)),
            bounds=(0.1, 3),
            method="bounded",
        )
        self.head.weight.mul_(best.x)
        self.head.bias.mul_(best.x)
        return float(best.x)


def heldout_accuracy(model: TagModel, heldout: Mapping[str, Sequence[TaggedText]]) -> Figures:
    """Return the accuracies on each set of texts, and first their mean as ``right``."""
    figures = {
        f"{name}_{figure}": share
        for name, texts in heldout.items()
        for figure, share in model.accuracy(texts).items()
    }
    return {"right": float(np.mean([*figures.values()])), **figures}


def train(settings: TaggerSettings) -> dict[str, Any]:
    """Train, write the checkpoint; return the summary."""
    people = Path(settings.people)
    run = TrainingRun(settings, file_hashes(people, WRITTEN))
    shop, held_shop = shop_parts(settings)
    model = TagModel(settings.rank)
    held_texts = recombined(held_shop, _HELD_TEXTS, settings.seed + 1)
    unseen = goals_of_games(Path(settings.games), "valid_unseen")
    rooms = Recombined(read_people(people, "train", unseen))
    heldout = {
        "families": [model.example(text) for text in held_texts],
        "requests": [model.example(text) for text in held_requests()],
    }

    def texts(generator: Generator) -> list[TaggedText]:
        marked_texts = _texts(settings, shop, rooms, generator.initial_seed())
        return [text for text in map(model.example, marked_texts) if len(text.tags)]

    epochs = model.fit(settings, texts, lambda: heldout_accuracy(model, heldout))
    all_heldout = [text for texts in heldout.values() for text in texts]
    figures = {**heldout_accuracy(model, heldout), "scale": model.calibrate(all_heldout)}
    table = [{"agent": "held out", "n": len(all_heldout), **figures}]
    architecture = {"tags": list(TAGS), **model.architecture}
    facts = {"families": shop.families, "epochs": epochs}
    return run.finish("tagger", architecture, model.arrays(), table, facts)


def shop_parts(settings: TaggerSettings) -> tuple[ShopParts, ShopParts]:
    """Return the parts of the shop's texts to train on, and held out by goal and by family.

    Where no family is held out, those of training are heard there, too.
    """
    plan = practice(load_shop(settings.shop), settings.seed)
    goals, heldout = ([plan.world.goals[i] for i in side] for side in (plan.training, plan.heldout))
    products = [plan.world.products[asin] for asin in sorted({goal["asin"] for goal in goals})]
    left_out = (*settings.held_out, *settings.tests)
    families = [name for split in SPLITS if split not in left_out for name in names_of(split)]
    held_families = [name for split in settings.held_out for name in names_of(split)] or families
    return ShopParts(goals, products, families), ShopParts(heldout, products, held_families)


def _texts(
    settings: TaggerSettings, shop: ShopParts, rooms: Recombined, seed: int
) -> Iterator[str]:
    """Yield an epoch's marked texts."""
    rng = random.Random(f"rooms {seed}")
    originals = rng.sample([*rooms.originals()], settings.rooms // 2)
    yield from (sentence.text for sentence in originals)
    yield from (sentence.text for sentence in rooms.generated(settings.rooms // 2, rng))
    yield from recombined(shop, settings.texts // 2, seed)
    yield from short_texts(shop, settings.texts // 2, seed)
    yield from written_texts(settings.written, seed)
