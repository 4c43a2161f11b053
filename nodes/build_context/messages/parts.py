"""The parts of an earlier result that stay, and their rendering.

A part pays for those that lead it (``Chunk.data["leads"]``: places in its result) unless they are shown
already. What is missing is said in a note that closes the text: "[cut 512 tokens: recall 9f3a1]".
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from stategate.envs.messages.history import Count
from stategate.envs.protocols import Chunk
from stategate.nodes.build_context.assemble import built, instruction_piece
from stategate.nodes.build_context.heads import normalised
from stategate.nodes.protocols import BuiltContext, ContextRequest, Piece
from stategate.nodes.retrieval.history import HistorySource, visible_text, with_leads, word_scores
from stategate.stores.text import words_of

_SMALLEST = 3  # tokens that a part has at least
_GAP = "…\n"
#: What stands for prose within a part.
ELISION = "…"


def parts_by_words(request: ContextRequest) -> BuiltContext:
    """Return the parts of a :class:`HistorySource` that fit the budget, by cost over shared words.

    This is ``compress`` for results: a part is shown whole, or it has no piece.
    """
    source = cast(HistorySource, request.source)
    weights = relevance(request, source.all())
    chosen = _chosen(source, request.budget - instruction_piece(request).tokens_before, weights)
    pieces: list[Piece] = []
    for chunk in source.all():
        if chunk.id in chosen and (size := int(chunk.data["size"])):
            text = f"{visible_text(chunk)}\n"
            pieces.append(Piece(chunk.id, chunk.kind, text, (), size, size, weights[chunk.id]))
    return built(pieces)


def relevance(request: ContextRequest, chunks: Sequence[Chunk]) -> dict[str, float]:
    """Return the weight of each part by the rare words that it shares with instruction and actions.

    A part also counts the parts that it leads; among equals the source's earlier parts come first.
    """
    query = dict.fromkeys(words_of(request.instruction), 1.0)
    actions = [event for event in request.events if event.kind == "ACT"]
    for age, event in enumerate(reversed(actions)):
        for word in words_of(event.text):
            query[word] = max(query.get(word, 0.0), 1.2 / (1 + age))
    matched = word_scores(query, chunks)
    raw = {
        chunk.id: 0.1 + float(score) + 0.1 * (len(chunks) - place) / len(chunks)
        for place, (chunk, score) in enumerate(zip(chunks, matched, strict=True))
    }
    return normalised(raw)


def _chosen(source: HistorySource, budget: int, weights: Mapping[str, float]) -> set[str]:
    order: list[tuple[float, int, Sequence[Chunk], int]] = []
    for chunks in source.by_result.values():
        for place, chunk in enumerate(chunks):
            if not chunk.data["is_lead"]:  # those come with what they lead
                cost = chunk.data["size"] / weights.get(chunk.id, 1.0)
                order.append((cost, len(order), chunks, place))
    order.sort(key=lambda row: row[:2])
    chosen: set[str] = set()
    remaining = budget
    for _, _, parts, place in order:
        if remaining < _SMALLEST:
            break
        needed = [parts[i] for i in (*parts[place].data["leads"], place)]
        needed = [chunk for chunk in needed if chunk.id not in chosen]
        size = sum(chunk.data["size"] for chunk in needed)
        if size <= remaining:
            remaining -= size
            chosen.update(chunk.id for chunk in needed)
    return chosen


@dataclass(frozen=True)
class Rendering:
    """A result's visible text, its tokens, and the reason; ``is_note``: nothing but a note."""

    text: str
    size: int
    why: str = ""
    is_note: bool = False


def note(tokens: int, name: str, recall: str) -> str:
    """Return the note that closes a shortened result; ``recall`` is the tool's name, "" for none."""
    way_back = f": {recall} {name}" if recall else ""
    return f"[cut {tokens} tokens{way_back}]"


def rendered(
    name: str,
    text: str,
    chunks: Sequence[Chunk],
    pieces: Mapping[str, Piece],
    recall: str,
    count: Count,
) -> Rendering:
    """Return the text made of the parts that ``pieces`` show, and of those that lead them.

    It is ``text`` itself where everything is shown, or where the note would cost more than it saves.
    """
    visible = {i: pieces[chunk.id] for i, chunk in enumerate(chunks) if chunk.id in pieces}
    cut = {i for i, piece in visible.items() if 0 < piece.tokens_after < piece.tokens_before}
    places = with_leads(chunks, [i for i, piece in visible.items() if piece.text.strip()])
    size = count(text)
    if len(places) == len(chunks) and not cut:
        return Rendering(text, size)
    body = ""
    last = -1
    for i in places:
        if i > last + 1:
            body = _broken(body) + _GAP
        chunk = chunks[i]
        if chunk.kind == "html":
            body = _broken(body) + visible_text(chunk)
        elif i in cut and ELISION in visible[i].text:
            body += visible[i].text + chunk.text[len(chunk.text.rstrip()) :]
        elif i in cut and visible[i].text:
            body += visible[i].text.rstrip() + " " + _GAP
        else:
            body += chunk.text
        last = i
    gone = max(size - count(body), 1)
    shortened = _broken(body.rstrip()) + note(gone, name, recall)
    shortened_size = count(shortened)
    if shortened_size >= size:
        return Rendering(text, size)
    return Rendering(shortened, shortened_size, is_note=not places)


def _broken(body: str) -> str:
    return body + "\n" if body and not body.endswith("\n") else body
