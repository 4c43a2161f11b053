"""How likely a question is after a passage: a reranker that needs no training.

The query likelihood of Ponte and Croft (1998) with a small language model, as Sachan et al. (2022) do
with large ones: the passage that best predicts the question's words comes first. The model reads each
passage once, ever (its state is kept on disk: 23 KB a token, so some 7 MB for 300 tokens).
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from stores.corpus.chunking import Passage

if TYPE_CHECKING:
    from nodes.build_context.rico.weigh import Weigher

MODEL = "smollm2-135m"
#: The model's tokens that are read of a passage: a chunk of 256 and its title.
_TOKENS = 320


def log_likelihoods(question: str, passages: Sequence[Passage]) -> list[float]:
    """Return the mean log-likelihood (nats) of the question's tokens after each passage.

    Raises ``UserError`` where the model is not there and cannot be fetched.
    """
    from nodes.build_context.rico.backend import Document

    if not passages:
        return []
    documents = [Document(passage.title, passage.text) for passage in passages]
    return [float(score) for score in _weigher().weigh(question, documents).scores]


@lru_cache(maxsize=1)
def _weigher() -> "Weigher":
    from nodes.build_context.rico.weigh import Weigher, shared_backend

    def no_embedder() -> None:
        raise AssertionError("nothing is fused here")

    return Weigher(
        lambda: shared_backend(MODEL, "mean", _TOKENS),
        no_embedder,  # type: ignore[arg-type]
        ranker="loss",
        fuse_with=(),
    )
