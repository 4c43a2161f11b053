"""Who ranks a conversation's turns: plain baselines, each one line of config, and our memory.

    --agents bm25,minilm,hybrid,memory
    --agent raw=kind=bm25,stem=false,speaker=false

``bm25`` is Lucene's BM25 with k1 1.5 and b 0.75 over lower-cased words of two letters or more, Porter
stems without English stop words (``stem=true``, the default) or words as they are. A turn is read as
"speaker: text [picture's caption]"; each part can be switched off. ``minilm`` is the cosine of
all-MiniLM-L6-v2; ``hybrid`` the corpora's own fusion of both with the nearest sentence. With
``unit=session`` whole sessions are ranked (MiniLM reads the first 256 word pieces of one).
"""

import tempfile
import weakref
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from stategate.evals.memory.published import Conversation, Question, Session, Utterance
from stategate.nodes.models.embedders import HashingEmbedder, MiniLM
from stategate.nodes.protocols import Embedder
from stategate.nodes.resources import Resources
from stategate.nodes.retrieval.corpus import Retrieval, TextIndex
from stategate.nodes.retrieval.ranking import bm25_over, cosine
from stategate.nodes.retrieval.remember import Memory
from stategate.stores.errors import UserError, user_error_context
from stategate.stores.memory.recall import DEFAULT, Limits

_DEPTH = 50
#: A question's ranking: turns (None where sessions are ranked), sessions, and the best score.
Ranking = Callable[[Question], tuple[list[str] | None, list[str], float | None]]


class Ranker(BaseModel):
    """One agent of the table."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    kind: Literal["bm25", "minilm", "hybrid", "parent", "memory"]
    unit: Literal["turn", "session"] = "turn"
    stem: bool = True
    speaker: bool = True
    caption: bool = True
    #: English stop words left out; not given: where words are stemmed.
    stop: bool | None = None
    k1: float = Field(default=1.5, gt=0)
    b: float = Field(default=0.75, ge=0, le=1)
    embedder: Literal["minilm", "hashing"] = "minilm"
    #: ``memory`` only: another setting of the search, as ``weights=dense:1/words:1``.
    weights: str = ""

    @classmethod
    def parse(cls, text: str) -> "Ranker":
        """Read ``name=kind=bm25,stem=false``. Raises ``UserError`` naming what is wrong."""
        name, _, rest = text.partition("=")
        with user_error_context("write an agent as name=kind=bm25,stem=false"):
            values: dict[str, Any] = dict(part.split("=", 1) for part in rest.split(",") if part)
            return cls(name=name.strip(), **values)

    def over(self, conversation: Conversation) -> Ranking:
        """Return the ranking of this conversation's turns or sessions."""
        if self.kind == "memory":
            return remembered(conversation, embedder_named(self.embedder), self.weights)
        if self.unit == "session":
            return self._of_sessions(conversation)
        return self._of_turns(conversation)

    def _of_turns(self, conversation: Conversation) -> Ranking:
        owner = {t.id: s.id for s in conversation.sessions for t in s.turns}
        ids = list(owner)
        texts = [self._text(turn) for s in conversation.sessions for turn in s.turns]
        score = self._scorer(texts)

        def ranking(question: Question) -> tuple[list[str], list[str], float | None]:
            scores = score(question.text)
            best = [ids[i] for i in np.argsort(-scores, kind="stable")[:_DEPTH]]
            every = np.argsort(-scores, kind="stable")
            sessions = list(dict.fromkeys(owner[ids[i]] for i in every))
            return best, sessions, float(scores.max()) if len(scores) else None

        return ranking

    def _of_sessions(self, conversation: Conversation) -> Ranking:
        texts = ["\n".join(map(self._text, s.turns)) for s in conversation.sessions]
        score = self._scorer(texts)

        def ranking(question: Question) -> tuple[None, list[str], float | None]:
            scores = score(question.text)
            order = np.argsort(-scores, kind="stable")
            best = float(scores.max()) if len(scores) else None
            return None, [conversation.sessions[i].id for i in order], best

        return ranking

    def _scorer(self, texts: Sequence[str]) -> Callable[[str], Any]:
        if self.kind == "bm25":
            return bm25_over(
                texts, stemmed=self.stem, stopped=self.stop, k1=self.k1, b=self.b
            ).scores
        embedder = embedder_named(self.embedder)
        if self.kind == "minilm":
            return lambda question: cosine(embedder, question, texts)
        index = TextIndex(texts, embedder)
        how: Retrieval = "hybrid" if self.kind == "hybrid" else "parent"

        def scores(question: str) -> Any:
            found = index.find(question, len(texts), how)
            row = np.full(len(texts), -1e9)
            for place, score in found:
                row[place] = score
            return row

        return scores

    def _text(self, turn: Utterance) -> str:
        return spoken(turn, self.speaker, self.caption)


def spoken(turn: Utterance, speaker: bool = True, caption: bool = True) -> str:
    """Return a turn as rankers read it."""
    head = f"{turn.speaker}: " if speaker else ""
    tail = f" [{turn.caption}]" if caption and turn.caption else ""
    return f"{head}{turn.text}{tail}"


def line_of(turn: Utterance, session: Session) -> str:
    """Return a turn as a prompt shows it, with its day: what the token budget counts."""
    from datetime import UTC, datetime

    day = "" if session.at is None else f"{datetime.fromtimestamp(session.at, UTC):%Y-%m-%d} "
    return f"{day}{' '.join(spoken(turn).split())}"


#: The agents of the table by name.
PRESETS = {
    agent.name: agent
    for agent in (
        Ranker(name="bm25", kind="bm25"),
        Ranker(name="bm25_unstemmed", kind="bm25", stem=False),
        Ranker(name="bm25_sessions", kind="bm25", unit="session"),
        Ranker(name="minilm", kind="minilm"),
        Ranker(name="minilm_sessions", kind="minilm", unit="session"),
        Ranker(name="hybrid", kind="hybrid"),
        Ranker(name="parent", kind="parent"),
        Ranker(name="memory", kind="memory"),
    )
}


def ranker_named(name: str) -> Ranker:
    """Return a preset. Raises ``UserError`` listing them."""
    if name not in PRESETS:
        raise UserError(f"no ranker '{name}': one of {', '.join(PRESETS)}, or --agent NAME=kind=…")
    return PRESETS[name]


@lru_cache(maxsize=2)
def embedder_named(name: str) -> Embedder:
    """Return the embedder, once in a process."""
    return HashingEmbedder() if name == "hashing" else Resources(None, MiniLM()).embedder


def remembered(conversation: Conversation, embedder: Embedder, weights: str = "") -> Ranking:
    """Return the ranking of a memory that holds the conversation, each turn written at its own time.

    What counts are the turns that the provenance of the recalled facts names, in the facts' order.
    """
    folder = tempfile.TemporaryDirectory(prefix="stategate-memory-", ignore_cleanup_errors=True)
    memory = Memory(
        str(Path(folder.name) / "memory.sqlite"), embedder=embedder, user=conversation.id
    )
    memory.remember_all(
        [
            {
                "text": f"{turn.text} [{turn.caption}]" if turn.caption else turn.text,
                "speaker": turn.speaker,
                "at": session.at,
                "thread": session.id,
                "id": turn.id,
            }
            for session in conversation.sessions
            for turn in session.turns
        ]
    )
    owner = {t.id: s.id for s in conversation.sessions for t in s.turns}
    wanted = DEFAULT

    def ranking(question: Question) -> tuple[list[str], list[str], float | None]:
        facts = memory.recall(
            question.text, limits=Limits(facts=_DEPTH), weights=wanted, at=question.at
        )
        turns = list(dict.fromkeys(t["episode_id"] for fact in facts for t in fact.turns))
        sessions = list(dict.fromkeys(owner[id_] for id_ in turns))
        return turns, sessions, max((fact.support for fact in facts[:5]), default=None)

    weakref.finalize(ranking, folder.cleanup)  # the memory lives as long as the ranking
    return ranking
