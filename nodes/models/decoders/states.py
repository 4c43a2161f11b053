"""Documents' states through the index on disk: each document is read by the model once, ever."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from nodes.models.decoders.backend import Backend, Document, State
from stores.home import cache
from stores.states.documents import DocumentStates, Dtype, document_key

_BLOCK = 16  # documents in memory at a time, and lost by a kill
_SHOW_FROM = 8  # documents from which encoding takes over two seconds


class DocumentMemory:
    """One backend with its index of document states, both opened at the first use.

    ``dtype`` is how states are kept in ``folder``, by default a folder of this machine's for each
    backend and dtype. Safe for threads.
    """

    def __init__(
        self, backend: Callable[[], Backend], dtype: Dtype = "fp16", folder: Path | None = None
    ) -> None:
        self._backend = backend
        self._dtype: Dtype = dtype
        self._folder = folder
        self._index: DocumentStates | None = None
        self._lock = threading.RLock()

    @property
    def backend(self) -> Backend:
        """The language model."""
        return self._backend()

    @property
    def index(self) -> DocumentStates:
        """The states on disk. Raises ``UserError`` where the folder holds another model's."""
        with self._lock:
            if self._index is None:
                mark = self.backend.fingerprint
                name = f"{mark.replace('/', '-')}-{self._dtype}"
                folder = self._folder or cache() / "document_states" / name
                self._index = DocumentStates(folder, mark, self._dtype)
            return self._index

    def states(self, documents: Sequence[Document], quiet: bool = True) -> list[State]:
        """Return the documents' states, in order; a build that was killed goes on where it stopped."""
        import torch

        keys = [document_key(document.shown()) for document in documents]
        with self._lock:
            self._build(dict(zip(keys, documents, strict=True)), quiet)
            rows = [self.index.get(key) for key in keys]
        return [{name: torch.from_numpy(array) for name, array in row.items()} for row in rows]

    def _build(self, by_key: dict[str, Document], quiet: bool) -> None:
        from tqdm import tqdm

        todo = self.index.missing(list(by_key))
        hidden = True if quiet or len(todo) < _SHOW_FROM else None  # None: where nobody looks
        with tqdm(
            total=len(todo), desc="reading documents", unit="document", disable=hidden
        ) as bar:
            for start in range(0, len(todo), _BLOCK):
                part = todo[start : start + _BLOCK]
                states = self.backend.encode([by_key[key] for key in part])
                for key, state in zip(part, states, strict=True):
                    self.index.add(key, {name: tensor.numpy() for name, tensor in state.items()})
                bar.update(len(part))
