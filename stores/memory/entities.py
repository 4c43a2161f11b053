"""What an extractor of entities gives, and what all extractors share: merging, attributes, regions.

The extractors are ``entity_rules`` (light), ``entity_spacy`` (the default) and, above, the chat model
(``nodes.retrieval.entities``).
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Protocol

from stategate.stores.memory.names import sentences
from stategate.stores.memory.records import Entity, Relation

_ENTITIES = 200  # of a text
_ARTICLE = re.compile(r"^(?:the|an?)\s+", re.IGNORECASE)


class Extractor(Protocol):
    """Read entities and relations out of a text."""

    def __call__(self, text: str) -> tuple[list[Entity], list[Relation]]:
        """Return what ``text`` is about, each once, and the relations that its sentences tell."""
        ...

    def phrases(self, text: str) -> list[Entity]:
        """Return every name and noun phrase of ``text`` in order: what a question may point back to."""
        ...


def merged(entities: Iterable[Entity]) -> list[Entity]:
    """Return each entity once, in order, without short forms ("Weiss") of longer ones of the text."""
    unique = list({e.name.lower(): e for e in reversed(list(entities)) if e.name}.values())[::-1]
    unique = unique[:_ENTITIES]
    return [e for e in unique if not any(_shortens(e, other) for other in unique)]


def _shortens(entity: Entity, other: Entity) -> bool:
    short, full = entity.name.lower().split(), other.name.lower().split()
    if len(short) >= len(full) or "topic" in (entity.kind, other.kind):
        return False
    if other.kind == "person" and (len(short) == 1 or entity.kind == "person"):
        return short in (full[-len(short) :], full[: len(short)])
    return entity.kind == other.kind != "location" and short == full[: len(short)]


_ALSO = re.compile(
    r"\b(?:also|sometimes|otherwise|commonly)\s+(?:known\s+as|called|named)\s+"
    r"((?:the\s+|an?\s+)?[\w'’-]+(?:\s+[\w'’-]+){0,3}?)"
    r"(?:\s+or\s+((?:the\s+|an?\s+)?[\w'’-]+(?:\s+[\w'’-]+){0,3}?))?"
    r"(?=\s*(?:[,;:.!?()\[\]\n]|$|\s(?:is|are|was|were|in|that|which|and|because|for|by)\b))",
    re.IGNORECASE,
)


def other_names(text: str, name: str) -> Mapping[str, Any]:
    """Return ``{"also_known_as": [...]}`` where a sentence that holds ``name`` gives other names."""
    others: dict[str, str] = {}
    for sentence in sentences(text):
        low = sentence.lower()
        for match in _ALSO.finditer(sentence):
            if name.lower() not in low[: match.start()]:
                continue
            for other in filter(None, match.groups()):
                bare = _ARTICLE.sub("", other).strip()
                if bare.lower() not in (name.lower(), f"{name.lower()}s"):
                    others.setdefault(bare.lower(), bare)
    return {"also_known_as": list(others.values())} if others else {}


_LISTED = re.compile(r"\s*(?:,\s*(?:and\s+)?|\s(?:and|or)\s+)(?:the\s+)?[A-Z]")
_BETWEEN = re.compile(r",\s+(?:the\s+)?")


def regions(text: str, names: Sequence[tuple[Entity, int, int]]) -> dict[str, Entity]:
    """Return the region of each place that is written "place, region", by the place's name.

    ``names`` are entities with where they stand in ``text``. In a list of places ("in Zamora, Spain,
    and Kerala") the comma need not say where the first lies: lists are left alone.
    """
    places = [name for name in names if name[0].kind == "location"]
    found: dict[str, Entity] = {}
    for (place, start, end), (region, next_start, next_end) in pairwise(places):
        is_listed = _LISTED.match(text, next_end) or re.search(r"[A-Z][\w'’-]*,\s+$", text[:start])
        if (
            _BETWEEN.fullmatch(text, end, next_start)
            and not is_listed
            and place.name != region.name
        ):
            found.setdefault(place.name, region)
    return found


def described(text: str, entity: Entity, regions: Mapping[str, Entity]) -> Entity:
    """Return ``entity`` with the attributes that ``text`` gives it: other names, region."""
    attributes = dict(other_names(text, entity.name))
    if entity.kind == "location" and entity.name in regions:
        attributes["region"] = regions[entity.name].name
    return replace(entity, attributes=attributes) if attributes else entity


def distinct(relations: Iterable[Relation]) -> list[Relation]:
    """Return each relation once and none of an entity with itself; names of 40 letters at most."""
    key = {
        (r.subject.name, r.relation, r.object.name): replace(r, relation=r.relation[:40])
        for r in relations
        if r.subject.name != r.object.name
    }
    return list(key.values())
