"""A low-rank adapter (LoRA, Hu et al. 2021) on the sentence model, for trainers to put a layer on."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from stategate.stores.assets.fetch import asset_path

if TYPE_CHECKING:
    from tokenizers import Encoding

#: Width of the model's states.
WIDTH = 384


class AdaptedModel(nn.Module):
    """The sentence model, frozen, with an adapter at every linear layer; ``head`` reads its states."""

    def __init__(self, rank: int, head: nn.Linear, pieces: int) -> None:
        from tokenizers import Tokenizer
        from transformers import AutoModel

        super().__init__()
        folder = asset_path("minilm")
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
        self.head = head
        nn.init.normal_(self.head.weight, std=0.01)

    def _adapt(self, key: str, _: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        added: Tensor = inputs[0] @ self.down[key].T @ self.up[key].T
        return output + added

    def states(self, texts: Sequence["Encoding"]) -> Tensor:
        """Return the states (texts, pieces, WIDTH) of texts that the tokenizer read."""
        width = max(len(one.ids) for one in texts)
        states: Tensor = self._bert[0](
            padded([one.ids for one in texts], width),
            attention_mask=padded([one.attention_mask for one in texts], width),
            token_type_ids=padded([one.type_ids for one in texts], width),
        ).last_hidden_state
        return states

    def arrays(self) -> dict[str, Tensor]:
        """Return the weights under the names that ``SentenceModel.adapted`` reads, and the head's."""
        arrays = {}
        for key in self.up:
            name = key.replace("/", ".")
            arrays[f"{name}/up"], arrays[f"{name}/down"] = self.up[key], self.down[key]
        return {**arrays, "head/weight": self.head.weight, "head/bias": self.head.bias}

    def start_from(self, arrays: Mapping[str, Tensor]) -> None:
        """Take the weights of a checkpoint, as :meth:`arrays` names them."""
        with torch.no_grad():
            for name, own in self.arrays().items():
                own.copy_(arrays[name])


def padded(rows: Sequence[Sequence[int]], width: int) -> Tensor:
    """Return (rows, width), zeros behind the shorter ones."""
    return torch.stack([pad(torch.tensor(row), (0, width - len(row))) for row in rows])


def by_length(lengths: Sequence[int], size: int, generator: torch.Generator) -> list[list[int]]:
    """Return batches of places in random order, each of texts of like length."""
    order = torch.randperm(len(lengths), generator=generator).tolist()
    batches = []
    for start in range(0, len(order), 16 * size):
        part = sorted(order[start : start + 16 * size], key=lambda i: lengths[i])
        batches += [part[i : i + size] for i in range(0, len(part), size)]
    return [batches[i] for i in torch.randperm(len(batches), generator=generator).tolist()]
