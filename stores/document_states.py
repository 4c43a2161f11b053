"""The index of a model's document states, kept as fp16: one safetensors file a document.

A document's key is the SHA-256 of its text. A file is written whole or not at all, so a build that was
killed goes on where it stopped, and several processes may write at once.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from stategate.stores.errors import user_error_context
from stategate.stores.files import write_bytes

_FP16 = 65504  # the largest number of that type


def document_key(text: str) -> str:
    """Return the key of a document: the SHA-256 of what the model reads, 64 hexadecimal digits."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class DocumentStates:
    """An index of document states. Safe for threads and processes."""

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)

    def add(self, key: str, state: NDArray[np.float32]) -> None:
        """Keep a document's state, quantised; a key that is here already is left alone."""
        if self.missing([key]):
            half = np.ascontiguousarray(np.clip(state, -_FP16, _FP16), np.float16)
            write_bytes(self._path(key), save({"kv": half}))

    def get(self, key: str) -> NDArray[np.float32]:
        """Return a document's state as float32. Raises ``UserError`` where it is damaged."""
        path = self._path(key)
        with user_error_context(
            f"cannot read '{path}'", "delete it", (OSError, KeyError, ValueError, SafetensorError)
        ):
            state: NDArray[np.float32] = load(path.read_bytes())["kv"].astype(np.float32)
            return state

    def missing(self, keys: Sequence[str]) -> list[str]:
        """Return the keys that are not here, in order, once each."""
        return [key for key in dict.fromkeys(keys) if not self._path(key).is_file()]

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}.safetensors"
