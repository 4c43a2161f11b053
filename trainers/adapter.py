"""A low-rank adapter (LoRA, Hu et al. 2021) on the sentence model, with a linear head.

A task is a subclass: ``example`` says which parts of a text are classified, and as what.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer
from torch import Generator, Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModel
from transformers.utils import logging

from stategate.stores.assets.fetch import asset_path
from stategate.stores.assets.weights import load_arrays, read_meta
from stategate.trainers.settings import AdapterSettings
from stategate.trainers.trainer import Figures, Trainer, shuffled

#: Our own rows and texts to learn from.
DATA = Path(__file__).parent / "data"
#: Width of the model's states.
WIDTH = 384


@dataclass(frozen=True)
class Row:
    """A text, or two that are read together, with its class (words; "" where its tags say it).

    ``weight`` is how often an epoch reads it on average; ``split`` is "train" or what it tests. Rows
    of a ``group`` are one question, asked of each ``second``.
    """

    text: str
    second: str = ""
    label: str = ""
    weight: float = 1.0
    split: str = "train"
    group: str = ""


@dataclass(frozen=True)
class Example:
    """A row as the model reads it: word pieces, the pieces (parts, pieces) of each part, its classes.

    ``classes`` (parts, heads) hold -1 where a head has none; ``weights`` (parts,) are of the loss.
    """

    pieces: Encoding
    masks: NDArray[np.bool_]
    classes: NDArray[np.int64]
    weights: NDArray[np.float32]


class AdaptedModel(nn.Module):
    """The sentence model, frozen, with an adapter at every linear layer; ``head`` reads its states.

    ``sizes`` are the numbers of classes of each head: columns of the logits, side by side.
    """

    example: Callable[[Row], Example]
    figures: Callable[[Sequence[Row]], Figures]

    def __init__(self, rank: int, head: nn.Linear, pieces: int, sizes: Sequence[int]) -> None:
        super().__init__()
        folder = asset_path("minilm")
        logging.disable_progress_bar()  # it shows no progress of ours
        bert = AutoModel.from_pretrained(folder, local_files_only=True).eval()
        self._bert = [bert.requires_grad_(False)]  # in a list: no part of the weights to keep
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(pieces)
        self.down, self.up = nn.ParameterDict(), nn.ParameterDict()
        for name, layer in bert.encoder.named_modules(prefix="encoder"):
            if isinstance(layer, nn.Linear):
                key = name.replace(".", "/")
                spread = layer.in_features**-0.5
                self.down[key] = nn.Parameter(spread * torch.randn(rank, layer.in_features))
                self.up[key] = nn.Parameter(torch.zeros(layer.out_features, rank))
                layer.register_forward_hook(partial(self._adapt, key))
        self.architecture = {"rank": rank, "model": "all-MiniLM-L6-v2"}
        self.head, self.sizes = head, [*sizes]
        nn.init.normal_(self.head.weight, std=0.01)

    def _adapt(self, key: str, _: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        added: Tensor = inputs[0] @ self.down[key].T @ self.up[key].T
        return output + added

    def means(self, examples: Sequence[Example]) -> Tensor:
        """Return the mean state of the pieces of each part, example by example."""
        texts = [example.pieces for example in examples]
        states: Tensor = self._bert[0](
            _padded([text.ids for text in texts]),
            attention_mask=_padded([text.attention_mask for text in texts]),
            token_type_ids=_padded([text.type_ids for text in texts]),
        ).last_hidden_state
        means = []
        for example, pieces in zip(examples, states, strict=True):
            rows = torch.from_numpy(example.masks).float()
            means.append(rows @ pieces[: rows.shape[1]] / rows.sum(1, keepdim=True).clamp_min(1))
        return torch.cat(means)

    def forward(self, examples: Sequence[Example]) -> Tensor:
        """Return the logits (parts, classes) of all parts of ``examples``."""
        logits: Tensor = self.head(self.means(examples))
        return logits

    def loss(self, rows: Sequence[Row]) -> Tensor:
        """Return the weighted cross-entropy of the classes, summed over the heads."""
        examples = [self.example(row) for row in rows]
        gold = torch.from_numpy(np.concatenate([one.classes for one in examples]))
        weights = torch.from_numpy(np.concatenate([one.weights for one in examples]))
        losses = []
        for logits, classes in zip(self(examples).split(self.sizes, 1), gold.T, strict=True):
            each = cross_entropy(logits, classes, ignore_index=-1, reduction="none")
            losses.append((each * weights).sum() / (weights * (classes >= 0)).sum().clamp_min(1))
        return torch.stack(losses).sum()

    def validated(self, splits: Mapping[str, Sequence[Row]]) -> Figures:
        """Return the figures of each split, and first their mean as ``right``."""
        figures = {
            f"{split}_{name}": figure
            for split, rows in splits.items()
            for name, figure in self.figures(rows).items()
        }
        return {"right": float(np.mean([*figures.values()])), **figures}

    def fit(
        self,
        settings: AdapterSettings,
        data: Callable[[Generator], Sequence[Row]],
        metric: Callable[[], Figures],
    ) -> int:
        """Train on each epoch's ``data``, keep the best by ``metric``; return the number of epochs.

        The weights are averaged with those of ``start`` (Wortsman et al. 2022), against forgetting;
        ``metric`` is of the averages.
        """
        arrays, start = self.arrays(), dict[str, Tensor]()
        if settings.start:
            kept, _ = load_arrays(settings.start, str(read_meta(settings.start)["kind"]))
            start = {name: torch.tensor(array).float() for name, array in kept.items()}

        def average(share: float) -> None:
            for name, weights in start.items():
                arrays[name].data.lerp_(weights, 1 - share)

        def metric_of_average() -> Figures:
            trained = deepcopy(self.state_dict())
            average(settings.share)
            figures = metric()
            self.load_state_dict(trained)
            return figures

        def batches(generator: Generator) -> Iterator[list[Row]]:
            return shuffled(data(generator), settings.batch, generator, length_of)

        average(0)  # begins with ``start``
        epochs = len(Trainer(batches, self, self.loss, metric_of_average).fit(settings)) - 1
        average(settings.share)
        return epochs

    def arrays(self) -> dict[str, Tensor]:
        """Return the checkpoint's weights by the names that ``SentenceModel.adapted`` reads."""
        arrays = {}
        for key in self.up:
            name = key.replace("/", ".")
            arrays[f"{name}/up"], arrays[f"{name}/down"] = self.up[key], self.down[key]
        return {**arrays, "head/weight": self.head.weight, "head/bias": self.head.bias}


def length_of(row: Row) -> int:
    """Return the length by which a batch's rows are alike (less padding)."""
    return len(row.text) + len(row.second)


def _padded(rows: Sequence[Sequence[int]]) -> Tensor:
    return pad_sequence([torch.tensor(row) for row in rows], batch_first=True)
