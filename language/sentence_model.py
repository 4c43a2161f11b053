"""The sentence model all-MiniLM-L6-v2 in numpy: what reads words in their context.

A forward pass of BERT (Devlin et al. 2019) with mean pooling. Its vectors equal those of
sentence-transformers to six digits; for many texts at once that library is faster. A low-rank adapter
makes another reader of it: of instructions (``language.instruction.tagger``), of utterances
(``language.utterance``), of answers (``nodes.models.judge``).
"""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING

import numpy as np

from stategate.language.instruction.weights import Floats, load_checkpoint

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_TOKENS, _HEADS, _LAYERS = 256, 12, 6
_EPSILON = 1e-12
#: What finds the model's files, by name: assets are fetched and checked a floor above.
_ASSETS = "stategate.stores.assets.fetch:asset_path"


class SentenceModel:
    """The model with ``weights`` by name; texts are cut after 256 word pieces."""

    def __init__(self, weights: Mapping[str, Floats], tokenizer: "Tokenizer") -> None:
        self._weights, self._tokenizer = weights, tokenizer

    @classmethod
    def load(cls, folder: Path) -> "SentenceModel":
        """Read the model in ``folder`` (``tokenizer.json``, ``model.safetensors``)."""
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        tokenizer.enable_truncation(_TOKENS)
        tokenizer.no_padding()
        return cls(load_file(folder / "model.safetensors"), tokenizer)

    def adapted(self, adapter: Mapping[str, Floats]) -> "SentenceModel":
        """Return the model with a low-rank adapter added: ``LAYER/up`` @ ``LAYER/down`` to a layer."""
        layers = [name.removesuffix("/up") for name in adapter if name.endswith("/up")]
        added = {
            f"{layer}.weight": self._weights[f"{layer}.weight"]
            + adapter[f"{layer}/up"] @ adapter[f"{layer}/down"]
            for layer in layers
        }
        return SentenceModel({**self._weights, **added}, self._tokenizer)

    def encode(self, texts: Sequence[str]) -> Floats:
        """Return the unit vectors of ``texts`` (len(texts), 384)."""
        return np.stack([self._vector(self._tokenizer.encode(_valid(text)).ids) for text in texts])

    def states(self, text: str) -> tuple[Floats, list[tuple[int, int]]]:
        """Return the states (pieces, 384) of word pieces, and where each stands in ``text``."""
        pieces = self._tokenizer.encode(_valid(text))
        return self._hidden(pieces.ids, pieces.type_ids), pieces.offsets

    def pair(self, first: str, second: str) -> tuple[Floats, Floats]:
        """Return the mean states (384) of two texts that are read together, one after the other."""
        pieces = self._tokenizer.encode(_valid(first), _valid(second))
        hidden, is_second = self._hidden(pieces.ids, pieces.type_ids), np.asarray(pieces.type_ids)
        return hidden[is_second == 0].mean(axis=0), hidden[is_second == 1].mean(axis=0)

    def _vector(self, ids: Sequence[int]) -> Floats:
        mean = self._hidden(ids, [0] * len(ids)).mean(axis=0)
        return np.asarray(mean / max(float(np.linalg.norm(mean)), _EPSILON), dtype=np.float32)

    def _hidden(self, ids: Sequence[int], type_ids: Sequence[int]) -> Floats:
        """Return the last layer's states of word pieces (pieces, 384)."""
        weights = self._weights
        words = weights["embeddings.word_embeddings.weight"][ids]
        places = weights["embeddings.position_embeddings.weight"][: len(ids)]
        types = weights["embeddings.token_type_embeddings.weight"][type_ids]
        hidden = self._norm("embeddings.LayerNorm", words + places + types)
        for number in range(_LAYERS):
            layer = f"encoder.layer.{number}"
            attended = self._dense(f"{layer}.attention.output.dense", self._attend(layer, hidden))
            hidden = self._norm(f"{layer}.attention.output.LayerNorm", hidden + attended)
            inner = gelu(self._dense(f"{layer}.intermediate.dense", hidden))
            outer = self._dense(f"{layer}.output.dense", inner)
            hidden = self._norm(f"{layer}.output.LayerNorm", hidden + outer)
        return hidden

    def _attend(self, layer: str, hidden: Floats) -> Floats:
        """Return the heads' attention over the hidden states (tokens, width), side by side."""
        parts = [self._dense(f"{layer}.attention.self.{name}", hidden) for name in _PROJECTIONS]
        query, key, value = (p.reshape(len(hidden), _HEADS, -1).transpose(1, 0, 2) for p in parts)
        scores = query @ key.transpose(0, 2, 1) / np.sqrt(np.float32(query.shape[-1]))
        shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
        shares /= shares.sum(axis=-1, keepdims=True)
        heads: Floats = shares @ value
        return heads.transpose(1, 0, 2).reshape(hidden.shape)

    def _dense(self, name: str, hidden: Floats) -> Floats:
        return np.asarray(
            hidden @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]
        )

    def _norm(self, name: str, hidden: Floats) -> Floats:
        centred = hidden - hidden.mean(axis=-1, keepdims=True)
        spread = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + _EPSILON)
        scaled = centred / spread * self._weights[f"{name}.weight"]
        return np.asarray(scaled + self._weights[f"{name}.bias"])


def _valid(text: str) -> str:
    """Return ``text`` with a mark in place of each half of a character, which no model reads."""
    return text.encode("utf-8", "replace").decode()


_PROJECTIONS = ("query", "key", "value")


def gelu(values: Floats) -> Floats:
    """Return the Gaussian error linear unit of ``values``, by the exact error function."""
    from scipy.special import erf

    return np.asarray(values * (1 + erf(values / np.sqrt(np.float32(2)))) / 2, dtype=np.float32)


@cache
def sentence_model() -> SentenceModel:
    """Return the model, read once; its files are fetched first where they are missing."""
    return SentenceModel.load(resolve_name(_ASSETS)("minilm"))


@cache
def adapted_model(checkpoint: Path) -> tuple[SentenceModel, Floats, Floats]:
    """Return the model with a checkpoint's adapter, and the weight and bias of its last layer."""
    arrays = {k: v.astype(np.float32) for k, v in load_checkpoint(checkpoint)[0].items()}
    return sentence_model().adapted(arrays), arrays["head/weight"], arrays["head/bias"]
