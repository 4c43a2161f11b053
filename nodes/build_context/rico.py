"""``rico``: documents weighted by the model's own gradient, the most relevant one last.

RICO (Becker et al., 2025) weighs documents by the gradient of a language model's own loss: with ``w``
the weights of a mixture of ``N`` documents' states and ``L`` the question's loss, the score of document
i is -∂L/∂w_i at w = 1/N. It takes one forward and one backward pass.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import Field

from stategate.envs.protocols import Chunk
from stategate.nodes.build_context.recall import ConversationContext
from stategate.nodes.models.documents import Document, document_states, shared_backend
from stategate.nodes.observe.qa import QaEnv
from stategate.nodes.protocols import ContextBuilder, ContextRequest, Embedder
from stategate.nodes.resources import Resources
from stategate.nodes.retrieval.page import describe
from stategate.nodes.retrieval.ranking import Scores, bm25, cosine, fuse
from stategate.stores.corpus.chunking import Chunking
from stategate.stores.text import one_line

if TYPE_CHECKING:
    from torch import Tensor

    from stategate.nodes.models.decoder import Backend

GRADIENT = "single_gradient"
Partner = Literal["bm25", "bm25_stem", "embedder"]


@dataclass(frozen=True)
class Ranking:
    """A ranking of documents. ``weights`` sum to one and are for display; ``scores`` decide.

    ``parts`` are each ranker's own scores.
    """

    scores: Scores
    weights: Scores
    parts: Mapping[str, Scores]

    def order(self) -> list[int]:
        """Return the documents' indices, most relevant first; ties keep their order."""
        return [int(i) for i in np.argsort(-self.scores, kind="stable")]


def gradient(backend: "Backend", states: "Sequence[Tensor]", question: str) -> Scores:
    """Score ``states`` by the gradient of the question's loss at uniform weights."""
    import torch

    weights = torch.full((len(states),), 1 / len(states))
    return np.asarray(-backend.slope(states, weights, question).double().numpy())


def weigh(
    question: str,
    documents: Sequence[Document],
    backend: Callable[[], "Backend"],
    embedder: Callable[[], Embedder],
    partners: Sequence[Partner],
) -> Ranking:
    """Rank ``documents`` by the gradient; scores of ``partners`` are added to it, as z-scores."""
    if not documents:  # then no model need be loaded
        return Ranking(np.zeros(0), np.zeros(0), {})
    from scipy.special import softmax

    texts = [document.as_text() for document in documents]
    parts = {GRADIENT: gradient(backend(), document_states(backend(), documents), question)}
    for partner in partners:
        if partner == "embedder":
            parts[partner] = cosine(embedder(), question, texts)
        else:
            parts[partner] = bm25(question, texts, stemmed=partner == "bm25_stem")
    fused = fuse(list(parts.values())) / len(parts)
    return Ranking(fused if partners else parts[GRADIENT], softmax(fused), parts)


def documents_of(corpus: str) -> list[Document]:
    """Return the passages of a corpus: ``sample``, an ingested name, or a folder or file of documents.

    They are cut and written as the ``rico`` context reads them, so that their states are used again.
    Raises ``UserError`` where there is none of that name, or nothing in it can be read.
    """
    world = QaEnv(corpus=corpus)
    passages = world.open().passages(Chunking.parse(world.chunking))
    return [Document(one_line(passage.title), one_line(passage.text)) for passage in passages]


class Rico(ConversationContext):
    """The parts that would help a small language model most, best last.

    Passages are weighed by the gradient of the question's loss; the ``top_k`` best are shown.
    Models read the end of a long context best (the paper's section 4). ``fuse_with`` adds the z-scores
    of BM25 and of the embedder, which was better than each alone. ``retrieval`` chooses which
    ``candidates`` are weighed. Each passage is read by the small model once, ever; its state is kept on
    disk. Every weighed passage's score is its weight.
    """

    kind: Literal["rico"] = "rico"
    candidates: int = Field(default=20, ge=1, description="how many passages to weigh at most")
    model: str = Field(
        default="smollm2-135m", description="asset, folder, .gguf file or hub name of the weigher"
    )
    fuse_with: tuple[Partner, ...] = Field(
        default=("bm25_stem", "embedder"), description="rankers whose scores are added"
    )
    max_tokens: int = Field(default=300, ge=8, description="the model's tokens a passage may have")

    def build(self, resources: Resources) -> ContextBuilder:
        """Return the builder; the model is loaded when there is first something to weigh."""
        backend = partial(shared_backend, self.model, self.max_tokens)

        def find(request: ContextRequest, query: str) -> list[tuple[Chunk, float]]:
            passages = self.candidates_for(request, query, self.candidates, resources)
            chunks = [chunk for chunk, _ in passages if chunk.text.strip()]
            titles = [one_line(str(chunk.data.get("title") or "")) for chunk in chunks]
            texts = [one_line(describe(chunk)) for chunk in chunks]
            documents = [Document(*pair) for pair in zip(titles, texts, strict=True)]
            question = one_line(query) or "What is this about?"
            weighed = weigh(
                question, documents, backend, lambda: resources.embedder, self.fuse_with
            )
            return [(chunks[i], float(weighed.weights[i])) for i in weighed.order()]

        return self.conversation(resources, find, best_last=True)
