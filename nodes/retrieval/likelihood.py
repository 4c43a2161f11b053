"""How likely a question is after a passage: a reranker that needs no training.

The query likelihood of Ponte and Croft (1998) with a small language model, as Sachan et al. (2022) do
with large ones: the passage that best predicts the question's words comes first. The model reads each
passage once, ever (its state is kept on disk: 23 KB a token, so some 7 MB for 300 tokens).
"""

from collections.abc import Sequence
from functools import lru_cache

from nodes.models.decoders.backend import Document
from nodes.models.decoders.loading import DocumentMemory, shared_backend
from stores.corpus.chunking import Passage

MODEL = "smollm2-135m"
#: The model's tokens that are read of a passage: a chunk of 256 and its title.
_TOKENS = 320


def log_likelihoods(question: str, passages: Sequence[Passage]) -> list[float]:
    """Return the mean log-likelihood (nats) of the question's tokens after each passage.

    Raises ``UserError`` where the model is not there and cannot be fetched.
    """
    if not passages:
        return []
    memory = _memory()
    states = memory.states([Document(passage.title, passage.text) for passage in passages])
    import torch

    with torch.no_grad():
        alone = torch.ones(1)
        return [-float(memory.backend.loss([state], alone, question)) for state in states]


@lru_cache(maxsize=1)
def _memory() -> DocumentMemory:
    return DocumentMemory(lambda: shared_backend(MODEL, "mean", _TOKENS))
