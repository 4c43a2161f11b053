"""What an instruction asks in a closed vocabulary: the kind of task, the thing, the place.

A linear classifier over words, letters and word order names them, each with calibrated
probabilities; a name that training never saw is taken from the words that the tagger marks.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, get_args

import numpy as np

from stategate.language.instruction.choices import triples
from stategate.language.instruction.parsed import parse
from stategate.language.instruction.tagger import ADOPTED, TAGS
from stategate.language.instruction.weights import Floats, array, hashed, labels, softmax
from stategate.language.sentence_model import sentence_model

TaskKind = Literal["put", "clean", "heat", "cool", "two", "light"]
KINDS: tuple[TaskKind, ...] = get_args(TaskKind)
#: The class of names that training does not know.
OTHER = ""
_JOINTS = frozenset(
    "in on to into onto inside under with by from at and then it them near next of using".split()
)
_ARTICLES = frozenset(("the", "a", "an", "two"))
_KEPT = 5  # candidates of a slot that are kept
_LEAST = 0.01  # probability of the least likely candidate
_LIKELY = 8  # known names that are candidates, whatever the text's words
_TAGGED = 0.25  # probability of a slot from which the text's words are a candidate
_HINT = 0.1  # likeness to a word, by the word's probability of a slot, from which it is a hint
_UNKNOWN = 0.5  # probability that the name is none of training's, from which meanings count
_MEANT = 0.5  # cosine from which words may mean the same
_FLOOR = 1e-4
_EXACT = 5.0  # log odds
_ADOPTED = 0.9  # weight of the kind of task that another reader names, which may be wrong

#: Names with probabilities, the most probable first.
Candidates = tuple[tuple[str, float], ...]


@dataclass(frozen=True, eq=False)
class GoalReading:
    """A parsed goal: probabilities of task kinds and of names, and where the text names them."""

    text: str
    kind: tuple[tuple[TaskKind, float], ...]
    chances: Mapping[str, Mapping[str, float]] = field(repr=False)
    spans: Mapping[str, tuple[int, int]] = field(repr=False)


def sentence_features(words: Sequence[str]) -> list[str]:
    """Return the hashed features of a sentence: words, neighbours, letters, what they stand behind."""
    features: list[str] = []
    behind, count = "^", len(words)
    for i, word in enumerate(words):
        after = words[i + 1] if i + 1 < count else "$"
        features += [f"w{word}", f"b{word} {after}", f"w{word}{after}"]
        if word not in _JOINTS and word not in _ARTICLES:
            side = "e" if count - i <= 3 else "s" if i < 4 else "m"
            features += [f"p{behind} {word}", f"{side}{word}"]
            padded = f"<{word}>"
            for size in (3, 4):
                features += [f"c{padded[j : j + size]}" for j in range(len(padded) - size + 1)]
        if word in _JOINTS:
            behind = word
        if i + 2 < count:
            features.append(f"t{word} {after} {words[i + 2]}")
    return features


def adopt(text: str, tags: Floats, kind: TaskKind | Literal[""] = "") -> None:
    """Take the reading of ``text`` from another reader from now on."""
    ADOPTED[text] = tags, kind
    for cached in (parse, read_goal, _stretches):
        cached.cache_clear()


@lru_cache(maxsize=1024)
def read_goal(text: str) -> GoalReading:
    """Return the reading of ``text``: probabilities of all task kinds and names of training."""
    parsed = parse(text)
    words = [token.word for token in parsed.tokens]
    row = sentence_features(words)
    logits = hashed("goal", [row])[0] / max(len(row), 1) ** 0.5 + array("goal/bias")
    sizes = [len(labels(part)) for part in ("kind", "thing", "place")]
    kind, thing, place = (softmax(part) for part in np.split(logits, np.cumsum(sizes)[:-1]))
    if text in ADOPTED and ADOPTED[text][1]:
        adopted = np.array([float(name == ADOPTED[text][1]) for name in KINDS])
        kind = _ADOPTED * adopted + (1 - _ADOPTED) * kind
    kinds = sorted(zip(KINDS, kind.tolist(), strict=True), key=lambda pair: -pair[1])
    chances = {
        name: dict(zip(labels(name), own.tolist(), strict=True))
        for name, own in (("thing", thing), ("place", place))
    }
    spans = {name: span for name in ("thing", "place") if (span := parsed.span_of(name))}
    telling = _telling_word(words, KINDS.index(kinds[0][0]))
    if telling is not None:
        spans["kind"] = parsed.tokens[telling].start, parsed.tokens[telling].end
    return GoalReading(text, tuple(kinds), chances, spans)


def _telling_word(words: Sequence[str], kind: int) -> int | None:
    """Return the place of the word whose weight speaks most for the kind of task."""
    weights = hashed("goal", [[f"w{word}"] for word in words])[:, : len(KINDS)]
    lead = weights[:, kind] - weights.mean(axis=1) if len(words) else np.zeros(1)
    return int(lead.argmax()) if lead.max() > 0 else None


@lru_cache(maxsize=4096)
def _stretches(text: str, slot: str) -> Mapping[str, float]:
    """Return stretches of up to three words, joined, with how probably they are of ``slot``."""
    parsed = parse(text)
    column = parsed.tags[:, TAGS.index(slot)]
    probabilities: dict[str, float] = {}
    for size in (1, 2, 3):
        for i in range(len(parsed.tokens) - size + 1):
            part = parsed.tokens[i : i + size]
            is_counted = part[0].value is not None  # "two mugs": a count is no part of a name
            if not is_counted and not part[0].is_small and not part[-1].is_small:
                name = "".join(token.word for token in part)
                probabilities[name] = max(
                    probabilities.get(name, 0.0), float(column[i : i + size].mean())
                )
    return probabilities


def name_features(reading: GoalReading, slot: str, name: str) -> tuple[float, ...]:
    """Return the features of a candidate name: classifier score, letter matches, tags."""
    trained, stretches = reading.chances[slot], _stretches(reading.text, slot)
    # Where training does not know the name, or not the sentence's, all that is known is the words.
    is_new = trained.get(OTHER, 0.0) >= _UNKNOWN if name in trained else name not in stretches
    same = most_same = alike = most_alike = 0.0
    for stretch, chance in stretches.items():
        likeness = letters_alike(stretch, name)
        if is_new and chance >= _TAGGED:
            cosine = float(_vector(stretch) @ _vector(name))
            likeness = max(likeness, min(0.99, cosine) if cosine >= _MEANT else 0.0)
        if likeness == 1.0 or _is_form_of(stretch, name):
            same, most_same, likeness = 1.0, max(most_same, chance), 1.0
        alike, most_alike = max(alike, likeness), max(most_alike, likeness * chance)
    if name in trained:
        known = math.log(trained[name] + _FLOOR), 0.0, 0.0
    else:
        known = 0.0, 1.0, math.log(trained.get(OTHER, 0.0) + _FLOOR)
    return (*known, same, most_same, alike, most_alike)


def rank_names(
    reading: GoalReading, slot: str, names: Collection[str] = (), is_closed: bool = False
) -> Candidates:
    """Return the names that a slot may mean with probabilities, the likeliest first.

    They are ``names`` that the room shows; those that training knows and the text's own words with
    them, unless ``is_closed``.
    """
    own = set() if is_closed else own_names(reading, slot)
    own = {word for word in own if not any(_is_form_of(word, name) for name in names)}
    every = sorted({*names, *own} - {OTHER})
    if not every:
        return (("", 0.0),)
    rows = np.array([name_features(reading, slot, name) for name in every], dtype=np.float32)
    # Of a name that training never saw letters are all that is known: one that the room shows and the
    # sentence says letter by letter is meant.
    stretches = _stretches(reading.text, slot).keys() - reading.chances[slot].keys()
    exact = np.array([name in names and name in stretches for name in every], dtype=np.float32)
    chances = softmax(rows @ array(f"name/{slot}") + _EXACT * exact)
    order = np.argsort(-chances)[:_KEPT]
    return tuple(
        (every[i], float(chances[i])) for i in order if chances[i] >= _LEAST or i == order[0]
    )


def is_hinted(reading: GoalReading, slot: str, name: str) -> bool:
    """Say whether training, or the letters or meaning of a tagged word, link the text to a name."""
    chance, alike = reading.chances[slot].get(name, 0.0), name_features(reading, slot, name)[-1]
    return chance >= _LEAST or alike >= _HINT


def own_names(reading: GoalReading, slot: str) -> set[str]:
    """Return the likeliest known names, and the text's own words that are tagged as ``slot``."""
    trained = reading.chances[slot]
    likely = sorted(trained, key=lambda name: -trained[name])[:_LIKELY]
    stretches = _stretches(reading.text, slot)
    tagged = (stretch for stretch, chance in stretches.items() if chance >= _TAGGED)
    return {*likely, *tagged, *(stretches.keys() & trained.keys())}


def _is_form_of(word: str, name: str) -> bool:
    """Say whether a word is a name or its plural."""
    return word in (name, f"{name}s", f"{name}es")


@lru_cache(maxsize=4096)
def _vector(word: str) -> Floats:
    return np.asarray(sentence_model().encode([word])[0])


@lru_cache(maxsize=65536)
def letters_alike(one: str, other: str) -> float:
    """Return the share (0 to 1) of letter triples that two names have in common (Dice)."""
    if one == other:
        return 1.0
    ours, theirs = triples(one), triples(other)
    return min(0.99, 2 * len(ours & theirs) / (len(ours) + len(theirs)))
