"""Reading long-term memory for a prompt: the facts nearest to the question, entities, relations."""

import time
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

from nodes.protocols import Piece
from nodes.retrieval.memory import MemoryPlace
from stores.text import one_line
from stores.tokens import count_tokens, truncate

if TYPE_CHECKING:
    from nodes.resources import Resources
    from stores.memory.long_term import LongTerm
    from stores.memory.records import Fact


_ANSWER = 80  # tokens of a remembered answer that a prompt shows


class MemoryReader(BaseModel):
    """The read policy: how much of which memory a prompt may show."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    place: MemoryPlace = Field(default=MemoryPlace(), description="which memory, whose part")
    facts: int = Field(default=5, ge=0, description="facts, by relevance")
    min_salience: float = Field(default=0.3, ge=0, le=1, description="of a fact, after decay")
    entities: int = Field(default=10, ge=0)
    relations: int = Field(default=15, ge=0)
    tokens: int = Field(default=500, ge=0, description="tokens (cl100k) all of it may have")


def remembered(
    reader: MemoryReader, store: "LongTerm", resources: "Resources", query: str, room: int
) -> list[Piece]:
    """Return pieces for what is remembered about ``query``, at most ``room`` tokens, best first."""
    embedder = resources.embedder
    vector = embedder.embed([query])[0]
    namespace = reader.place.namespace
    facts = store.search(namespace, vector, embedder.name, reader.facts, reader.min_salience)
    entities, relations = store.graph(namespace, query, facts, reader.entities, reader.relations)
    lines = [_piece(f"fact:{fact.id}", "fact", _fact(fact), fact.score) for fact in facts]
    if entities:
        names = ", ".join(f"{one_line(e.name)} ({e.kind})" for e in entities)
        lines.append(_piece("entities", "entity", f"Known names: {names}.\n"))
    if relations:
        told = "; ".join(
            f"{one_line(r.subject.name)} {r.relation.replace('_', ' ')} {one_line(r.object.name)}"
            for r in relations
        )
        lines.append(_piece("relations", "relation", f"Known relations: {told}.\n"))
    head = _piece("memory", "memory", "Remembered from before:\n")
    left = room - head.tokens_after
    kept = []
    for piece in lines:
        if piece.tokens_after <= left:
            kept.append(piece)
            left -= piece.tokens_after
    return [head, *kept] if kept else []


def _fact(fact: "Fact") -> str:
    day = time.strftime("%Y-%m-%d", time.gmtime(fact.updated))
    times = f" (asked {fact.times} times)" if fact.times > 1 else ""
    also = " (answered otherwise at another time)" if fact.contradicts else ""
    answer = truncate(one_line(fact.answer), _ANSWER) if fact.success else "(not answered)"
    return f'On {day} the user asked{times}: "{one_line(fact.question)}" Answer{also}: {answer}\n'


def _piece(id_: str, kind: str, text: str, score: float | None = None) -> Piece:
    size = count_tokens(text)
    return Piece(id_, kind, text, (), size, size, score)
