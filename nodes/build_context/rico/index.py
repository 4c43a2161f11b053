"""Documents' states through the index on disk: each document is read by the model once."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nodes.build_context.rico.backend import Backend, Document, State
from stores.home import cache
from stores.states.documents import DocumentStates, Dtype, document_key

if TYPE_CHECKING:
    from pathlib import Path

_BLOCK = 16  # documents in memory at a time, and lost by a kill
_SHOW_FROM = 8  # documents from which encoding takes over two seconds


def default_folder(backend: Backend, dtype: str) -> "Path":
    """Return where the states of ``backend`` are kept on this machine."""
    name = backend.fingerprint.replace("/", "-")
    return cache() / "document_states" / f"{name}-{dtype}"


def open_states(
    backend: Backend, dtype: Dtype = "fp16", folder: "str | Path | None" = None
) -> DocumentStates:
    """Return the index of ``backend``'s states in ``folder``, or where this machine keeps them."""
    return DocumentStates(folder or default_folder(backend, dtype), backend.fingerprint, dtype)


def build_states(
    backend: Backend, store: DocumentStates, documents: Sequence[Document], quiet: bool = False
) -> None:
    """Encode the documents whose states are not kept yet; a build that is killed goes on here."""
    from tqdm import tqdm

    by_key = {document_key(document.shown()): document for document in documents}
    todo = store.missing(list(by_key))
    hidden = True if quiet or len(todo) < _SHOW_FROM else None  # None: where nobody looks
    with tqdm(total=len(todo), desc="reading documents", unit="document", disable=hidden) as bar:
        for start in range(0, len(todo), _BLOCK):
            part = todo[start : start + _BLOCK]
            for key, state in zip(part, backend.encode([by_key[k] for k in part]), strict=True):
                store.add(key, {name: tensor.numpy() for name, tensor in state.items()})
            bar.update(len(part))


def read_states(store: DocumentStates, documents: Sequence[Document]) -> list[State]:
    """Return the kept states of ``documents``, in order. Raises ``KeyError`` if one is missing."""
    import torch

    return [
        {
            name: torch.from_numpy(array)
            for name, array in store.get(document_key(document.shown())).items()
        }
        for document in documents
    ]
