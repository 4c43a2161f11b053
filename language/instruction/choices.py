"""Which of exclusive values an instruction asks for, excludes or leaves open, with probabilities."""

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from stategate.language.amounts import Token, content, same, tokens
from stategate.language.instruction.parsed import ROLES, ParsedInstruction, parse
from stategate.language.instruction.weights import Floats, array, labels, likeness, softmax

_FUZZY, _FUZZY_LONG = 4, 8  # letters of a word that may hold one slip, or two
_REACH = 4  # words that a name reaches
_SAME = 0.8  # cosine of meanings from which two spellings are one word
_ENOUGH = 0.6  # quality from which a word counts as found
_JOINTS = ("", "-", ".", "#", "_")  # what stands within a name


@dataclass(frozen=True)
class Span:
    """Where an instruction holds (part of) a text: ``quality`` of each of its tokens, the places."""

    quality: tuple[float, ...]
    places: tuple[int, ...]

    @property
    def is_whole(self) -> bool:
        """Whether every token was found."""
        return bool(self.quality) and min(self.quality) >= _ENOUGH


@lru_cache(maxsize=65536)
def token_matches(parsed: ParsedInstruction, key: Token) -> tuple[tuple[int, float], ...]:
    """Return (place, quality) of each token that matches ``key``, up to spelling mistakes."""
    if key.value is not None:
        numbers = ((i, token) for i, token in enumerate(parsed.tokens) if token.value is not None)
        scored = ((i, same(key, token)) for i, token in numbers)
        return tuple((i, quality) for i, quality in scored if quality > 0)
    exact = parsed.places.get(key.key)
    if exact:
        return tuple((i, 1.0) for i in exact)
    if len(key.word) < _FUZZY or not key.word.isalpha():
        return ()
    from rapidfuzz.distance import OSA

    slips = 1 + (len(key.word) >= _FUZZY_LONG)
    matches: list[tuple[int, float]] = []
    for i, token in enumerate(parsed.tokens):
        if token.value is None and len(token.word) >= _FUZZY and not token.is_small:
            distance = OSA.distance(key.word, token.word, score_cutoff=slips)
            if distance <= slips and (token.word[0] == key.word[0] or distance == 1):
                # "gray" means the same as "grey": it is the same word, spelled otherwise.
                is_same = likeness(key.key, token.key) >= _SAME
                matches.append((i, 1.0 if is_same else 1.0 - 0.15 * distance))
    return tuple(matches)


@lru_cache(maxsize=65536)
def covered(parsed: ParsedInstruction, text: str) -> tuple[float, ...]:
    """Return the coverage (0 to 1) of each token of the instruction by ``text``."""
    cover = [0.0] * len(parsed.tokens)
    for token in content(text):
        for i, quality in token_matches(parsed, token):
            cover[i] = max(cover[i], quality)
    return tuple(cover)


@lru_cache(maxsize=65536)
def locate(parsed: ParsedInstruction, text: str, name: str = "") -> Span:
    """Return the span of the instruction that matches most words of ``text``.

    Of several one beside ``name`` counts first, then the tightest, then the one most likely a value.
    """
    names = [i for token in content(name) for i in parsed.places.get(token.key, ())]
    chances = parsed.roles[:, ROLES.index("value")]
    words = content(text) or tokens(text)
    matches = [token_matches(parsed, token) for token in words]
    anchors = sorted({i for places in matches for i, _ in places})
    reach = len(words) + 2

    def span_from(anchor: int) -> Span:
        quality, places = [0.0] * len(words), list[int]()
        for at, candidates in enumerate(matches):
            close = [(q, anchor - i, i) for i, q in candidates if anchor <= i <= anchor + reach]
            if close:
                quality[at], _, place = max(close)
                places.append(place)
        return Span(tuple(quality), tuple(dict.fromkeys(places)))

    def rank(span: Span) -> tuple[float, ...]:
        places = span.places
        limited = sum(i in parsed.in_limit for i in places)
        name_distance = min((abs(i - j) for i in places for j in names if i != j), default=_REACH)
        ruled = max(float(parsed.excluded[i]) for i in places)
        spread = max(places) - min(places)
        sure = float(sum(chances[i] for i in places))
        return sum(span.quality) - limited, -min(name_distance, _REACH), -ruled, -spread, sure

    return max(map(span_from, anchors), key=rank, default=Span((0.0,) * len(words), ()))


class _Compared:
    """Exclusive values beside an instruction, each with what the others say of the same words."""

    def __init__(
        self, parsed: ParsedInstruction, name: str, values: Sequence[str], title: frozenset[str]
    ) -> None:
        self.parsed, self.values, self.title, n = parsed, values, title, len(values)
        self.explained = title  # what is no open question beside a value
        self.spans = [locate(parsed, value, name) for value in values]
        self.value_tokens = [content(value) or tokens(value) for value in values]
        holders = Counter(key for keys in self.value_tokens for key in {t.key for t in keys})
        self.weigh = {k: math.log((n + 1) / (count + 0.5)) + 0.1 for k, count in holders.items()}
        self.name_keys = {token.key for token in content(name)}
        self.name_at = [i for key in self.name_keys for i in parsed.places.get(key, ())]
        self.cover = [self._coverage(i) for i in range(n)]
        self.whole_sets = [frozenset(s.places) if s.is_whole else frozenset() for s in self.spans]
        self.strength = [
            c * (1 + 0.3 * len(s.places)) for c, s in zip(self.cover, self.spans, strict=True)
        ]
        self.excluded = [
            float(parsed.excluded[list(s.places)].mean()) if s.places else 0.0 for s in self.spans
        ]
        self.first_end = min((max(whole) for whole in self.whole_sets if whole), default=0)
        self.last_start = max((min(whole) for whole in self.whole_sets if whole), default=0)
        self.meant = self._meant()
        self.roles = [_roles(parsed, span) for span in self.spans]

    def _coverage(self, i: int) -> float:
        """Return the share of the words of the ``i``-th value that the instruction says."""
        weights = [self.weigh[token.key] for token in self.value_tokens[i]]
        matched = sum(w * q for w, q in zip(weights, self.spans[i].quality, strict=True))
        return matched / sum(weights) if weights else 0.0

    def _meant(self) -> list[float]:
        """Return how far (0 to 1) the instruction says or means the words of each value."""
        covered_places = frozenset().union(*self.whole_sets)
        open_ = {
            token.key
            for i, token in enumerate(self.parsed.tokens)
            if not (self.parsed.silent[i] or token.value is not None or i in covered_places)
            and token.key not in self.title
        }
        scores = []
        for keys, span in zip(self.value_tokens, self.spans, strict=True):
            parts = [
                quality
                if quality >= _ENOUGH or key.value is not None
                else max((likeness(key.key, other) for other in open_), default=0.0)
                for key, quality in zip(keys, span.quality, strict=True)
            ]
            scores.append(sum(parts) / len(parts) if parts else 0.0)
        return scores

    def row(self, i: int, claimed: frozenset[int]) -> dict[str, float]:
        """Return the features of the ``i``-th value.

        ``claimed`` are the instruction's tokens that a value of another choice matches better.
        """
        parsed, span, keys, n = self.parsed, self.spans[i], self.value_tokens[i], len(self.values)
        places, strength, whole = frozenset(span.places), self.strength, span.is_whole
        matched, count = [parsed.tokens[p] for p in places], max(len(places), 1)
        missing = [key for key, q in zip(keys, span.quality, strict=True) if q < _ENOUGH]
        distance = min((abs(p - q) for p in places for q in self.name_at), default=99)
        others = [self.excluded[j] for j in range(n) if j != i]
        gap, adjacent = gap_sizes(parsed, places, self.explained, self.name_keys)
        matched_weights = [
            self.weigh[k.key] for k, q in zip(keys, span.quality, strict=True) if q >= _ENOUGH
        ]
        return {
            "coverage": self.cover[i],
            "plain coverage": sum(span.quality) / len(span.quality) if span.quality else 0.0,
            "all found": whole,
            "verbatim": whole and all(b - a == 1 for a, b in itertools.pairwise(span.places)),
            "words found": min(len(keys) - len(missing), 4) / 4,
            "words missing": min(len(missing), 4) / 4,
            "numbers missing": min(sum(key.value is not None for key in missing), 3) / 3,
            "told apart": max(matched_weights, default=0.0) / 4,
            "swallowed": bool(places) and any(places < other for other in self.whole_sets),
            "margin": max(-1.0, min(1.0, _lead(strength, i))),
            "best": strength[i] >= max(strength) and max(strength) > 0,
            "ties": min(strength.count(strength[i]) - 1, 4) / 4 if places else 0.0,
            "in title": sum(token.key in self.title for token in matched) / count,
            "taken by others": len(places & claimed) / count,
            "name near": 1 / (1 + distance) if distance <= _REACH else 0.0,
            "name said": bool(self.name_at),
            "excluded": self.excluded[i],
            "in limit": len(places & parsed.in_limit) / count,
            "many": math.log(n) / 4,
            "matters": max((parsed.matters[p] for p in places), default=0.0),
            "letters alike": max(_alike(parsed, self.values[i]), whole and min(span.quality)),
            "said twice": any(len(parsed.places[token.key]) > 1 for token in matched),
            "has number": any(key.value is not None for key in keys),
            "slips": 1 - max(span.quality, default=1.0) if places else 0.0,
            "last of two": n == 2 and i == 1,
            "other excluded": n == 2 and max(others),
            "others excluded": max(others, default=0.0),
            "nothing found": not places,
            "gap": gap,
            "beside": adjacent,
            "said before": whole and self.first_end < min(places),
            "said after": whole and max(places) < self.last_start,
            "meant": self.meant[i],
            "meant most": _lead(self.meant, i),
            "of a value": self.roles[i]["value"],
            "of the thing": self.roles[i]["thing"],
            "of a property": self.roles[i]["property"],
            "of a value most": _lead([role["value"] for role in self.roles], i),
            "glued": _is_glued(parsed, places),
        }

    def none(self, rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
        """Return the features of asking for none of the values, from their ``rows``."""
        maxima = {name: max(row[name] for row in rows) for name in rows[0]}
        return {
            "best coverage": maxima["coverage"],
            "any whole": maxima["all found"],
            "name said": bool(self.name_at),
            "many": math.log(len(self.values)) / 4,
            "best letters": maxima["letters alike"],
            "best matters": maxima["matters"],
            "any number": maxima["has number"],
            "one": len(self.values) == 1,
            "meant": maxima["meant"],
            "of a value": maxima["of a value"],
        }


def _lead(scores: Sequence[float], i: int) -> float:
    """Return the margin of the ``i``-th score over the best other one."""
    best, second, *_ = (*sorted(scores, reverse=True), 0.0)
    return scores[i] - (second if scores[i] >= best else best)


def _roles(parsed: ParsedInstruction, span: Span) -> dict[str, float]:
    """Return the mean role probabilities of the words of ``span``, zeros where it is not whole."""
    if not span.is_whole:
        return dict.fromkeys(ROLES, 0.0)
    chances = parsed.roles[list(span.places)].mean(axis=0)
    return dict(zip(ROLES, chances.tolist(), strict=True))


def _is_glued(parsed: ParsedInstruction, places: frozenset[int]) -> bool:
    """Say whether a stretch is part of a longer name: "black" of "a4-black", "men" of "men's"."""
    return any(
        0 <= q < len(parsed.tokens) and parsed.between(p, q) in _JOINTS
        for p in places
        for q in (p - 1, p + 1)
        if q not in places
    )


def gap_sizes(
    parsed: ParsedInstruction, places: frozenset[int], title: frozenset[str], names: set[str]
) -> tuple[float, float]:
    """Return the numbers of unmatched words inside a span and right beside it.

    "army" in "army green" beside a "green": what is asked is another one.
    """
    if not places:
        return 0.0, 0.0
    first, last = min(places), max(places)

    def is_open(i: int) -> bool:
        return not (parsed.silent[i] or i in places or parsed.tokens[i].key in names)

    gap = sum(is_open(i) for i in range(first, last))
    adjacent = 0
    for i, edge in ((first - 1, first), (last + 1, last)):
        if 0 <= i < len(parsed.tokens) and parsed.clause[i] == parsed.clause[edge]:
            is_named = parsed.tokens[i].key in title or "," in parsed.between(i, edge)
            adjacent += is_open(i) and not is_named
    return min(gap, 3) / 3, adjacent / 2


@lru_cache(maxsize=65536)
def triples(text: str) -> frozenset[str]:
    """Return the runs of three letters of ``text``, with blanks round it."""
    padded = f"  {text.lower()} "
    return frozenset(padded[i : i + 3] for i in range(len(padded) - 2))


def _alike(parsed: ParsedInstruction, value: str) -> float:
    """Return the share of a value's letter triples that the instruction's own text has."""
    ours = triples(value)
    return len(ours & triples(parsed.text)) / len(ours) if ours else 0.0


@dataclass(frozen=True)
class ChoiceScores:
    """For each value of one choice P(requested) and P(excluded), and P(none is requested).

    They are calibrated: of the values with ``requested`` 0.8 some eight in ten are.
    """

    name: str
    values: tuple[str, ...]
    requested: tuple[float, ...]
    excluded: tuple[float, ...]
    none: float
    spans: tuple[Span, ...] = ()

    @property
    def best(self) -> int:
        """The place of the value that is asked most likely."""
        return max(range(len(self.requested)), key=lambda i: self.requested[i])


@lru_cache(maxsize=8192)
def score_choices(
    text: str, choices: tuple[tuple[str, tuple[str, ...]], ...], title: str = ""
) -> tuple[ChoiceScores, ...]:
    """Return the scores of each choice (name, values) of a page, given the instruction ``text``.

    ``title`` is what the page says of the thing itself: a word that stands there may be meant of it.
    """
    parsed = parse(text)
    keys = frozenset(token.key for token in content(title))
    every = [_Compared(parsed, name, values, keys) for name, values in choices]
    # The words of the value that the instruction says with most of them.
    whole = [max(compared.whole_sets, key=len, default=frozenset()) for compared in every]
    scores = []
    for (name, values), compared, mine in zip(choices, every, whole, strict=True):
        others = [other for other in whole if other is not mine]
        # The words that another choice says better.
        claimed = frozenset(p for other in others if len(other) > len(mine) for p in other)
        compared.explained |= {parsed.tokens[p].key for other in others for p in other}
        rows = [compared.row(i, claimed) for i in range(len(values))]
        if not rows:
            scores.append(ChoiceScores(name, values, (), (), 1.0))
            continue
        out, of_none = layered("value", rows), columns("none", [compared.none(rows)])[0]
        last = of_none @ array("none/w1")[:, 0] + array("none/b1")[0]
        chances = softmax(np.append(out[:, 0], last))
        excluded = (1 - chances[:-1]) * sigmoid(out[:, 1])
        requested, none = tuple(chances[:-1].tolist()), float(chances[-1])
        spans = tuple(compared.spans)
        scores.append(ChoiceScores(name, values, requested, tuple(excluded.tolist()), none, spans))
    return tuple(scores)


def columns(part: str, rows: Sequence[Mapping[str, float]]) -> Floats:
    """Return (rows, columns) of named features, in the order in which the checkpoint names them."""
    names = labels(part)
    table = np.array([[row[name] for name in names] for row in rows], dtype=np.float32)
    return table.reshape(len(rows), len(names))


def layered(part: str, rows: Sequence[Mapping[str, float]]) -> Floats:
    """Return (rows, out) of the network ``part``, of one hidden layer."""
    hidden = np.tanh(columns(part, rows) @ array(f"{part}/w1") + array(f"{part}/b1"))
    return np.asarray(hidden @ array(f"{part}/w2") + array(f"{part}/b2"))


def sigmoid(logits: Floats) -> Floats:
    """Return probabilities of single events."""
    return np.asarray(1 / (1 + np.exp(-logits)))
