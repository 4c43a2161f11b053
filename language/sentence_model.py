"""The sentence model all-MiniLM-L6-v2 in ONNX Runtime: what reads words in their context.

A forward pass of BERT (Devlin et al. 2019) with mean pooling, without loading torch. Its vectors have
a cosine of .998 to those of sentence-transformers, in a quarter to two thirds of the time. An adapter
makes another reader of it: of instructions (``language.instruction.tagger``), of utterances
(``language.utterance``), of pairs of texts (``language.pairs``).
"""

import os
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from itertools import groupby
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING

import numpy as np

from stategate.language.instruction.weights import Floats, load_checkpoint

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Encoding, Tokenizer

_TOKENS, _WIDTH, _HEADS, _LAYERS = 256, 384, 12, 6
_AT_ONCE = 512  # word pieces that are read together
_EMBEDDINGS = ("word", "position", "token_type")
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
        self._weights, self._tokenizer, self._adapter = weights, tokenizer, adapter

    @cached_property
    def _session(self) -> "InferenceSession":
        """The session of the model with its adapter."""
        from onnxruntime import InferenceSession, SessionOptions

        from stategate.language.encoder_graph import encoder_graph

        weights, adapter = dict(self._weights), self._adapter or {}
        for layer in (name.removesuffix("/up") for name in adapter if name.endswith("/up")):
            added = adapter[f"{layer}/up"] @ adapter[f"{layer}/down"]
            weights[f"{layer}.weight"] = weights[f"{layer}.weight"] + added
        file = encoder_graph(weights, layers=_LAYERS, heads=_HEADS)
        options = SessionOptions()
        options.intra_op_num_threads = _threads()
        # Threads that wait for work by spinning take it from other processes.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        return InferenceSession(file, options, providers=["CPUExecutionProvider"])

    def adapted(self, adapter: Mapping[str, Floats]) -> "SentenceModel":
        """Return the model with a low-rank adapter added: ``LAYER/up`` @ ``LAYER/down`` to a layer."""
        return SentenceModel(self._weights, self._tokenizer, adapter)

    def encode(self, texts: Sequence[str]) -> Floats:
        """Return the unit vectors of ``texts`` (len(texts), 384)."""
        states = self._states([self._tokenizer.encode(_valid(text)) for text in texts])
        means = np.stack([own.mean(axis=0) for own in states])
        return np.asarray(means / np.maximum(np.linalg.norm(means, axis=1), _EPSILON)[:, None])

    def states(self, text: str) -> tuple[Floats, list[tuple[int, int]]]:
        """Return the states (pieces, 384) of word pieces, and where each stands in ``text``."""
        pieces = self._tokenizer.encode(_valid(text))
        return self._states([pieces])[0], pieces.offsets

    def pairs(self, texts: Sequence[tuple[str, str]]) -> tuple[Floats, Floats]:
        """Return the mean states (n, 384) of the first and second texts, each two read together."""
        pieces = [self._tokenizer.encode(_valid(one), _valid(other)) for one, other in texts]
        firsts = [one.type_ids.index(1) for one in pieces]
        parts = list(zip(self._states(pieces), firsts, strict=True))
        first = np.stack([states[:end].mean(axis=0) for states, end in parts])
        return first, np.stack([states[end:].mean(axis=0) for states, end in parts])

    def _states(self, texts: Sequence["Encoding"]) -> list[Floats]:
        """Return the last layer's states (pieces, 384) of each text; those of a length go together."""
        weights, states = self._weights, dict[int, Floats]()
        words, places, types = (weights[f"embeddings.{n}_embeddings.weight"] for n in _EMBEDDINGS)
        in_order = sorted(range(len(texts)), key=lambda i: len(texts[i].ids))
        for length, group in groupby(in_order, key=lambda i: len(texts[i].ids)):
            own, step = list(group), max(1, _AT_ONCE // length)
            for part in (own[start : start + step] for start in range(0, len(own), step)):
                ids, kinds = [texts[i].ids for i in part], [texts[i].type_ids for i in part]
                embedded = (words[ids] + places[:length] + types[kinds]).reshape(-1, _WIDTH)
                shape = np.array([len(part), length, -1])
                hidden = self._session.run(None, {"embedded": embedded, "shape": shape})[0]
                states |= zip(part, hidden.reshape(len(part), length, _WIDTH), strict=True)
        return [states[i] for i in range(len(texts))]


def _threads() -> int:
    """Return the threads that ``OMP_NUM_THREADS`` allows, as for numpy; 0 for one a core."""
    allowed = os.environ.get("OMP_NUM_THREADS", "")
    return min(int(allowed), os.cpu_count() or 1) if allowed.isdecimal() else 0


def _valid(text: str) -> str:
    """Return ``text`` with a mark in place of each half of a character, which no model reads."""
    return text.encode("utf-8", "replace").decode()


@cache
def sentence_model() -> SentenceModel:
    """Return the model, read once; its files are fetched first where they are missing."""
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    folder: Path = resolve_name(_ASSETS)("minilm")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(_TOKENS)
    tokenizer.no_padding()
    return SentenceModel(load_file(folder / "model.safetensors"), tokenizer)


@cache
def adapted_model(checkpoint: str | Path) -> tuple[SentenceModel, Floats, Floats]:
    """Return the model with a checkpoint's adapter, and the weight and bias of its last layer."""
    arrays = {k: v.astype(np.float32) for k, v in load_checkpoint(checkpoint)[0].items()}
    return sentence_model().adapted(arrays), arrays["head/weight"], arrays["head/bias"]
