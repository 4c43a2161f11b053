"""The sentence model all-MiniLM-L6-v2 in numpy: a few texts are read before torch would be imported.

A forward pass of BERT (Devlin et al. 2019) with mean pooling. Its vectors equal those of
sentence-transformers to six digits; for many texts at once that library is faster. An adapter makes
another reader of it (``nodes.models.judge``).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from stategate.nodes.protocols import Vector
from stategate.stores.errors import require_extra

_TOKENS, _HEADS, _LAYERS = 256, 12, 6
_EPSILON = 1e-12


class SmallBert:
    """The model in ``folder`` (``tokenizer.json``, ``model.safetensors``)."""

    def __init__(self, folder: Path) -> None:
        with require_extra("local"):
            from safetensors.numpy import load_file
            from tokenizers import Tokenizer

        self._weights: dict[str, Vector] = load_file(folder / "model.safetensors")
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.enable_truncation(_TOKENS)
        self._tokenizer.no_padding()

    def encode(self, texts: Sequence[str]) -> Vector:
        """Return the unit vectors of ``texts`` (len(texts), 384)."""
        return np.stack([self._vector(self._tokenizer.encode(text).ids) for text in texts])

    def adapt(self, adapter: Mapping[str, Vector]) -> None:
        """Add a low-rank adapter to the layers' weights: ``LAYER/up`` @ ``LAYER/down``, for good."""
        layers = {name.removesuffix("/up") for name in adapter if name.endswith("/up")}
        for layer in layers:
            self._weights[f"{layer}.weight"] = (
                self._weights[f"{layer}.weight"] + adapter[f"{layer}/up"] @ adapter[f"{layer}/down"]
            )

    def pair(self, first: str, second: str) -> tuple[Vector, Vector]:
        """Return the mean states (384) of two texts that are read together, one after the other."""
        pieces = self._tokenizer.encode(first, second)
        hidden, is_second = self._hidden(pieces.ids, pieces.type_ids), np.asarray(pieces.type_ids)
        return hidden[is_second == 0].mean(axis=0), hidden[is_second == 1].mean(axis=0)

    def _vector(self, ids: Sequence[int]) -> Vector:
        mean = self._hidden(ids, [0] * len(ids)).mean(axis=0)
        return np.asarray(mean / max(float(np.linalg.norm(mean)), _EPSILON), dtype=np.float32)

    def _hidden(self, ids: Sequence[int], type_ids: Sequence[int]) -> Vector:
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

    def _attend(self, layer: str, hidden: Vector) -> Vector:
        """Return the heads' attention over the hidden states (tokens, width), side by side."""
        parts = [self._dense(f"{layer}.attention.self.{name}", hidden) for name in _PROJECTIONS]
        query, key, value = (p.reshape(len(hidden), _HEADS, -1).transpose(1, 0, 2) for p in parts)
        scores = query @ key.transpose(0, 2, 1) / np.sqrt(np.float32(query.shape[-1]))
        shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
        shares /= shares.sum(axis=-1, keepdims=True)
        heads: Vector = shares @ value
        return heads.transpose(1, 0, 2).reshape(hidden.shape)

    def _dense(self, name: str, hidden: Vector) -> Vector:
        return np.asarray(
            hidden @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]
        )

    def _norm(self, name: str, hidden: Vector) -> Vector:
        centred = hidden - hidden.mean(axis=-1, keepdims=True)
        spread = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + _EPSILON)
        scaled = centred / spread * self._weights[f"{name}.weight"]
        return np.asarray(scaled + self._weights[f"{name}.bias"])


_PROJECTIONS = ("query", "key", "value")


def gelu(values: Vector) -> Vector:
    """Return the Gaussian error linear unit of ``values``, by the exact error function."""
    from scipy.special import erf

    return np.asarray(values * (1 + erf(values / np.sqrt(np.float32(2)))) / 2, dtype=np.float32)
