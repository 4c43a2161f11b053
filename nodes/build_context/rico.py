"""``rico``: the documents that the model's own gradient asks for, the most relevant one last.

RICO (Becker et al., 2025) weighs documents by the gradient of a language model's own loss. Rankers go
from a backend's loss to one score a document (higher is more relevant).

``w`` are the weights of the mixture, ``N`` the number of documents, ``L`` the question's loss.

| name | score of document i | model calls |
|---|---|---|
| multistep | w_i after a few AdamW steps on L(w) from w = 1/N | 2 a step |
| single_gradient | -∂L/∂w_i at w = 1/N | 2 |
| zero_state | -∂L/∂w_i at w = 0 | 2 |
| leave_one_out | L(w without i) - L(w) at w = 1/N | N + 1 |
| loss | -L(e_i): each document alone, the slow reference | N |
| naive | inner product of the document's and the question's own state | 1 |

For a convex L two of these are bounded by the gradient (the paper's proposition 3.1, in the form
that the tests check): with g = ∂L/∂w, removing document i costs at least -w_i g_i, and putting all
weight on it costs at least g_i - Σ_j w_j g_j.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from stategate.envs.protocols import Chunk
from stategate.nodes.build_context.assemble import FramedContext, assemble, built
from stategate.nodes.build_context.recall import ConversationContext, WordSource
from stategate.nodes.models.decoders.backend import Backend, Document, State
from stategate.nodes.models.decoders.loading import DocumentMemory, shared_backend
from stategate.nodes.observe.qa import QaEnv
from stategate.nodes.protocols import BuiltContext, ContextBuilder, ContextRequest, Embedder
from stategate.nodes.resources import Resources
from stategate.nodes.retrieval.page import describe
from stategate.nodes.retrieval.ranking import Scores, bm25, cosine, fuse, softmax, z_scores
from stategate.stores.corpus.chunking import Chunking
from stategate.stores.errors import UserError
from stategate.stores.text import one_line

#: The weight that stands for none where only the logarithm of a weight is known to the model.
_NEAR_ZERO = 1e-4


@dataclass(frozen=True)
class Settings:
    """AdamW's, for the ranker that takes steps (multistep)."""

    steps: int = 5
    learning_rate: float = 0.1


@dataclass(frozen=True)
class Ranking:
    """What a ranker says. ``weights`` sum to one and are for showing; ``scores`` decide.

    ``losses`` is the loss at every step (one entry where there is one), ``calls`` counts forward
    and backward passes over the question, ``parts`` are each ranker's own scores where some are fused.
    """

    scores: Scores
    weights: Scores
    losses: tuple[float, ...] = ()
    calls: int = 0
    seconds: float = 0.0
    parts: Mapping[str, Scores] = field(default_factory=dict)

    def order(self) -> list[int]:
        """Return the documents' indices, most relevant first; ties keep their order."""
        return [int(i) for i in np.argsort(-self.scores, kind="stable")]


@dataclass(frozen=True)
class _Case:
    """One question, the states of its candidates, and how to rank them."""

    backend: Backend
    states: Sequence[State]
    question: str
    settings: Settings

    @property
    def uniform(self) -> Scores:
        return np.full(len(self.states), 1 / len(self.states))

    def losses(self, mixtures: Sequence[tuple[Sequence[State], Sequence[float]]]) -> list[float]:
        """Return the loss after each mixture: states and their weights."""
        import torch

        with torch.no_grad():
            return [
                float(self.backend.loss(states, torch.tensor(list(weights)), self.question))
                for states, weights in mixtures
            ]

    def slope(self, at: float) -> Ranking:
        """Score by minus the slope of the loss where every weight is ``at``."""
        import torch

        weights = torch.full((len(self.states),), at)
        gradient = self.backend.gradient(self.states, weights, self.question)
        scores = -gradient.slope.double().numpy()
        return Ranking(scores, softmax(z_scores(scores)), (gradient.loss,), 2)

    def optimised(self) -> Ranking:
        """Score by the weights after a few steps of AdamW on the loss, from uniform ones."""
        import torch

        is_log = self.backend.parameterisation == "log"
        start = np.log(self.uniform) if is_log else self.uniform
        theta = torch.tensor(start, dtype=torch.float32)
        theta.requires_grad_()
        rate = self.settings.learning_rate
        optimiser = torch.optim.AdamW([theta], lr=rate, weight_decay=0.0)
        losses: list[float] = []
        for _ in range(max(self.settings.steps, 1)):
            optimiser.zero_grad()
            with torch.enable_grad():
                # Weights of a state space model add states up; they may leave [0, 1], as in the paper.
                weights = theta.exp() if is_log else theta
                loss = self.backend.loss(self.states, weights, self.question)
                loss.backward()  # type: ignore[no-untyped-call]
            losses.append(float(loss.detach()))
            optimiser.step()
        scores = theta.detach().double().numpy()
        weights_shown = softmax(scores if is_log else z_scores(scores))
        return Ranking(scores, weights_shown, tuple(losses), 2 * len(losses))


def rank(
    name: str,
    backend: Backend,
    states: Sequence[State],
    question: str,
    settings: Settings | None = None,
) -> Ranking:
    """Rank ``states`` with the ranker called ``name``; no documents give empty scores.

    Raises ``UserError`` for an unknown name.
    """
    if name not in RANKERS:
        raise UserError(f"unknown ranker '{name}': known are {', '.join(RANKERS)}")
    if not states:
        return Ranking(np.zeros(0), np.zeros(0))
    started = time.perf_counter()
    ranking = RANKERS[name](_Case(backend, states, question, settings or Settings()))
    return replace(ranking, seconds=time.perf_counter() - started)


def _leave_one_out(case: _Case) -> Ranking:
    mixtures = [case.uniform]
    for left_out in range(len(case.states)):
        weights = case.uniform
        weights[left_out] = 0
        mixtures.append(weights)
    losses = case.losses([(case.states, weights.tolist()) for weights in mixtures])
    scores = np.asarray(losses[1:]) - losses[0]
    return Ranking(scores, softmax(z_scores(scores)), tuple(losses), len(losses))


def _loss(case: _Case) -> Ranking:
    losses = case.losses([([state], [1.0]) for state in case.states])
    scores = -np.asarray(losses)
    return Ranking(scores, softmax(scores), tuple(losses), len(losses))


def _naive(case: _Case) -> Ranking:
    """Score by the cosine of the document's state and that of the question read as a document."""
    (own,) = case.backend.encode([Document("", case.question)])
    asked = case.backend.summary(own)
    length = float(asked.norm()) or 1.0
    scores = np.zeros(len(case.states))
    for i, state in enumerate(case.states):
        summary = case.backend.summary(state)
        scores[i] = float(summary @ asked) / (length * (float(summary.norm()) or 1.0))
    return Ranking(scores, softmax(z_scores(scores)), (), 1)


RANKERS: dict[str, Callable[[_Case], Ranking]] = {
    "single_gradient": lambda case: case.slope(1 / len(case.states)),
    "multistep": _Case.optimised,
    # Exact for states that add up; on attention small weights stand for none.
    "zero_state": lambda case: case.slope(
        0.0 if case.backend.parameterisation == "linear" else _NEAR_ZERO
    ),
    "leave_one_out": _leave_one_out,
    "loss": _loss,
    "naive": _naive,
}


Partner = Literal["bm25", "bm25_stem", "embedder"]


@dataclass(frozen=True)
class Weigher:
    """A ranker over ``memory``, and ``partners`` whose scores are added to its own, as z-scores."""

    memory: DocumentMemory
    embedder: Callable[[], Embedder]
    ranker: str = "single_gradient"
    partners: Sequence[Partner] = ("bm25_stem", "embedder")

    def weigh(self, question: str, documents: Sequence[Document], quiet: bool = True) -> Ranking:
        """Score ``documents`` for ``question``. Raises ``UserError`` for an empty question."""
        if not question.strip():
            raise UserError("the question is empty: ask something")
        if not documents:
            return Ranking(np.zeros(0), np.zeros(0))
        texts = [document.shown() for document in documents]
        states = self.memory.states(documents, quiet)
        ranking = rank(self.ranker, self.memory.backend, states, question)
        parts = {self.ranker: ranking.scores}
        for partner in self.partners:
            if partner == "embedder":
                parts[partner] = cosine(self.embedder(), question, texts)
            else:
                parts[partner] = bm25(question, texts, stemmed=partner == "bm25_stem")
        if not self.partners:
            return replace(ranking, parts=parts)
        fused = fuse(list(parts.values())) / len(parts)
        return replace(ranking, scores=fused, weights=softmax(fused), parts=parts)


def documents_of(corpus: str) -> list[Document]:
    """Return the passages of a corpus: ``sample``, an ingested name, or a folder or file of documents.

    They are cut and written as the ``rico`` context reads them, so that their states are used again.
    Raises ``UserError`` where there is none of that name, or nothing in it can be read.
    """
    world = QaEnv(corpus=corpus)
    passages = world.open().passages(Chunking.parse(world.chunking))
    return [Document(one_line(passage.title), one_line(passage.text)) for passage in passages]


#: Chunks that carry what the agent can do, or that the frame shows: never weighed, never dropped
#: while the budget lasts.
_FRAME = ("frame", "commands", "choice", "pinned")


class Rico(FramedContext, ConversationContext):
    """Weigh chunks by the gradient of the instruction's loss, and keep the ``top_k`` best.

    ``fuse_with`` adds the z-scores of BM25 and of the embedder, which was better than each alone.
    On a page, beyond ``candidates`` chunks the embedder chooses which are weighed; in a corpus,
    ``retrieval`` does (two stages), and the prompt is that of ``recall``. Each chunk is read by the
    small model once, ever; its state is kept on disk. Every weighed chunk's score is its weight.
    """

    hint: ClassVar[str] = "the parts that would help a small language model most, best last"
    kind: Literal["rico"] = "rico"
    top_k: int = Field(default=5, ge=1, description="how many chunks to keep besides buttons")
    candidates: int = Field(default=20, ge=1, description="how many chunks to weigh at most")
    model: str = Field(
        default="smollm2-135m", description="asset, folder, .gguf file or hub name of the weigher"
    )
    fuse_with: tuple[Partner, ...] = Field(
        default=("bm25_stem", "embedder"), description="rankers whose scores are added"
    )
    max_tokens: int = Field(default=300, ge=8, description="the model's tokens a chunk may have")

    def assets(self) -> tuple[str, ...]:
        """Name the weigher, where it is an asset."""
        return (self.model,)

    def build(self, resources: Resources) -> ContextBuilder:
        """Return the builder; the model is loaded when there is first something to weigh."""
        memory = DocumentMemory(lambda: shared_backend(self.model, max_tokens=self.max_tokens))
        weigher = Weigher(memory, lambda: resources.embedder, partners=self.fuse_with)

        def find(request: ContextRequest, query: str) -> tuple[list[tuple[Chunk, float]], int]:
            near = self.candidates_for(request, query, self.candidates, resources)
            chunks = [chunk for chunk, _ in near if chunk.text.strip()]
            titles = [one_line(str(chunk.data.get("title") or "")) for chunk in chunks]
            texts = [one_line(describe(request.view, chunk)) for chunk in chunks]
            documents = [Document(*shown) for shown in zip(titles, texts, strict=True)]
            weighed = weigher.weigh(_asked(query), documents, quiet=False)
            return [(chunks[i], float(weighed.weights[i])) for i in weighed.order()], self.top_k

        answer = self.conversation(resources, find, best_last=True)

        def build_context(request: ContextRequest) -> BuiltContext:
            if isinstance(request.source, WordSource):
                return answer(request)
            frame, candidates = self._candidates(request, resources)
            documents = [Document("", describe(request.view, chunk)) for chunk in candidates]
            weighed = weigher.weigh(_asked(request.instruction), documents)
            best = [candidates[i] for i in weighed.order()]
            weights = {c.id: float(w) for c, w in zip(candidates, weighed.weights, strict=True)}
            return self._best_last(request, frame, best, weights)

        return build_context

    def _candidates(
        self, request: ContextRequest, resources: Resources
    ) -> tuple[list[Chunk], list[Chunk]]:
        """Split the source into what is shown anyway and the chunks to weigh."""
        chunks = list(request.source.all())
        frame = [c for c in chunks if c.role in _FRAME or not describe(request.view, c)]
        framed = {c.id for c in frame}
        weighed = [c for c in chunks if c.id not in framed]
        if len(weighed) > self.candidates:
            vector = resources.embedder.embed([request.instruction])[0]
            near = request.source.search(vector, self.candidates + len(frame))
            weighed = [c for c, _ in near if c.id not in framed][: self.candidates]
        return frame, weighed

    def _best_last(
        self,
        request: ContextRequest,
        frame: Sequence[Chunk],
        best: Sequence[Chunk],
        weights: Mapping[str, float],
    ) -> BuiltContext:
        """Give room to ``frame``, then to chunks by relevance; write the most relevant chunk last.

        Models read the end of a long context best (the paper's section 4), and what follows the last
        document is only what the frame adds: choices and actions so far.
        """
        weighed = {chunk.id for chunk in best}
        rest = [c for c in request.source.all() if c.id not in weighed and c not in frame]
        page = [*frame, *best, *rest]
        context = assemble(request, [*frame, *best[: self.top_k]], weights, self.history, page=page)
        middle = [piece for piece in context.pieces if piece.id in weighed]
        if not middle:
            return context
        first = context.pieces.index(middle[0])
        before = [piece for piece in context.pieces[:first] if piece.id not in weighed]
        after = [piece for piece in context.pieces[first:] if piece.id not in weighed]
        return built((*before, *reversed(middle), *after), context.over_budget)


def _asked(question: str) -> str:
    """Return the question in one line; an empty one asks for nothing in particular."""
    return one_line(question) or "What is this about?"
