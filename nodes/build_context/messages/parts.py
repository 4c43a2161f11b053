"""Parts of an earlier result: which stay, how they are shown, and which come back at a prompt's end.

A part pays for those that lead it (``Chunk.data["leads"]``: places in its result) unless they are shown
already. What is missing is said in a note that closes the text: "[cut 512 tokens: recall 9f3a1]".
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from stategate.envs.messages.history import Count
from stategate.envs.protocols import Chunk
from stategate.nodes.build_context.allocators import relevance
from stategate.nodes.build_context.assemble import built, instruction_piece
from stategate.nodes.protocols import BuiltContext, ContextRequest, Piece
from stategate.nodes.retrieval.history import (
    HistorySource,
    chunks_of,
    excerpt,
    shown_text,
    with_leads,
    word_scores,
    words_in,
)
from stategate.stores.text import words_of
from stategate.stores.tokens import count_tokens

_SMALLEST = 3  # tokens that a part has at least
_GAP = "…\n"


def parts_by_words(request: ContextRequest) -> BuiltContext:
    """Return the parts of a :class:`HistorySource` that fit the budget, by cost over shared words.

    This is ``compress`` for results: a part is shown whole, or it has no piece.
    """
    source = cast(HistorySource, request.source)
    weights = relevance(request, source.all())
    taken = _chosen(source, request.budget - instruction_piece(request).tokens_before, weights)
    pieces: list[Piece] = []
    for chunk in source.all():
        if chunk.id in taken and (size := int(chunk.data["size"])):
            text = f"{shown_text(chunk)}\n"
            pieces.append(Piece(chunk.id, chunk.kind, text, (), size, size, weights[chunk.id]))
    return built(pieces)


def _chosen(source: HistorySource, budget: int, weights: Mapping[str, float]) -> set[str]:
    order: list[tuple[float, int, Sequence[Chunk], int]] = []
    for chunks in source.by_result.values():
        for place, chunk in enumerate(chunks):
            if not chunk.data["is_lead"]:  # those come with what they lead
                cost = chunk.data["size"] / weights.get(chunk.id, 1.0)
                order.append((cost, len(order), chunks, place))
    order.sort(key=lambda row: row[:2])
    taken: set[str] = set()
    left = budget
    for _, _, parts, place in order:
        if left < _SMALLEST:
            break
        needed = [parts[i] for i in (*parts[place].data["leads"], place)]
        needed = [chunk for chunk in needed if chunk.id not in taken]
        size = sum(chunk.data["size"] for chunk in needed)
        if size <= left:
            left -= size
            taken.update(chunk.id for chunk in needed)
    return taken


@dataclass(frozen=True)
class Rendering:
    """The text that is shown for a result, its tokens, how many of its parts it has, and why."""

    text: str
    size: int
    parts: int = 1
    shown: int = 1
    score: float | None = None
    why: str = ""


def note(tokens: int, name: str, recallable: bool) -> str:
    """Return the note that closes a shortened result."""
    way_back = f": recall {name}" if recallable else ""
    return f"[cut {tokens} tokens{way_back}]"


def rendered(
    name: str,
    text: str,
    chunks: Sequence[Chunk],
    pieces: Mapping[str, Piece],
    recallable: bool,
    count: Count,
) -> Rendering:
    """Return the text made of the parts that ``pieces`` show, and of those that lead them.

    It is ``text`` itself where everything is shown, or where the note would cost more than it saves.
    """
    known = {i: pieces[chunk.id] for i, chunk in enumerate(chunks) if chunk.id in pieces}
    cut = {i for i, piece in known.items() if 0 < piece.tokens_after < piece.tokens_before}
    places = with_leads(chunks, [i for i, piece in known.items() if piece.text.strip()])
    scores = [piece.score for piece in known.values() if piece.score is not None]
    best = max(scores, default=None)
    size, every = count(text), len(chunks)
    whole = Rendering(text, size, every, every, best)
    if len(places) == every and not cut:
        return whole
    body = ""
    last = -1
    for i in places:
        if i > last + 1:
            body = _broken(body) + _GAP
        chunk = chunks[i]
        if chunk.kind == "html":
            body = _broken(body) + shown_text(chunk)
        elif i in cut and known[i].text:
            body += known[i].text.rstrip() + " " + _GAP
        else:
            body += chunk.text
        last = i
    gone = max(size - count(body), 1)
    shown = _broken(body.rstrip()) + note(gone, name, recallable)
    shown_size = count(shown)
    return Rendering(shown, shown_size, every, len(places), best) if shown_size < size else whole


def _broken(body: str) -> str:
    return body + "\n" if body and not body.endswith("\n") else body


# What comes back ----------------------------------------------------------------------------------

LEAD = "[from earlier results]"
_LEAST = 2.0  # of a part's score: about two words that few parts hold
_NEAR = 0.6  # of the best score
_QUERY_WORDS = 150
_TRIED = 40  # candidates that are looked at for room


@dataclass(frozen=True)
class Hidden:
    """An earlier result that is not shown whole: its name, the call it answers, what is shown."""

    key: str
    name: str
    source: str
    text: str
    shown: str


def appendix_for(hidden: Sequence[Hidden], query: str, already: str, room: int) -> str:
    """Return a few parts of ``hidden`` results (oldest first) that share rare words with ``query``.

    They have at most ``room`` tokens; "" where nothing fits or is worth it.
    """
    words = tuple(dict.fromkeys(words_of(query)))[:_QUERY_WORDS]
    if not words or room < 20:
        return ""
    rows = [
        (result, place, chunk)
        for result in hidden
        for place, chunk in enumerate(chunks_of(result.key, result.text))
    ]
    scores = word_scores(dict.fromkeys(words, 1.0), [chunk for *_, chunk in rows])
    order = sorted(range(len(rows)), key=lambda i: (-scores[i], -i))
    least = _LEAST
    chosen: dict[str, list[int]] = {}
    appendix = ""
    for i in order[:_TRIED]:
        result, place, chunk = rows[i]
        text = " ".join(shown_text(chunk).split())
        if scores[i] < least:
            break
        is_known = not text or chunk.text.strip() in result.shown or text in already
        if is_known or not words_in(chunk) - set(words):  # it says nothing new
            continue
        least = max(least, _NEAR * float(scores[i]))  # of the best that does
        tried = {**chosen, result.key: [*chosen.get(result.key, ()), place]}
        longer = _quoted(hidden, tried)
        if count_tokens(longer) <= room:
            chosen, appendix = tried, longer
    return appendix


def _quoted(hidden: Sequence[Hidden], chosen: Mapping[str, list[int]]) -> str:
    parts = [LEAD]
    for result in hidden:
        if result.key in chosen:
            parts.append(f"{result.name} {result.source}:")
            parts.append(excerpt(chunks_of(result.key, result.text), chosen[result.key]))
    return "\n".join(parts)
