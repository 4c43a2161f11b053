"""``recall``: what was said, what is remembered, what the documents say, then the question.

    Conversation so far:        short-term memory, oldest first
    Remembered from before:     long-term memory: facts, entities, relations
    <document ...>              the best passages, quoted as data
    About: ...                  what a follow-up points back to
    Question: ...

Document text is folded to one line each and cannot close its own tag, so that a text which gives
orders stays a quotation.
"""

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from envs.protocols import ANSWER, Chunk, View, target_of
from nodes.build_context.assemble import built, newest_within
from nodes.build_context.follow_up import subject
from nodes.build_context.remember import MemoryReader, remembered
from nodes.protocols import (
    BuiltContext,
    ContextBuilder,
    ContextParams,
    ContextRequest,
    Piece,
)
from nodes.retrieval.corpus import Retrieval
from nodes.retrieval.entities import extractor_of
from nodes.retrieval.page import describe
from stores.text import one_line
from stores.tokens import count_tokens, truncate
from stores.traces import Event

if TYPE_CHECKING:
    from nodes.resources import Resources

_TAG = re.compile(r"<(?=/?\s*document)", re.IGNORECASE)


#: All candidates for a question with their scores, best first, and how many of them to show.
Find = Callable[[ContextRequest, str], tuple[Sequence[tuple[Chunk, float]], int]]


class ConversationContext(ContextParams):
    """What every builder of a conversation's prompt shares: all but the choice of passages."""

    retrieval: Retrieval = Field(
        default="parent",
        description="'dense' cosine, 'rrf' cosine and BM25, 'hybrid' also sentences, 'parent' also "
        "the document's best, 'likelihood' also a small language model's word (slow)",
    )
    history_tokens: int = Field(
        default=600, ge=0, description="tokens the conversation may have in the prompt (0: none)"
    )
    memory: MemoryReader | None = Field(
        default=None, description="read long-term memory; null reads none"
    )
    follow_ups: bool = Field(
        default=True, description="search for a follow-up with what the conversation is about"
    )
    extractor: Literal["spacy", "rules"] = Field(
        default="spacy", description="what reads that out of the conversation; 'rules' is light"
    )

    def conversation(
        self, resources: "Resources", find: Find, best_last: bool = False
    ) -> ContextBuilder:
        """Return a builder that shows the passages which ``find`` chooses.

        The best passages get room first, and stand first or, with ``best_last``, last. Raises
        ``UserError`` if the memory cannot be opened.
        """
        store = self.memory.place.open() if self.memory is not None else None
        extract = extractor_of(self.extractor)

        def build_context(request: ContextRequest) -> BuiltContext:
            asked = one_line(request.instruction)
            kept = [event for event in request.events if self.history_tokens]
            about = one_line(subject(asked, kept, extract)) if self.follow_ups else ""
            query = f"{about} {asked}" if about else asked
            question, left = _question(asked, about, request)
            history = self._history(request.events, left // 3)
            left -= _size(history)
            memory: Sequence[Piece] = ()
            if self.memory is not None and store is not None:
                room = min(left // 2, self.memory.tokens)
                memory = remembered(self.memory, store, resources, query, room)
                left -= _size(memory)
            found, shown = find(request, query)
            passages = _passages(request.view, found, shown, left, best_last)
            pieces = [*history, *memory, *passages, question]
            return built(_accounted(pieces, request))

        return build_context

    def candidates_for(
        self, request: ContextRequest, query: str, k: int, resources: "Resources"
    ) -> list[tuple[Chunk, float]]:
        """Return the ``k`` best candidates of the source for the words of ``query``, with scores."""
        if not k:
            return []
        source: Any = request.source
        if hasattr(source, "find"):  # a corpus takes words; a page only vectors
            found: list[tuple[Chunk, float]] = source.find(query, k, self.retrieval)
            return found
        vector = resources.embedder.embed([query])[0]
        return request.source.search(vector, k)

    def _history(self, events: Sequence[Event], room: int) -> list[Piece]:
        said = [e for e in events if e.kind in ("OBS", "ACT")] if self.history_tokens else []
        lines = [
            _piece(f"history:{e.t}:{e.kind}", "history", f"{_WHO[e.kind]}: {one_line(e.text)}\n")
            for e in said
        ]
        head = _piece("history", "history", "Conversation so far:\n")
        budget = min(room, self.history_tokens) - head.tokens_after
        kept = [piece for piece in newest_within(lines, max(budget, 0)) if piece.text]
        return [head, *kept] if kept else []


class Recall(ConversationContext):
    """Join short-term memory, long-term memory and retrieved passages within one budget."""

    kind: Literal["recall"] = "recall"
    top_k: int = Field(default=5, ge=0, description="how many passages to show")

    def build(self, resources: "Resources") -> ContextBuilder:
        """Return the builder. Raises ``UserError`` if the memory cannot be opened."""
        return self.conversation(
            resources,
            lambda request, query: (
                self.candidates_for(request, query, self.top_k, resources),
                self.top_k,
            ),
        )


_WHO = {"OBS": "User", "ACT": "You"}


def _question(asked: str, about: str, request: ContextRequest) -> tuple[Piece, int]:
    """Return the closing question and the tokens left; it is cut only where nothing else fits."""
    is_open = ANSWER in request.observation.actions
    cue = "Answer:\n" if is_open else ""
    line = f"Question: {asked}\n"
    if about and count_tokens(f"About: {about}\n{line}{cue}") <= request.budget // 2:
        line = f"About: {about}\n{line}"
    before = count_tokens(line + cue)
    room = request.budget - count_tokens(cue)
    text = line if count_tokens(line) <= room else _cut(line, room)
    text = text + cue if count_tokens(text + cue) <= request.budget else ""
    actions = (ANSWER,) if is_open and cue in text and text else ()
    gone = (ANSWER,) if is_open and not actions else ()
    piece = Piece("question", "question", text, actions, before, count_tokens(text), None, gone)
    return piece, request.budget - piece.tokens_after


def _cut(line: str, room: int) -> str:
    cut = truncate(line, max(room - 1, 0)).rstrip()
    return f"{cut}\n" if cut and count_tokens(f"{cut}\n") <= room else ""


def _passages(
    view: View, found: Sequence[tuple[Chunk, float]], shown: int, room: int, best_last: bool
) -> list[Piece]:
    """Quote the first ``shown`` passages, best first while there is room; one is cut where it ends.

    The rest is told without text, so that every score can be audited.
    """
    pieces: list[Piece] = []
    is_full = False
    for place, (chunk, score) in enumerate(found):
        number = min(shown, len(found)) - place if best_last else place + 1
        whole = describe(view, chunk)
        text = _quoted(chunk, number, whole)
        before = count_tokens(text)
        if is_full or place >= shown:
            text = ""
        elif before > room:
            is_full = True
            inner = truncate(whole, max(room - 30 - count_tokens(_title(chunk)), 0))
            text = _quoted(chunk, number, inner) if inner.strip() else ""
            text = text if count_tokens(text) <= room else ""
        after = count_tokens(text)
        room -= after
        offered = tuple(a for a in chunk.actions if target_of(a).lower() in text.lower())
        gone = tuple(a for a in chunk.actions if a not in offered)
        pieces.append(Piece(chunk.id, "passage", text, offered, before, after, score, gone))
    return pieces[::-1] if best_last else pieces


def _quoted(chunk: Chunk, number: int, text: str) -> str:
    body = _TAG.sub("‹", one_line(text))
    return f'<document number="{number}"{_title(chunk)}>\n{body}\n</document>\n'


def _title(chunk: Chunk) -> str:
    title = one_line(str(chunk.data.get("title", ""))).replace('"', "'")
    return f' title="{_TAG.sub("‹", title)}"' if title else ""


def _accounted(pieces: Sequence[Piece], request: ContextRequest) -> list[Piece]:
    """Add what the page offers and nothing here shows, so that the audit is complete."""
    told = {a for piece in pieces for a in (*piece.actions, *piece.dropped_actions)}
    missing = tuple(a for a in request.observation.actions if a not in told)
    rest = [Piece("page", "page", "", (), 0, 0, None, missing)] if missing else []
    return [*pieces, *rest]


def _piece(id_: str, kind: str, text: str) -> Piece:
    size = count_tokens(text)
    return Piece(id_, kind, text, (), size, size)


def _size(pieces: Sequence[Piece]) -> int:
    return sum(piece.tokens_after for piece in pieces)
