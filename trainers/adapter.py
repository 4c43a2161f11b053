"""A low-rank adapter (LoRA, Hu et al. 2021) on the sentence model, with a head for each task.

A task is a subclass: ``length`` and ``loss`` of its examples, and a ``forward`` that reads
:meth:`AdaptedModel.means` by ``head``.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer
from torch import Generator, Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModel
from transformers.utils import logging

from stategate.stores.assets.fetch import asset_path
from stategate.stores.assets.weights import load_arrays, read_meta
from stategate.trainers.settings import AdapterSettings
from stategate.trainers.trainer import Figures, Trainer, in_batches, shuffled

#: Width of the model's states.
WIDTH = 384
E = TypeVar("E")  # an example


class AdaptedModel(nn.Module, Generic[E]):
    """The sentence model, frozen, with an adapter at every linear layer; ``head`` reads its states."""

    #: The length by which a batch's examples are alike (less padding).
    length: Callable[[E], int]
    loss: Callable[[Sequence[E]], Tensor]

    def __init__(self, rank: int, head: nn.Linear, pieces: int) -> None:
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
        self.head = head
        nn.init.normal_(self.head.weight, std=0.01)

    def _adapt(self, key: str, _: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        added: Tensor = inputs[0] @ self.down[key].T @ self.up[key].T
        return output + added

    def means(self, texts: Sequence[Encoding], masks: Sequence[NDArray[np.bool_]]) -> Tensor:
        """Return the mean state of the pieces of each row of ``masks`` (rows, pieces), text by text."""
        states: Tensor = self._bert[0](
            _padded([text.ids for text in texts]),
            attention_mask=_padded([text.attention_mask for text in texts]),
            token_type_ids=_padded([text.type_ids for text in texts]),
        ).last_hidden_state
        means = []
        for mask, pieces in zip(masks, states, strict=True):
            rows = torch.from_numpy(mask).float()
            means.append(rows @ pieces[: mask.shape[1]] / rows.sum(1, keepdim=True).clamp_min(1))
        return torch.cat(means)

    def fit(
        self,
        settings: AdapterSettings,
        data: Callable[[Generator], Sequence[E]],
        metric: Callable[[], Figures],
    ) -> int:
        """Train on each epoch's ``data``, keep the best by ``metric``; return the number of epochs.

        The weights are averaged with those of ``start`` (Wortsman et al. 2022), against forgetting.
        """
        arrays, start = self.arrays(), dict[str, Tensor]()
        if settings.start:
            kept, _ = load_arrays(settings.start, str(read_meta(settings.start)["kind"]))
            start = {name: torch.tensor(array).float() for name, array in kept.items()}
            for name, weights in start.items():
                arrays[name].data.copy_(weights)
        trainer = Trainer(
            lambda generator: shuffled(data(generator), settings.batch, generator, self.length),
            self,
            self.loss,
            metric,
        )
        epochs = len(trainer.fit(settings)) - 1
        for name, weights in start.items():
            arrays[name].data.lerp_(weights, 1 - settings.share)
        return epochs

    def arrays(self) -> dict[str, Tensor]:
        """Return the checkpoint's weights by the names that ``SentenceModel.adapted`` reads."""
        arrays = {}
        for key in self.up:
            name = key.replace("/", ".")
            arrays[f"{name}/up"], arrays[f"{name}/down"] = self.up[key], self.down[key]
        return {**arrays, "head/weight": self.head.weight, "head/bias": self.head.bias}


#: Two texts, the label (1 where the relation that is learned holds between them), and the weight.
TaughtPair = tuple[str, str, float, float]


class PairModel(AdaptedModel[TaughtPair]):
    """Reads two texts together; its head compares their mean states (``language.pairs``)."""

    def __init__(self, rank: int, pieces: int) -> None:
        super().__init__(rank, nn.Linear(4 * WIDTH, 1), pieces)

    def forward(self, texts: Sequence[tuple[str, str]]) -> Tensor:
        """Return a logit for each pair."""
        pieces = [self.tokenizer.encode(*pair) for pair in texts]
        masks = [np.equal.outer([0, 1], pair.type_ids) for pair in pieces]
        first, second = self.means(pieces, masks).view(-1, 2, WIDTH).unbind(1)
        rows = torch.cat([first, second, 20 * first * second, (first - second).abs()], 1)
        logits: Tensor = self.head(rows).squeeze(1)
        return logits

    def length(self, example: TaughtPair) -> int:
        """Return the length of both texts."""
        return len(example[0]) + len(example[1])

    def loss(self, batch: Sequence[TaughtPair]) -> Tensor:
        """Return the weighted cross-entropy of the pairs."""
        gold, weight = (torch.tensor([pair[i] for pair in batch]) for i in (2, 3))
        return binary_cross_entropy_with_logits(self([pair[:2] for pair in batch]), gold, weight)

    @torch.inference_mode()
    def logits(self, texts: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        """Return the logit of each pair."""
        order = sorted(range(len(texts)), key=lambda i: len(texts[i][0]) + len(texts[i][1]))
        logits = np.zeros(len(texts))
        for batch in in_batches(order):
            logits[batch] = self([texts[i] for i in batch]).numpy()
        return logits


def _padded(rows: Sequence[Sequence[int]]) -> Tensor:
    return pad_sequence([torch.tensor(row) for row in rows], batch_first=True)
