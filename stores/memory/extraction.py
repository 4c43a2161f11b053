"""Entities and relations of what is remembered, by spaCy's small English pipeline (some 5 ms a text).

They rank nothing in recall: the Memory tab draws them as a graph. So they are read from the facts when
somebody looks, and kept nowhere: forgetting a fact forgets its names.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from stategate.stores.errors import require_extra
from stategate.stores.memory.records import Fact

LETTERS = 2000  # of a fact that are read
FACTS = 400  # the newest ones that are read
#: Entity kinds of the recogniser's labels; works, events, products and laws are things.
KINDS = {
    "PERSON": "person",
    "GPE": "location",
    "LOC": "location",
    "FAC": "location",
    "ORG": "organisation",
    "WORK_OF_ART": "thing",
    "EVENT": "thing",
    "PRODUCT": "thing",
    "LAW": "thing",
}
_SUBJECTS, _OBJECTS = ("nsubj", "nsubjpass"), ("dobj", "attr")


@dataclass(frozen=True)
class Entity:
    """A person, location, organisation, thing or topic (a common noun) by its name."""

    kind: str
    name: str


@dataclass(frozen=True)
class Relation:
    """``subject`` ``relation`` ``object``, such as Ada Holt lives_in Oslo."""

    subject: Entity
    relation: str
    object: Entity


def name_graph(
    facts: Sequence[Fact], entities: int, relations: int
) -> tuple[list[Entity], list[Relation]]:
    """Return the entities that ``facts`` name most often, and the relations between any of them.

    At most ``entities`` and ``relations``, the most frequent first; the newest :data:`FACTS` are read.
    """
    named: Counter[Entity] = Counter()
    related: Counter[Relation] = Counter()
    for fact in sorted(facts, key=lambda fact: fact.updated)[-FACTS:]:
        found, links = extract(f"{fact.question}\n{fact.answer}"[:LETTERS])
        named.update(found)
        related.update(links)
    return (
        [entity for entity, _ in named.most_common(entities)],
        [relation for relation, _ in related.most_common(relations)],
    )


@lru_cache(maxsize=4096)
def extract(text: str) -> tuple[tuple[Entity, ...], tuple[Relation, ...]]:
    """Return the entities of ``text`` in order, each once, and "subject verb object" relations.

    Names come from the recogniser, topics from the subjects and objects of verbs.
    """
    doc = _pipeline()(" ".join(text.split()))
    by_token = _entities_by_token(doc)
    relations = dict.fromkeys(_relations(doc, by_token))
    return tuple(dict.fromkeys(by_token.values())), tuple(relations)


def _entities_by_token(doc: Any) -> dict[int, Entity]:
    """Return the entity that each token names; a short form ("Holt") stands for the full name."""
    spans = [span for span in doc.ents if span.label_ in KINDS]
    full = {span.root.i: _entity(span) for span in spans}
    names = sorted(full.values(), key=lambda entity: -len(entity.name))
    by_token: dict[int, Entity] = {}
    for span in spans:
        entity = full[span.root.i]
        words = set(entity.name.split())
        longer = (e for e in names if e.kind == entity.kind and words <= set(e.name.split()))
        by_token |= dict.fromkeys((token.i for token in span), next(longer, entity))
    for token in doc:
        if token.dep_ not in (*_SUBJECTS, *_OBJECTS, "pobj") or token.ent_type_:
            continue
        if token.pos_ == "NOUN" and token.is_alpha:
            by_token[token.i] = Entity("topic", token.lemma_.lower())
        elif token.pos_ == "PROPN":  # a name that the recogniser has no kind for
            before = [t.text for t in token.lefts if t.dep_ == "compound" and not t.ent_type_]
            by_token[token.i] = Entity("thing", " ".join([*before, token.text]))
    return dict(sorted(by_token.items()))


def _entity(span: Any) -> Entity:
    words = [token.text for token in span if token.dep_ != "case" and token.pos_ != "DET"]
    return Entity(KINDS[span.label_], " ".join(words or [span.text]))


def _relations(doc: Any, by_token: Mapping[int, Entity]) -> Iterator[Relation]:
    for verb in doc:
        if verb.pos_ not in ("VERB", "AUX"):
            continue
        children = {child.dep_: child for child in verb.children}
        subjects = [_named(children[dep], by_token) for dep in _SUBJECTS if dep in children]
        subject = next(iter(filter(None, subjects)), None)
        if subject is None or "neg" in children:
            continue
        pairs = [(verb.lower_, children[dep]) for dep in _OBJECTS if dep in children]
        for child in verb.children:
            if child.dep_ in ("prep", "agent"):
                found = (one for one in child.children if one.dep_ == "pobj")
                pairs += [(f"{verb.lower_}_{child.lower_}", one) for one in found]
        for relation, token in pairs:
            for one in (token, *token.conjuncts):
                entity = _named(one, by_token)
                if entity is not None and entity != subject:
                    yield Relation(subject, relation, entity)


def _named(token: Any, by_token: Mapping[int, Entity]) -> Entity | None:
    """Return what ``token`` names, else what stands beside it ("the cook Ada Holt")."""
    beside = (token, *(c for c in token.children if c.dep_ in ("appos", "compound")))
    return next((by_token[one.i] for one in beside if one.i in by_token), None)


@lru_cache(maxsize=1)
def _pipeline() -> Any:
    """Return the pipeline, loaded once. Raises ``UserError`` where spaCy or its model is missing."""
    with require_extra("qa"):
        import spacy

    from stategate.stores.assets.fetch import asset_path

    return spacy.load(asset_path("en_core_web_sm"))
