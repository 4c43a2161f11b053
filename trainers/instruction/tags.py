"""Train the token tagger: an adapter on the sentence model that says what each word is.

Sentences come from other writers' requests, parts and limits exchanged (``written``), from the shop's
wordings, recombined, and from people's sentences for tasks in rooms; each epoch draws new ones. The
splits of wordings in ``held_out``, one in ten of the writers' requests and the goals of
``valid_unseen``'s games are left out.
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

from stategate.language.amounts import tokens
from stategate.language.instruction.tagger import TAGS, token_places
from stategate.trainers.adapter import WIDTH, AdaptedModel
from stategate.trainers.instruction.marked import unmarked
from stategate.trainers.instruction.rooms import Recombined, goals_of_games, read_people
from stategate.trainers.instruction.shop import ShopData
from stategate.trainers.instruction.written import WRITTEN, held_requests, written_texts
from stategate.trainers.settings import TaggerSettings
from stategate.trainers.trainer import Figures, TrainingRun, file_hashes

_PIECES = 128  # word pieces of a text that are read
_NUMBERS = 6.0  # how much a number's tag counts beside a word's: its direction is hardest to read


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
        masks = [one.places == np.arange(len(one.tags))[:, None] for one in batch]
        logits: Tensor = self.head(self.means([one.pieces for one in batch], masks))
        return logits

    def length(self, example: TaggedText) -> int:
        """Return the number of word pieces."""
        return len(example.places)

    def loss(self, batch: Sequence[TaggedText]) -> Tensor:
        """Return the cross-entropy of the tags, numbers weighted."""
        gold = torch.from_numpy(np.concatenate([one.tags for one in batch]))
        is_number = torch.from_numpy(np.concatenate([one.is_number for one in batch]))
        weight = torch.where(is_number, _NUMBERS, 1.0)
        return (cross_entropy(self(batch), gold, reduction="none") * weight).sum() / weight.sum()

    @torch.inference_mode()
    def right(self, texts: Sequence[TaggedText]) -> Figures:
        """Return the share of tokens with the right tag, and of texts whose limits are all right."""
        ends = [TAGS.index("high"), TAGS.index("low")]
        tags, limits = [], []
        for one in texts:
            best = self([one]).argmax(1).numpy()
            tags += (best == one.tags).tolist()
            limits.append(all(((best == end) == (one.tags == end)).all() for end in ends))
        return {"tags_right": float(np.mean(tags)), "limits_right": float(np.mean(limits))}

    @torch.inference_mode()
    def calibrate(self, texts: Sequence[TaggedText]) -> float:
        """Scale the head so that its probabilities are likeliest on ``texts`` (temperature scaling).

        Returns the factor on the logits (Guo et al. 2017).
        """
        logits = torch.cat([self([one]) for one in texts])
        gold = torch.from_numpy(np.concatenate([one.tags for one in texts]))
        best = minimize_scalar(
            lambda scale: float(cross_entropy(scale * logits, gold)),
            bounds=(0.1, 3),
            method="bounded",
        )
        self.head.weight.mul_(best.x)
        self.head.bias.mul_(best.x)
        return float(best.x)


def measured(model: TagModel, held: Mapping[str, Sequence[TaggedText]]) -> Figures:
    """Return the mean of all figures as ``right``, and the figures of each set of texts."""
    figures = {
        f"{name}_{figure}": share
        for name, texts in held.items()
        for figure, share in model.right(texts).items()
    }
    return {"right": float(np.mean([*figures.values()])), **figures}


def train(settings: TaggerSettings) -> dict[str, Any]:
    """Train, write the checkpoint; return the summary."""
    people = Path(settings.people)
    run = TrainingRun(settings, file_hashes(people, WRITTEN))
    shop, model = ShopData.of(settings), TagModel(settings.rank)
    unseen = goals_of_games(Path(settings.games), "valid_unseen")
    rooms = Recombined(read_people(people, "train", unseen))
    heldout = {
        "families": [model.example(text) for text in shop.held_texts(settings.seed)],
        "requests": [model.example(text) for text in held_requests()],
    }

    def texts(generator: Generator) -> list[TaggedText]:
        marked_texts = _texts(settings, shop, rooms, generator.initial_seed())
        return [one for text in marked_texts if len((one := model.example(text)).tags)]

    epochs = model.fit(settings, texts, lambda: measured(model, heldout))
    every = [text for texts in heldout.values() for text in texts]
    figures = {**measured(model, heldout), "scale": model.calibrate(every)}
    table = [{"agent": "held out", "n": len(every), **figures}]
    architecture = {"tags": list(TAGS), **model.architecture}
    facts = {"families": shop.families, "epochs": epochs}
    return run.finish("tagger", architecture, model.arrays(), table, facts)


def _texts(settings: TaggerSettings, shop: ShopData, rooms: Recombined, seed: int) -> Iterator[str]:
    """Yield an epoch's marked texts."""
    rng = random.Random(f"rooms {seed}")
    yield from (one.text for one in rng.sample([*rooms.originals()], settings.rooms // 2))
    yield from (one.text for one in rooms.generated(settings.rooms // 2, rng))
    yield from shop.texts(settings.texts // 2, seed)
    yield from written_texts(settings.written, seed)
