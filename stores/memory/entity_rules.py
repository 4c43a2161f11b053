"""Entities and relations by capitals, function words, prepositions and repetition alone."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from stategate.stores.memory.entities import described, distinct, merged, regions
from stategate.stores.memory.names import (
    FUNCTION_WORDS,
    LETTERS,
    PLACE_PREPOSITIONS,
    kind_of,
    plain,
    proper_names,
    sentences,
)
from stategate.stores.memory.records import Entity, Relation

_TOPICS = 4  # that a text has at most
_SHORT = 400  # letters of a text in which a topic need not be repeated
_PHRASE = re.compile(
    r"\b(?:(?P<article>[Aa]n?|[Tt]he|my|your|his|her|its|our|their|some|any|every|no)|"
    r"of|in|on|at|for|with|about|against|from|to|by)\s+"
    r"(?P<words>[a-z][\w-]*(?:\s+[a-z][\w-]*){0,3})"
)
_BETWEEN_WORDS = 4  # between two names that a relation may be made of


class Rules:
    """Names by their capitals, kinds by the words around them, topics by articles and repetition."""

    def __call__(self, text: str) -> tuple[list[Entity], list[Relation]]:
        """Return the entities of ``text`` in order, topics last, and the relations between them."""
        flat = "\n".join(sentences(text[:LETTERS]))
        spans = _named(flat)
        within = regions(flat, spans)
        named = [described(flat, e, within) for e in merged(e for e, *_ in spans)]
        topics = [described(flat, e, within) for e in _topics(flat)]
        return [*named, *topics], distinct(_relations(flat, named, topics))

    def phrases(self, text: str) -> list[Entity]:
        """Return every name and noun phrase of ``text`` in order, articles left out."""
        flat = " ".join(sentences(text[:LETTERS]))
        spans = _named(flat)
        covered = {i for _, start, end in spans for i in range(start, end)}
        phrases = {start: entity for entity, start, _ in spans}
        for words, start in _noun_phrases(flat):
            if not covered & set(range(start, start + len(words))):
                phrases.setdefault(start, Entity("topic", words))
        return [phrases[start] for start in sorted(phrases)]


def _named(text: str) -> list[tuple[Entity, int, int]]:
    names = [(plain(name.text), name) for name in proper_names(text)]
    kinds = {bare: kind_of(bare, text) for bare in {bare for bare, _ in names}}
    return [(Entity(kinds[bare], bare), name.start, name.end) for bare, name in names]


def _noun_phrases(text: str) -> Iterator[tuple[str, int]]:
    """Yield the words after articles and prepositions up to a function word or a likely verb."""
    start = 0
    while match := _PHRASE.search(text, start):
        words: list[str] = []
        for word in match["words"].split():
            if word in FUNCTION_WORDS or (words and re.search(r"(?:ed|ing)$", word)):
                break
            words.append(word)
        if words and (match["article"] or not re.search(r"ing$", words[0])):
            yield " ".join(words), match.start("words")
        start = match.start("words") + (len(" ".join(words)) if words else 0)


def _topics(text: str) -> list[Entity]:
    """Return the noun phrases whose last word ``text`` repeats or, if it is short, its first ones."""
    phrases = [words for words, _ in _noun_phrases(text)]
    stems = Counter(_stem(word) for word in re.findall(r"[a-z][\w-]+", text))
    heads: dict[str, list[str]] = {}
    for phrase in phrases:
        words = phrase.split()
        # "mite feeds": the most repeated word is the head, what stands before it its modifier
        head = max(range(len(words)), key=lambda i: (stems[_stem(words[i])], i))
        heads.setdefault(_stem(words[head]), []).append(" ".join(words[: head + 1]))
    is_short = len(text) <= _SHORT
    ranked = sorted(heads, key=lambda stem: -stems[stem])
    chosen = [s for s in ranked if is_short or stems[s] > 1][:_TOPICS]
    topics = []
    for stem in chosen:
        phrase, n = Counter(heads[stem]).most_common(1)[0]
        is_usual = 2 * n >= stems[stem] and (n > 1 or stems[stem] == 1)
        topics.append(Entity("topic", _singular(phrase if is_usual else phrase.split()[-1])))
    return topics


def _stem(word: str) -> str:
    return re.sub(r"(?:ies|y)$", "i", re.sub(r"(?<=[sxzh])es$|(?<![su])s$", "", word))


def _singular(phrase: str) -> str:
    if phrase.endswith(("series", "species", "news")):
        return phrase
    return re.sub(
        r"ies$", "y", re.sub(r"(?<=[sxz])es$|(?<=[cs]h)es$|(?<![suie])s$|(?<=[^i]e)s$", "", phrase)
    )


def _relations(text: str, named: Sequence[Entity], topics: Sequence[Entity]) -> Iterator[Relation]:
    """Yield what stands between two names of a sentence as their relation.

    A few words in lower case are the relation ("studied", "led_by"), a preposition of place
    is "located_in"; names that share a sentence and nothing else are "related_to" each other.
    """
    for sentence in text.split("\n"):
        found = [(_find(entity, sentence), entity) for entity in (*named, *topics)]
        here = [(match.start(), match.end(), entity) for match, entity in found if match]
        is_related = False
        here.sort(key=lambda at: at[:2])
        here = [x for x in here if not any(y[0] <= x[0] and x[1] <= y[1] and x != y for y in here)]
        for (_, end, one), (start, _, other) in pairwise(here):
            relation = _between(sentence[end:start], other)
            if relation:
                is_related = True
                yield Relation(one, relation, other)
            elif one.attributes.get("region") == other.name:
                yield Relation(one, "located_in", other)
        names = [entity for _, _, entity in here if entity.kind != "topic"]
        if not is_related and len(names) > 1 and "region" not in names[0].attributes:
            yield Relation(names[0], "related_to", names[1])


def _find(entity: Entity, sentence: str) -> re.Match[str] | None:
    is_any_case = re.IGNORECASE if entity.kind == "topic" else 0
    return re.search(rf"(?<!\w){re.escape(entity.name)}(?:e?s)?(?!\w)", sentence, is_any_case)


def _between(text: str, other: Entity) -> str:
    words = [word for word in text.split() if word not in ("the", "a", "an")]
    if (
        not words
        or len(words) > _BETWEEN_WORDS
        or not all(w.isalpha() and w.islower() for w in words)
    ):
        return ""
    if {"and", "or", "but", "nor", "not", "which", "that", "who"} & set(words):
        return ""
    if (
        other.kind == "location"
        and words[-1] in PLACE_PREPOSITIONS
        and (len(words) == 1 or words[-2] in ("is", "are", "was", "were", "lies", "occurs"))
    ):
        return "located_in"
    return "" if len(words) == 1 and words[0] in FUNCTION_WORDS else "_".join(words)
