"""Entities and relations by spaCy's small English pipeline: names, topics, who does what to whom.

The pipeline's named entities are one sign among those of :mod:`stores.memory.names`; its tags say
which words that begin a sentence are names; its parse gives topics and relations.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

from stategate.stores.errors import require_extra
from stategate.stores.memory.entities import described, distinct, merged, regions
from stategate.stores.memory.names import (
    LETTERS,
    PLACE_PREPOSITIONS,
    kind_of,
    plain,
    proper_names,
    sentences,
)
from stategate.stores.memory.records import Entity, Relation

_TOPICS = 4  # that a text has at most
_SHORT = 60  # tokens of a text in which a topic need not be repeated
#: Kinds of the recogniser's labels; works, events, laws and what else it names are things.
_KINDS = {
    "PERSON": "person",
    "GPE": "location",
    "LOC": "location",
    "FAC": "location",
    "ORG": "organisation",
}
_PEOPLES = ("NORP", "LANGUAGE")
_MEASURES = ("DATE", "TIME", "PERCENT", "MONEY", "QUANTITY", "ORDINAL", "CARDINAL")


class SpacyExtractor:
    """Names, noun phrases and dependencies of en_core_web_sm; some 5 ms a turn.

    Raises ``UserError`` without spaCy; the pipeline is loaded with the first text.
    """

    def __init__(self) -> None:
        with require_extra("qa"):
            if find_spec("spacy") is None:
                raise ModuleNotFoundError(name="spacy")

    def __call__(self, text: str) -> tuple[list[Entity], list[Relation]]:
        """Return the entities of ``text`` in order, topics last, and the relations between them."""
        doc = _pipeline()("\n".join(sentences(text[:LETTERS])))
        spans = self._named(doc)
        within = regions(doc.text, [(e, s.start_char, s.end_char) for e, s in spans])
        named = merged(entity for entity, _ in spans)
        topics = _topics(doc, {t.i for _, span in spans for t in span})
        entities = [described(doc.text, e, within) for e in [*named, *topics]]
        by_token = _by_token(doc, spans, entities)
        located = [
            Relation(e, "located_in", o)
            for e in entities
            for o in entities
            if e.attributes.get("region") == o.name and o.kind == "location"
        ]
        return entities, distinct([*_relations(doc, by_token), *located])

    def phrases(self, text: str) -> list[Entity]:
        """Return every name and every noun phrase of ``text`` in order, articles left out."""
        doc = _pipeline()(" ".join(sentences(text[:LETTERS])))
        spans = self._named(doc)
        taken = {t.i: (e, span) for e, span in spans for t in span}
        phrases: dict[int, Entity] = {}
        for chunk in doc.noun_chunks:
            names = [taken[t.i] for t in chunk if t.i in taken]
            if names and names[0][1][-1].i >= chunk.root.i:
                phrases[names[0][1].start] = names[0][0]
            elif chunk.root.pos_ in ("NOUN", "PROPN"):
                words = [
                    t.text
                    for t in chunk
                    if t.pos_ not in ("DET", "PRON", "NUM", "PUNCT", "SCONJ", "ADV")
                    and t.lower_ not in ("many", "much")
                ]
                if words and chunk.root.ent_type_ not in _MEASURES:
                    phrases[chunk.start] = Entity(
                        names[0][0].kind if names else "topic", " ".join(words)
                    )
        covered = {t.i for chunk in doc.noun_chunks for t in chunk}
        for token in doc:  # a word that the tagger does not know is an object all the same
            if token.dep_ in ("dobj", "pobj") and token.i not in covered and token.is_alpha:
                phrases[token.i] = Entity("topic", token.text)
        for entity, span in spans:
            phrases.setdefault(span.start, entity)
        return [phrases[start] for start in sorted(phrases)]

    def _named(self, doc: Any) -> list[tuple[Entity, Any]]:
        proper = {token.idx for token in doc if token.pos_ == "PROPN"}
        spans = []
        labels: dict[str, Counter[str]] = {}
        for name in proper_names(doc.text, proper.__contains__):
            span = doc.char_span(name.start, name.end, alignment_mode="expand")
            if not all(token.ent_type_ in _PEOPLES for token in span):
                bare = plain(name.text)
                spans.append((bare, span))
                found = (_KINDS.get(t.ent_type_, "thing") for t in span if _is_named(t))
                labels.setdefault(bare, Counter()).update(found)
        kinds = {
            bare: kind_of(bare, doc.text, count.most_common(1)[0][0] if count else None)
            for bare, count in labels.items()
        }
        return [(Entity(kinds[bare], bare), span) for bare, span in spans]


def _is_named(token: Any) -> bool:
    return bool(token.ent_type_) and token.ent_type_ not in (*_MEASURES, *_PEOPLES)


def _topics(doc: Any, taken: set[int]) -> list[Entity]:
    """Return the common nouns that ``doc`` repeats or, if it is short, that its first sentence has.

    A noun takes the modifier with it that it has at least half of the time.
    """
    counts: Counter[str] = Counter()
    modified: dict[str, Counter[str]] = {}
    first = next(iter(doc.sents), doc)
    for token in doc:
        if (
            token.pos_ != "NOUN"
            or not token.is_alpha
            or token.i in taken
            or token.ent_type_ in _MEASURES
        ):
            continue
        if token.dep_ == "compound" and token.head.pos_ == "NOUN":
            continue
        lemma = token.lemma_.lower()
        counts[lemma] += 1
        before = [
            t for t in token.lefts if t.dep_ == "compound" or (t.pos_ == "ADJ" and t.dep_ == "amod")
        ]
        before = [t for t in before if t.i not in taken and t.is_lower]
        if before:
            modified.setdefault(lemma, Counter())[" ".join(t.lower_ for t in before)] += 1
    opening = {t.lemma_.lower() for t in first if t.dep_ in _CENTRAL}
    enough = 1 if len(doc) <= _SHORT else 2
    scores = {
        lemma: n + (lemma in opening)
        for lemma, n in counts.items()
        if n > 1 or (lemma in opening and n >= enough)
    }
    topics = []
    for lemma in sorted(scores, key=lambda lemma: -scores[lemma])[:_TOPICS]:
        modifier, n = (modified.get(lemma) or Counter({"": 0})).most_common(1)[0]
        is_usual = 2 * n >= counts[lemma] and (n > 1 or counts[lemma] == 1)
        topics.append(Entity("topic", f"{modifier} {lemma}" if is_usual else lemma))
    return topics


_CENTRAL = ("nsubj", "nsubjpass", "dobj", "attr", "ROOT", "pobj")


def _by_token(
    doc: Any, spans: Sequence[tuple[Entity, Any]], entities: Sequence[Entity]
) -> dict[int, Entity]:
    """Return the entity that each token of ``doc`` names, short forms under their full one."""
    by_name = {entity.name.lower(): entity for entity in entities}
    by_token: dict[int, Entity] = {}
    for entity, span in spans:
        low = entity.name.lower()
        longer = (e for name, e in by_name.items() if set(low.split()) <= set(name.split()))
        full = by_name.get(low) or next(longer, None)
        if full is not None:
            by_token |= {token.i: full for token in span}
    heads = {e.name.rpartition(" ")[2]: e for e in entities if e.kind == "topic"}
    for token in doc:
        if token.i not in by_token and token.pos_ == "NOUN" and token.lemma_.lower() in heads:
            by_token[token.i] = heads[token.lemma_.lower()]
    return by_token


def _relations(doc: Any, by_token: Mapping[int, Entity]) -> Iterator[Relation]:
    """Yield "subject verb object" of every verb, "located_in" of nouns with a preposition of place."""
    for token in doc:
        if token.pos_ in ("VERB", "AUX"):
            yield from _of_verb(token, by_token)
        elif token.i in by_token:
            for preposition, place in _prepositions(token, by_token):
                if place.kind == "location" and preposition in PLACE_PREPOSITIONS:
                    yield Relation(by_token[token.i], "located_in", place)


def _of_verb(verb: Any, by_token: Mapping[int, Entity]) -> Iterator[Relation]:
    children = {child.dep_: child for child in verb.children}
    if "neg" in children:
        return
    passive = children.get("nsubjpass")
    subject = passive or children.get("nsubj")
    if subject is None and verb.dep_ == "acl" and verb.tag_ == "VBN":
        passive = subject = verb.head
    if subject is None and verb.dep_ == "relcl":
        subject = verb.head
    if subject is None and verb.dep_ == "conj":
        shared = {child.dep_: child for child in verb.head.children}
        subject = shared.get("nsubj") or shared.get("nsubjpass")
    subjects = list(_entities(subject, by_token))
    name = verb.lower_
    agent = children.get("agent")
    if passive is not None and agent is not None:
        for token in agent.children:
            for doer in _entities(token, by_token):
                yield from (Relation(doer, name, subject) for subject in subjects)
    for dep in ("dobj", "attr"):
        for one in _entities(children.get(dep), by_token):
            yield from (Relation(subject, name, one) for subject in subjects)
    for preposition, one in _prepositions(verb, by_token):
        is_place = verb.lemma_ == "be" and preposition in PLACE_PREPOSITIONS
        relation = "located_in" if is_place else f"{name}_{preposition}"
        yield from (Relation(subject, relation, one) for subject in subjects)


def _prepositions(token: Any, by_token: Mapping[int, Entity]) -> Iterator[tuple[str, Entity]]:
    for child in token.children:
        if child.dep_ == "prep":
            for one in child.children:
                if one.dep_ == "pobj":
                    yield from ((child.lower_, entity) for entity in _entities(one, by_token))


def _entities(token: Any, by_token: Mapping[int, Entity]) -> Iterator[Entity]:
    """Yield what ``token`` names, else what stands beside it ("the cook Ada Holt"), and its fellows."""
    if token is None:
        return
    for one in (token, *token.conjuncts):
        beside = [one, *(child for child in one.children if child.dep_ in ("appos", "compound"))]
        entity = next((by_token[t.i] for t in beside if t.i in by_token), None)
        if entity is not None:
            yield entity


@lru_cache(maxsize=1)
def _pipeline() -> Any:
    """Return the pipeline, loaded once. Raises ``UserError`` where its model cannot be fetched."""
    import spacy

    from stategate.stores.assets.fetch import asset_path

    return spacy.load(asset_path("en_core_web_sm"))
