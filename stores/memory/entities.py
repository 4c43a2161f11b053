"""Who and what a text speaks of: phenomena, locations, persons, and how they hang together.

Two extractors behind one Protocol: rules (patterns, prepositions, capitalised names) and spaCy's
named entities. Both are deterministic and run on this machine.
"""

import re
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from typing import Any, ClassVar, Protocol

from stores.memory.attributes import country_of, other_names
from stores.memory.records import Entity, Relation

_NAME = r"(?:[A-Z][\w'’-]*)(?:\s+(?:(?:of|the|de|del|la)\s+)?[A-Z][\w'’-]*){0,3}"
_PLACE = re.compile(rf"\b(?:in|at|over|near|from|off|across|along|to|of)\s+(?:the\s+)?({_NAME})")
_PERSON = re.compile(r"\b([A-Z][a-z]+(?:\s+[A-Z][a-z'’-]+){1,2})\b")
_STUDY = re.compile(
    r"\b(?:discover|stud|describ|film|examin|observ|propos|argu|report|explain|found|noticed|watch|led)"
)
_PHENOMENA = (
    "aurora", "ball lightning", "blood falls", "blood rain", "brinicle", "brocken spectre",
    "catatumbo lightning", "circumzenithal arc", "circumhorizontal arc", "fata morgana",
    "fire rainbow", "frost flower", "geyser", "glory", "gravity hill", "green flash", "halo",
    "lake nyos", "limnic eruption", "magnetic hill", "mirage", "morning glory", "naga fireball",
    "roll cloud", "sailing stone", "skyquake", "sundog", "tornado", "volcano", "waterspout",
)  # fmt: skip
_PHENOMENON = re.compile(rf"\b({'|'.join(_PHENOMENA)})(s|es)?\b", re.IGNORECASE)
#: Words that tell a place from a person where only capitals speak.
_GEOGRAPHY = re.compile(
    r"\b(?:Lake|River|Gulf|Valley|Valleys|Island|Islands|Park|Province|Region|Land|Sea|Ocean|Bay|"
    r"Strait|Mount|Peninsula|Glacier|Playa|Desert|Antarctica|Australia|Venezuela|Cameroon|California|"
    r"Europe|Africa|Asia|America|India|Japan|Spain|Germany|Thailand|Laos|Canada|Scotland|Sahara)\b"
)
_NO_NAME = {
    "The",
    "A",
    "An",
    "It",
    "What",
    "Which",
    "Who",
    "Where",
    "When",
    "Why",
    "How",
    "In",
    "On",
}
_NO_NAME |= {
    "I",
    "You",
    "We",
    "They",
    "He",
    "She",
    "This",
    "That",
    "Is",
    "Are",
    "Do",
    "Does",
    "Did",
}


class Extractor(Protocol):
    """Read entities and relations out of a text."""

    def __call__(self, text: str) -> tuple[list[Entity], list[Relation]]:
        """Return what ``text`` names, each once, and the relations that its sentences tell."""
        ...


def rules(text: str) -> tuple[list[Entity], list[Relation]]:
    """Extract by patterns: known phenomena, names after prepositions, pairs of capitalised words."""
    phenomena = [_phenomenon(match[1]) for match in _PHENOMENON.finditer(text)]
    taken = {e.name.lower() for e in phenomena}
    places: list[Entity] = []
    for match in _PLACE.finditer(text):
        name = match[1].rstrip(".,;:'’")
        if name.lower() not in taken and name not in _NO_NAME:
            places.append(Entity("location", name))
    for match in re.finditer(_NAME, text):
        name = match[0].rstrip(".,;:'’")
        if (
            _GEOGRAPHY.search(name)
            and name.lower() not in taken
            and name.split()[0] not in _NO_NAME
        ):
            places.append(Entity("location", name))
    located = {e.name for e in places}
    people = [
        Entity("person", match[1])
        for match in _PERSON.finditer(text)
        if match[1].split()[0] not in _NO_NAME
        and match[1] not in located
        and match[1].lower() not in taken
        and not _GEOGRAPHY.search(match[1])
    ]
    return linked(text, [*phenomena, *places, *people])


class SpacyExtractor:
    """Extract with spaCy's named entities; phenomena still come from the patterns."""

    _KINDS: ClassVar[dict[str, str]] = {
        "GPE": "location",
        "LOC": "location",
        "FAC": "location",
        "PERSON": "person",
    }

    def __init__(self) -> None:
        self._pipeline: Any = _pipeline()

    def __call__(self, text: str) -> tuple[list[Entity], list[Relation]]:
        """Return entities and relations of ``text``."""
        phenomena = [_phenomenon(match[1]) for match in _PHENOMENON.finditer(text)]
        taken = {e.name.lower() for e in phenomena}
        named = [
            Entity(self._KINDS[e.label_], re.sub(r"^the\s+|['’]s$", "", e.text.strip()))
            for e in self._pipeline(text).ents
            if e.label_ in self._KINDS and e.text.lower() not in taken
        ]
        return linked(text, [*phenomena, *named])


@lru_cache(maxsize=4)
def extractor(name: str) -> Extractor:
    """Return the extractor ``"rules"`` or ``"spacy"`` (loaded once)."""
    return SpacyExtractor() if name == "spacy" else rules


@lru_cache(maxsize=1)
def _pipeline() -> Any:
    from stores.assets.fetch import asset_path

    folder = asset_path("en_core_web_sm")
    import spacy

    return spacy.load(folder, disable=["lemmatizer", "attribute_ruler", "tagger", "parser"])


def linked(text: str, entities: Iterable[Entity]) -> tuple[list[Entity], list[Relation]]:
    """Return entities without repeats, and relations between those that share a sentence.

    A phenomenon occurs_in a location of its sentence; a person of a sentence that tells of research
    studied its phenomenon.
    """
    named = {(e.kind, e.name): e for e in entities if e.name.strip()}
    unique = [_attributed(text, entity) for entity in named.values()]
    relations: list[Relation] = []
    for sentence in re.split(r"(?<=[.!?])\s+|\n+", text):
        low = sentence.lower()
        here = [e for e in unique if e.name.lower() in low]
        for subject in (e for e in here if e.kind == "phenomenon"):
            for other in here:
                if other.kind == "location":
                    relations.append(Relation(subject, "occurs_in", other))
                elif other.kind == "person" and _STUDY.search(low):
                    relations.append(Relation(other, "studied", subject))
    return unique, _distinct(relations)


def _attributed(text: str, entity: Entity) -> Entity:
    reader = {"phenomenon": other_names, "location": country_of}.get(entity.kind)
    return replace(entity, attributes=reader(text, entity.name)) if reader else entity


def _distinct(relations: Iterable[Relation]) -> list[Relation]:
    key = {(r.subject.name, r.relation, r.object.name): r for r in relations}
    return list(key.values())


def _phenomenon(name: str) -> Entity:
    return Entity("phenomenon", name.lower().capitalize())
