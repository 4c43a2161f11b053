"""From what a builder kept of a result back to one text, with a note of what is missing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stategate.envs.messages.history import Count
from stategate.envs.protocols import Chunk
from stategate.nodes.protocols import Piece
from stategate.nodes.retrieval.history import shown_text, with_leads

_GAP = "…\n"


@dataclass(frozen=True)
class Rendering:
    """The text that is shown for a result, its tokens, and how many of its parts it has."""

    text: str
    size: int
    parts: int
    shown: int
    score: float | None = None


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
    shown_places = [i for i, piece in known.items() if piece.text.strip()]
    places = with_leads(chunks, shown_places)
    scores = [piece.score for piece in known.values() if piece.score is not None]
    best = max(scores, default=None)
    if len(places) == len(chunks) and not cut:
        return Rendering(text, count(text), len(chunks), len(chunks), best)
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
    size = count(text)
    gone = max(size - count(body), 1)
    shown = _broken(body.rstrip()) + note(gone, name, recallable)
    if (shown_size := count(shown)) >= size:
        return Rendering(text, size, len(chunks), len(chunks), best)
    return Rendering(shown, shown_size, len(chunks), len(places), best)


def bare(name: str, text: str, size: int, recallable: bool, count: Count) -> Rendering:
    """Return the shortest rendering: the note alone, or the text where that is shorter."""
    alone = note(size, name, recallable)
    if (alone_size := count(alone)) >= size:
        return Rendering(text, size, 1, 1)
    return Rendering(alone, alone_size, 1, 0)


def _broken(body: str) -> str:
    return body + "\n" if body and not body.endswith("\n") else body
