"""The network of ``need`` in torch, its training, and its figures on threads held out."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Generator, Tensor, nn

from stategate.nodes.build_context.messages.part_features import (
    BUCKETS,
    FEATURES,
    MESSAGE_WORDS,
    padded,
)
from stategate.nodes.protocols import Vector
from stategate.trainers.need.labels import LabelledThread
from stategate.trainers.settings import NeedSettings
from stategate.trainers.trainer import Figures, Trainer, shuffled

_D_WORD, _D_STATE, _D_HIDDEN = 16, 24, 64


class NeedNetwork(nn.Module):
    """Hashed words, a GRU over messages, and a scorer of parts; ``NeedScorer`` is the same in NumPy."""

    def __init__(self, center: Tensor, scale: Tensor) -> None:
        super().__init__()
        self.words = nn.EmbeddingBag(BUCKETS, _D_WORD, mode="mean", padding_idx=0)
        nn.init.normal_(self.words.weight, std=0.3)
        self.reader = nn.GRU(_D_WORD, _D_STATE)
        self.query = nn.Parameter(torch.randn(_D_STATE, 2 * _D_WORD) * 0.1)
        self.hidden = nn.Linear(FEATURES + 2 * _D_WORD + 2 + _D_STATE, _D_HIDDEN)
        self.out = nn.Linear(_D_HIDDEN, 1)
        self.drop = nn.Dropout(0.2)
        self.center: Tensor
        self.scale: Tensor
        self.register_buffer("center", center)
        self.register_buffer("scale", scale)

    def states(self, thread: LabelledThread) -> Tensor:
        """Return the state before each message and after the last (messages + 1, d_state)."""
        words = self.words(torch.from_numpy(padded(thread.words, MESSAGE_WORDS)))
        return torch.cat([torch.zeros(1, _D_STATE), self.reader(words)[0]])

    def forward(self, thread: LabelledThread, states: Tensor) -> Tensor:
        """Return the logit of each row of ``thread``."""
        state = states[torch.from_numpy(thread.decision)]
        key = self.words(torch.from_numpy(thread.keys))
        tool = self.words(torch.from_numpy(thread.tools))
        query = state @ self.query
        matches = [(key * query[:, :_D_WORD]).sum(1), (tool * query[:, _D_WORD:]).sum(1)]
        inputs = (torch.from_numpy(thread.features) - self.center) / self.scale
        joined = torch.cat([inputs, key, tool, torch.stack(matches, 1), state], 1)
        logits: Tensor = self.out(self.drop(torch.relu(self.hidden(self.drop(joined))))).squeeze(1)
        return logits

    def arrays(self, calibration: tuple[float, float]) -> dict[str, Tensor]:
        """Return the weights under the names that ``NeedScorer`` reads."""
        gru = dict(self.reader.named_parameters())
        return {
            "words": self.words.weight,
            "state.input": gru["weight_ih_l0"],
            "state.input_bias": gru["bias_ih_l0"],
            "state.recurrent": gru["weight_hh_l0"].T,
            "state.recurrent_bias": gru["bias_hh_l0"],
            "query": self.query,
            "hidden.weight": self.hidden.weight,
            "hidden.bias": self.hidden.bias,
            "out.weight": self.out.weight,
            "out.bias": self.out.bias,
            "center": self.center,
            "scale": self.scale,
            "calibration": torch.tensor(calibration),
        }


#: A labelled thread, and how much it counts.
Weighed = tuple[LabelledThread, float]


def loss_of(network: NeedNetwork, threads: Sequence[Weighed]) -> Tensor:
    """Return the weighted cross-entropy of the rows of threads."""
    losses = []
    for thread, share in threads:
        logits = network(thread, network.states(thread))
        target, weight = torch.from_numpy(thread.label), torch.from_numpy(thread.weight)
        each = nn.functional.binary_cross_entropy_with_logits(logits, target, reduction="none")
        losses.append(share * (each * weight).sum() / weight.sum())
    return torch.stack(losses).mean()


def fit(
    threads: Sequence[Weighed], validation: Sequence[Weighed], settings: NeedSettings
) -> NeedNetwork:
    """Return the network fitted to ``threads``, at the epoch with the least ``validation`` loss."""
    torch.manual_seed(settings.seed)
    rows = np.concatenate([thread.features for thread, _ in threads])
    center, spread = rows.mean(0), rows.std(0)
    scale = np.where(spread > 1e-3, spread, 1.0).astype(np.float32)
    network = NeedNetwork(torch.from_numpy(center), torch.from_numpy(scale))

    def batches(generator: Generator) -> Iterator[Sequence[Weighed]]:
        return shuffled(threads, settings.batch, generator)

    def metric() -> Figures:
        with torch.inference_mode():
            return {"held_likelihood": -float(loss_of(network, validation))}

    Trainer(batches, network, lambda batch: loss_of(network, batch), metric).fit(settings)
    return network


@torch.no_grad()
def scored(network: NeedNetwork, threads: Sequence[LabelledThread]) -> Vector:
    """Return the rows (logit, label, weight) of threads."""
    rows = []
    for thread in threads:
        logits = network(thread, network.states(thread)).numpy()
        rows.append(np.stack([logits, thread.label, thread.weight**2], axis=1))
    return np.concatenate(rows)
