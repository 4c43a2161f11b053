"""The sentence model all-MiniLM-L6-v2 in numpy: what reads words in their context.

A forward pass of BERT (Devlin et al. 2019) with mean pooling. Its vectors equal those of
sentence-transformers to six digits, without loading torch. A low-rank adapter
makes another reader of it: of instructions (``language.instruction.tagger``), of utterances
(``language.utterance``), of pairs of texts (``language.pairs``).
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

_TOKENS, _WIDTH, _HEADS, _LAYERS = 256, 384, 12, 6
_AT_ONCE = 1024  # word pieces that are read together
_PAIRS = 8  # pairs of texts that are read together
_EPSILON = 1e-12
#: What finds the model's files, by name: assets are fetched and checked a floor above.
_ASSETS = "stategate.stores.assets.fetch:asset_path"


class SentenceModel:
    """The model with ``weights`` by name; texts are cut after 256 word pieces."""

    def __init__(
        self,
        weights: Mapping[str, Floats],
        tokenizer: "Tokenizer",
        adapter: Mapping[str, Floats] | None = None,
    ) -> None:
        self._weights, self._tokenizer = weights, tokenizer
        self._dense = _dense_layers(weights, adapter or {})

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
        return SentenceModel(self._weights, self._tokenizer, adapter)

    def encode(self, texts: Sequence[str]) -> Floats:
        """Return the unit vectors of ``texts`` (len(texts), 384), each read by itself."""
        return np.stack([self._vectors([self._ids(text)])[0] for text in texts])

    def encode_many(self, texts: Sequence[str]) -> Floats:
        """Return the unit vectors of ``texts``, read several at once: the last bits may differ."""
        texts_ids = [self._ids(text) for text in texts]
        vectors, start, pieces = [], 0, 0
        for end, ids in enumerate(texts_ids):
            if end > start and pieces + len(ids) > _AT_ONCE:
                vectors.append(self._vectors(texts_ids[start:end]))
                start, pieces = end, 0
            pieces += len(ids)
        return np.concatenate([*vectors, self._vectors(texts_ids[start:])])

    def states(self, text: str) -> tuple[Floats, list[tuple[int, int]]]:
        """Return the states (pieces, 384) of word pieces, and where each stands in ``text``."""
        pieces = self._tokenizer.encode(_valid(text))
        return self._hidden(pieces.ids, pieces.type_ids, [len(pieces.ids)]), pieces.offsets

    def pairs(self, texts: Sequence[tuple[str, str]]) -> tuple[Floats, Floats]:
        """Return the mean states (n, 384) of the first and second texts, each two read together."""
        states = []
        for start in range(0, len(texts), _PAIRS):
            own = [(_valid(one), _valid(other)) for one, other in texts[start : start + _PAIRS]]
            pieces = [self._tokenizer.encode(*pair) for pair in own]
            ids = [piece for one in pieces for piece in one.ids]
            types = [kind for one in pieces for kind in one.type_ids]
            hidden = self._hidden(ids, types, [len(p.ids) for p in pieces])
            # A text ends where the type of its pieces changes.
            starts = [0, *(np.flatnonzero(np.diff(types)) + 1)]
            counts = np.diff([*starts, len(ids)]).astype(np.float32)
            states.append(np.add.reduceat(hidden, starts) / counts[:, None])
        every: Floats = np.concatenate(states)
        return every[::2], every[1::2]

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(_valid(text)).ids
        return ids

    def _vectors(self, texts: Sequence[Sequence[int]]) -> Floats:
        """Return the mean states of texts of word pieces (len(texts), 384), scaled to length one."""
        lengths = [len(ids) for ids in texts]
        ids = [piece for text in texts for piece in text]
        hidden = self._hidden(ids, [0] * len(ids), lengths)
        sums = np.add.reduceat(hidden, np.cumsum([0, *lengths[:-1]]))
        means = sums / np.array(lengths, dtype=np.float32)[:, None]
        return np.asarray(means / np.maximum(np.linalg.norm(means, axis=1), _EPSILON)[:, None])

    def _hidden(
        self, ids: Sequence[int], type_ids: Sequence[int], lengths: Sequence[int]
    ) -> Floats:
        """Return the last layer's states (pieces, 384) of texts of ``lengths``, one after the other.

        Without padding: only the attention is a text's own.
        """
        weights, ends = self._weights, np.cumsum(lengths)
        texts = [slice(end - length, end) for end, length in zip(ends, lengths, strict=True)]
        words = weights["embeddings.word_embeddings.weight"][ids]
        positions = np.concatenate([np.arange(length) for length in lengths])
        places = weights["embeddings.position_embeddings.weight"][positions]
        types = weights["embeddings.token_type_embeddings.weight"][type_ids]
        hidden = self._norm("embeddings.LayerNorm", words + places + types)
        for number in range(_LAYERS):
            layer = f"encoder.layer.{number}"
            attended = self._attend(layer, hidden, texts)
            attended = self._through(f"{layer}.attention.output.dense", attended)
            hidden = self._norm(f"{layer}.attention.output.LayerNorm", hidden + attended)
            inner = gelu(self._through(f"{layer}.intermediate.dense", hidden))
            outer = self._through(f"{layer}.output.dense", inner)
            hidden = self._norm(f"{layer}.output.LayerNorm", hidden + outer)
        return hidden

    def _attend(self, layer: str, hidden: Floats, texts: Sequence[slice]) -> Floats:
        """Return the heads' attention within each text over the hidden states, side by side."""
        parts = np.split(self._through(f"{layer}.attention.self", hidden), 3, axis=1)
        attended = np.empty_like(hidden)
        for text in texts:
            own = (part[text].reshape(-1, _HEADS, _WIDTH // _HEADS) for part in parts)
            query, key, value = (part.transpose(1, 0, 2) for part in own)
            scores = query @ key.transpose(0, 2, 1) / np.sqrt(np.float32(query.shape[-1]))
            shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
            shares /= shares.sum(axis=-1, keepdims=True)
            attended[text] = (shares @ value).transpose(1, 0, 2).reshape(-1, _WIDTH)
        return attended

    def _through(self, name: str, hidden: Floats) -> Floats:
        weight, bias = self._dense[name]
        out: Floats = hidden @ weight
        out += bias
        return out

    def _norm(self, name: str, hidden: Floats) -> Floats:
        centred = hidden - hidden.mean(axis=-1, keepdims=True)
        spread = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + _EPSILON)
        scaled = centred / spread * self._weights[f"{name}.weight"]
        return np.asarray(scaled + self._weights[f"{name}.bias"])


def _dense_layers(
    weights: Mapping[str, Floats], adapter: Mapping[str, Floats]
) -> dict[str, tuple[Floats, Floats]]:
    """Return (inputs, outputs) and the bias of each dense layer; queries, keys and values are one.

    A matrix lies in memory as it is multiplied: twice as fast for a short text as its transpose.
    """
    dense = {}
    for number in range(_LAYERS):
        layer = f"encoder.layer.{number}"
        heads = [f"{layer}.attention.self.{name}" for name in ("query", "key", "value")]
        others = (f"{layer}.{n}.dense" for n in ("attention.output", "intermediate", "output"))
        for name, parts in {f"{layer}.attention.self": heads, **{o: [o] for o in others}}.items():
            matrices = []
            for part in parts:
                matrix = weights[f"{part}.weight"]
                if f"{part}/up" in adapter:
                    matrix = matrix + adapter[f"{part}/up"] @ adapter[f"{part}/down"]
                matrices.append(matrix.T)
            biases = [weights[f"{part}.bias"] for part in parts]
            dense[name] = np.ascontiguousarray(np.hstack(matrices)), np.concatenate(biases)
    return dense


def _valid(text: str) -> str:
    """Return ``text`` with a mark in place of each half of a character, which no model reads."""
    return text.encode("utf-8", "replace").decode()


#: Coefficients of the error function by Abramowitz and Stegun, 7.1.26: wrong by at most 1.5e-7.
_ERF = np.array([1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592], np.float32)


def gelu(values: Floats) -> Floats:
    """Return the Gaussian error linear unit of ``values`` to six digits."""
    size = np.abs(values)
    near = 1 / (1 + np.float32(0.3275911 / np.sqrt(2)) * size)
    tail = np.zeros_like(values)
    for coefficient in _ERF:
        tail += coefficient
        tail *= near
    tail *= np.exp(size * size * np.float32(-0.5)) / 2  # the share of a normal beyond ``size``
    return np.asarray(np.maximum(values, 0) - size * tail)


@cache
def sentence_model() -> SentenceModel:
    """Return the model, read once; its files are fetched first where they are missing."""
    return SentenceModel.load(resolve_name(_ASSETS)("minilm"))


@cache
def adapted_model(checkpoint: Path) -> tuple[SentenceModel, Floats, Floats]:
    """Return the model with a checkpoint's adapter, and the weight and bias of its last layer."""
    arrays = {k: v.astype(np.float32) for k, v in load_checkpoint(checkpoint)[0].items()}
    return sentence_model().adapted(arrays), arrays["head/weight"], arrays["head/bias"]
