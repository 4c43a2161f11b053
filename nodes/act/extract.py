"""``extract``: the sentences of the context that are nearest to the question. No language model.

What it answers is always in the context, word for word, so it shows what a context makes possible:
deterministic, free and fast, for evaluations of memory and retrieval.
"""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import Field

from envs.protocols import answer
from nodes.act.replies import question_in, unanswered
from nodes.protocols import Actor, ActorParams, BuiltContext, Decision
from nodes.retrieval.quoting import unquote
from stores.corpus.lexical import words

if TYPE_CHECKING:
    from nodes.resources import Resources

_ABOUT = re.compile(r"^About: (.+)$", re.MULTILINE)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_MARK = re.compile(r"^\[\d+\] |^(?:You|User): ")
#: A remembered answer that quotes memory itself: quoting that again would grow with every turn.
_QUOTED_AGAIN = re.compile(r"(?<=.)\s*\bOn \d{4}-\d\d-\d\d the user asked.*", re.DOTALL)
#: Parts of a prompt that may hold an answer.
_READ = ("passage", "fact", "history")


class Extract(ActorParams):
    """Answer with the ``sentences`` sentences that share most with the question."""

    kind: Literal["extract"] = "extract"
    sentences: int = Field(default=2, ge=1, description="how many sentences an answer has")
    words: float = Field(default=0.5, ge=0, description="weight of shared words beside cosine")

    def build(self, resources: "Resources") -> Actor:
        """Return the actor, which embeds through the shared embedder."""

        def act(context: BuiltContext, step: int) -> Decision:
            question = question_in(context)
            if not question:
                return unanswered(resources, context, "the context holds no question")
            sentences = dict(reversed(_sentences(context)))  # of repeats the first title counts
            texts = list(reversed(sentences))
            if not texts:
                return unanswered(resources, context, "the context holds nothing to answer from")
            about = " ".join(_ABOUT.findall(context.part("question"))[-1:])
            embedder = resources.embedder
            rows = embedder.embed([f"{sentences[text]}{text}" for text in texts])
            near = rows @ embedder.embed([f"{about} {question}".strip()])[0]
            wanted = set(words(question))
            shared = [len(wanted & set(words(text))) / max(len(wanted), 1) for text in texts]
            scores = near + self.words * np.asarray(shared)
            order = [texts[i] for i in np.argsort(-scores, kind="stable")]
            return Decision(answer(" ".join(_apart(order, self.sentences))))

        return act


def _apart(texts: Sequence[str], count: int) -> list[str]:
    """Return the first ``count`` texts of which none is a part of another (passages overlap)."""
    apart: list[str] = []
    for text in texts:
        if len(apart) < count and not any(text in other or other in text for other in apart):
            apart.append(text)
    return apart


def _sentences(context: BuiltContext) -> list[tuple[str, str]]:
    """Return what may be quoted, each with its document's title (to be found by, not to be quoted).

    A remembered fact is quoted whole: half of one says nothing about who said it and when. What the
    user asked earlier in the conversation is no answer.
    """
    quotable: list[tuple[str, str]] = []
    for piece in context.pieces:
        if piece.kind not in _READ:
            continue
        title, body = unquote(piece.text) if piece.kind == "passage" else ("", piece.text)
        whole = _QUOTED_AGAIN.sub("", body)
        for part in [whole] if piece.kind == "fact" else _SENTENCE.split(body):
            text = _MARK.sub("", part.strip()).strip()
            is_asked = piece.kind == "history" and text.endswith("?")
            if len(text.split()) > 2 and not is_asked:
                quotable.append((text, f"{title}. " if title else ""))
    return quotable
