"""Train ``tagger``: an adapter on the sentence model that tags each word of an instruction.

Texts come from other writers' requests (``written``), the shop's wordings (``data/shop_texts*``, made
of other writers' things and values by a program at commit c17a7658) and people's sentences for tasks in
rooms; each epoch draws anew. Held out are some families of wordings, one in ten of the writers'
requests and the goals of ``valid_unseen``'s games.
"""

import gzip
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from torch import Generator, nn
from torch.nn.functional import cross_entropy

from stategate.language.amounts import tokens
from stategate.language.instruction.tagger import TAGS, token_places
from stategate.trainers.adapter import DATA, WIDTH, AdaptedModel, Example, Row
from stategate.trainers.instruction.marked import unmarked
from stategate.trainers.instruction.rooms import Recombined, goals_of_games, read_people
from stategate.trainers.instruction.written import WRITTEN, held_requests, written_texts
from stategate.trainers.settings import TaggerSettings
from stategate.trainers.trainer import Figures, TrainingRun, file_hashes

SHOP, HELD_SHOP = DATA / "shop_texts.txt.gz", DATA / "shop_texts_held_out.txt.gz"
_PIECES = 128  # word pieces of a text that are read
_NUMBER_WEIGHT = 6.0  # of a number's tag in the loss: upper or lower end is hardest to tell


class TagModel(AdaptedModel):
    """Reads each token as the mean of its pieces' states."""

    def __init__(self, rank: int) -> None:
        super().__init__(rank, nn.Linear(WIDTH, len(TAGS)), _PIECES, [len(TAGS)])

    def example(self, row: Row) -> Example:
        """Return a marked text as the model reads it."""
        text, tags = unmarked(row.text)
        words, pieces = tokens(text), self.tokenizer.encode(text)
        places = np.array(token_places(words, pieces.offsets))
        weights = [1.0 if word.value is None else _NUMBER_WEIGHT for word in words]
        masks = places == np.arange(len(tags))[:, None]
        return Example(pieces, masks, np.array(tags)[:, None], np.array(weights, np.float32))

    @torch.inference_mode()
    def figures(self, rows: Sequence[Row]) -> Figures:
        """Return the accuracy of tags, and the share of texts whose limits are all right."""
        ends = [TAGS.index("high"), TAGS.index("low")]
        tags, limits = [], []
        for text in map(self.example, rows):
            best, gold = self([text]).argmax(1).numpy(), text.classes[:, 0]
            tags += (best == gold).tolist()
            limits.append(all(((best == end) == (gold == end)).all() for end in ends))
        return {"tags_right": float(np.mean(tags)), "limits_right": float(np.mean(limits))}

    @torch.inference_mode()
    def calibrate(self, rows: Sequence[Row]) -> float:
        """Calibrate the head on ``rows`` by temperature scaling (Guo et al. 2017).

        Returns the factor on the logits.
        """
        texts = [self.example(row) for row in rows]
        logits = torch.cat([self([text]) for text in texts])
        gold = torch.from_numpy(np.concatenate([text.classes[:, 0] for text in texts]))
        best = minimize_scalar(
            lambda scale: float(cross_entropy(scale * logits, gold)),
            bounds=(0.1, 3),
            method="bounded",
        )
        self.head.weight.mul_(best.x)
        self.head.bias.mul_(best.x)
        return float(best.x)


def train(settings: TaggerSettings) -> dict[str, Any]:
    """Train, write the checkpoint; return the summary."""
    people = Path(settings.people)
    unseen = goals_of_games(Path(settings.games), "valid_unseen")
    rooms = Recombined(read_people(people, "train", unseen))
    run = TrainingRun(settings, file_hashes(people, WRITTEN, SHOP, HELD_SHOP))
    model, shop = TagModel(settings.rank), read_lines(SHOP)
    heldout = {
        "families": [Row(text) for text in read_lines(HELD_SHOP)],
        "requests": [Row(text) for text in held_requests()],
    }

    def rows(generator: Generator) -> list[Row]:
        """Return an epoch's texts: some of the shop's and of people's, and others recombined."""
        seed = generator.initial_seed()
        rng = random.Random(f"texts {seed}")
        originals = rng.sample([*rooms.originals()], settings.rooms // 2)
        sentences = [*originals, *rooms.generated(settings.rooms // 2, rng)]
        texts = [sentence.text for sentence in sentences]
        texts += rng.sample(shop, min(settings.texts, len(shop)))
        texts += written_texts(settings.written, seed)
        return [Row(text) for text in texts if text.strip()]

    epochs = model.fit(settings, rows, lambda: model.validated(heldout))
    every = [row for own in heldout.values() for row in own]
    figures = {**model.validated(heldout), "scale": model.calibrate(every)}
    table = [{"agent": "held out", "n": len(every), **figures}]
    architecture = {"tags": list(TAGS), **model.architecture}
    return run.finish("tagger", architecture, model.arrays(), table, {"epochs": epochs})


def read_lines(path: Path) -> list[str]:
    """Return the lines of a packed text."""
    return gzip.decompress(path.read_bytes()).decode().splitlines()
