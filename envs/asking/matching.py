"""What an instruction asks meets what is offered: learned, calibrated probabilities.

Two small networks with general features only (no word is a feature). One says of each word of the
instruction how much it *matters*; the other of each of several exclusive values whether it is asked for,
excluded or left open. Both were trained on many wordings (``stategate train aligner``); their weights
are a few hundred numbers and run without torch.
"""

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from envs.asking.request import Request, read_request
from envs.asking.text import Token, content, english, same, tokens
from stores.tokens import encoding

Floats = NDArray[np.float32]
CHECKPOINT = "aligner"
_FUZZY, _FUZZY_LONG = 4, 8  # letters of a word that may hold one slip, or two
_REACH = 4  # words that a negation or a name reaches
_NAMED = re.compile(r"[:=]|\s-\s")
_ENOUGH = 0.6  # quality from which a word counts as found

WORD = (
    "small word", "rarity", "pieces", "letters", "is number", "has unit", "in limit", "negated",
    "sentence asks", "sentence has limit", "near asking", "sentences", "asks before", "mark before",
    "mark after", "small before", "small after", "twice", "sentence place", "small share", "long sentence",
    "first half", "after in", "after with", "after for", "after of", "after colon", "after a number",
    "asks", "money",
)  # fmt: skip
#: What a word of an instruction is: of the thing itself, a property of it, a value to choose, or talk.
ROLES = ("thing", "property", "value", "talk")
_AROUND = 2  # words on either side that are seen with a word
VALUE = (
    "coverage", "plain coverage", "all found", "verbatim", "words found", "words missing",
    "numbers missing", "told apart", "swallowed", "margin", "best", "ties", "in title", "taken by others",
    "name near", "name said", "negated before", "negated earlier", "negated after", "in limit", "many",
    "matters", "letters alike", "said twice", "has number", "rarity", "slips", "last of two", "other excluded",
    "nothing found", "gap", "beside",
)  # fmt: skip
NONE = (
    "best coverage",
    "any whole",
    "name said",
    "many",
    "best letters",
    "best matters",
    "any number",
    "one",
)


# Words ---------------------------------------------------------------------------------------------


@lru_cache(maxsize=65536)
def rarity(word: str) -> tuple[float, float]:
    """Return how rare a word is (0 to 1) and how many pieces it has, by a byte-pair vocabulary.

    A vocabulary's merges are in order of frequency, so a piece's rank tells it without any corpus.
    """
    pieces = encoding().encode_ordinary(" " + word)
    rank = max(pieces) if len(pieces) == 1 else 100_000
    return math.log1p(rank) / math.log(100_001), min(len(pieces), 4) / 4


def word_features(request: Request) -> Floats:
    """Return (tokens, len(WORD)) of an instruction."""
    found = request.tokens
    n = len(found)
    rows = np.zeros((n, len(WORD)), dtype=np.float32)
    if not n:
        return rows
    asks = english()["asks"]
    sentences = sorted(set(request.sentence))
    asking = {request.sentence[i] for i, t in enumerate(found) if t.word in asks}
    limited = {request.sentence[i] for i in request.in_limit}
    size = {s: sum(x == s for x in request.sentence) for s in sentences}
    small = {
        s: sum(t.is_small for i, t in enumerate(found) if request.sentence[i] == s) / size[s]
        for s in sentences
    }
    seen_ask = False
    for i, token in enumerate(found):
        s = request.sentence[i]
        seen_ask = seen_ask or token.word in asks
        distance = min((abs(s - other) for other in asking | limited), default=3)
        before = found[i - 1] if i and request.clause[i - 1] == request.clause[i] else None
        after = found[i + 1] if i + 1 < n and request.clause[i + 1] == request.clause[i] else None
        rare, pieces = rarity(token.word)
        rows[i] = (
            token.is_small, rare, pieces, min(len(token.word), 12) / 12, token.value is not None,
            bool(token.unit), i in request.in_limit, _negated(request, i, i)[0],
            s in asking, s in limited, 1 / (1 + distance), min(len(sentences), 6) / 6, seen_ask,
            before is None, after is None, before is not None and before.is_small,
            after is not None and after.is_small, len(request.places[token.key]) > 1,
            sentences.index(s) / len(sentences), small[s], min(size[s], 30) / 30, i < n / 2,
            *(i > 0 and found[i - 1].word == word for word in ("in", "with", "for", "of")),
            i > 0 and bool(_NAMED.search(request.text[found[i - 1].end : token.start])),
            i > 0 and found[i - 1].value is not None, token.word in asks, token.word in english()["money"],
        )  # fmt: skip
    return rows


def around(rows: Floats) -> Floats:
    """Return each word's features beside those of the words around it: (n, 5 len(WORD))."""
    padded = np.pad(rows, ((_AROUND, _AROUND), (0, 0)))
    return np.concatenate([padded[i : i + len(rows)] for i in range(2 * _AROUND + 1)], axis=1)


@lru_cache(maxsize=4096)
def word_roles(request: Request) -> Floats:
    """Return (tokens, len(ROLES)): how probable it is that a word says what kind of thing is asked."""
    net = network("word")
    if not request.tokens:
        return np.zeros((0, len(ROLES)), dtype=np.float32)
    hidden = np.tanh(around(word_features(request)) @ net["w1"] + net["b1"])
    logits = hidden @ net["w2"] + net["b2"]
    chances = np.exp(logits - logits.max(axis=1, keepdims=True))
    chances /= chances.sum(axis=1, keepdims=True)
    for i, token in enumerate(request.tokens):
        if token.is_small or i in request.in_limit:
            chances[i] = (0.0, 0.0, 0.0, 1.0)
    return np.asarray(chances, dtype=np.float32)


@lru_cache(maxsize=4096)
def matters(request: Request) -> tuple[float, ...]:
    """Return how much (0 to 1) each token of an instruction belongs to what is asked."""
    return tuple((1 - word_roles(request)[:, -1]).tolist())


def _negated(request: Request, first: int, last: int) -> tuple[float, float, float]:
    """Return how far a negation is of a stretch: before it (same clause), before (any), and behind.

    Nothing but small words may stand between: in "not red and blue" red is negated. Behind a stretch a
    negation counts in full after a verb ("red is no good"), else it most likely is of what follows.
    """
    inside = earlier = after = 0.0
    for place in request.negators:
        if place < first and first - place <= _REACH + 1:
            if all(_is_light(token) for token in request.tokens[place + 1 : first]):
                if request.clause[place] == request.clause[first]:
                    inside = 1.0
                else:
                    earlier = 1.0
        elif last < place <= last + _REACH and request.clause[place] == request.clause[last]:
            between = request.tokens[last + 1 : place]
            if all(_is_light(token) for token in between):
                after = max(
                    after, 1.0 if any(t.word in english()["verbs"] for t in between) else 0.3
                )
    return inside, earlier, after


def _is_light(token: Token) -> bool:
    return token.is_small or token.word in english()["asks"]


# Values --------------------------------------------------------------------------------------------


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
def found_at(request: Request, key: Token) -> tuple[tuple[int, float], ...]:
    """Return (place, quality) of every token of the instruction that is ``key``, slips forgiven."""
    if key.value is not None:
        near = ((i, same(key, request.tokens[i])) for i in request.numbers)
        return tuple((i, quality) for i, quality in near if quality > 0)
    exact = request.places.get(key.key)
    if exact:
        return tuple((i, 1.0) for i in exact)
    if len(key.word) < _FUZZY or not key.word.isalpha():
        return ()
    from rapidfuzz.distance import OSA

    slips = 1 + (len(key.word) >= _FUZZY_LONG)
    found: list[tuple[int, float]] = []
    for i, token in enumerate(request.tokens):
        if token.value is None and len(token.word) >= _FUZZY and not token.is_small:
            distance = OSA.distance(key.word, token.word, score_cutoff=slips)
            if distance <= slips and (token.word[0] == key.word[0] or distance == 1):
                found.append((i, 1.0 - 0.15 * distance))
    return tuple(found)


@lru_cache(maxsize=65536)
def covered(request: Request, text: str) -> tuple[float, ...]:
    """Return how far (0 to 1) ``text`` says each token of the instruction."""
    cover = [0.0] * len(request.tokens)
    for token in content(text):
        for i, quality in found_at(request, token):
            cover[i] = max(cover[i], quality)
    return tuple(cover)


@lru_cache(maxsize=65536)
def locate(request: Request, text: str, name: str = "") -> Span:
    """Return where the instruction says ``text``: the stretch that holds most of its words.

    Of several a stretch beside ``name`` counts first, then one whose words most likely are values.
    """
    names = [i for token in content(name) for i in request.places.get(token.key, ())]
    chances = word_roles(request)[:, ROLES.index("value")]
    wanted = content(text) or tokens(text)
    where = [found_at(request, token) for token in wanted]
    anchors = sorted({i for places in where for i, _ in places})
    if not anchors:
        return Span((0.0,) * len(wanted), ())
    reach = len(wanted) + 2
    best: tuple[tuple[float, ...], Span] | None = None  # by rank
    for anchor in anchors:
        quality, places = [], []
        for options in where:
            near = [(q, -abs(i - anchor), i) for i, q in options if anchor <= i <= anchor + reach]
            if near:
                top = max(near)
                quality.append(top[0])
                places.append(top[2])
            else:
                quality.append(0.0)
        span = Span(tuple(quality), tuple(dict.fromkeys(places)))
        limited = sum(i in request.in_limit for i in span.places)
        negated = _negated(request, min(span.places), max(span.places))[0] if span.places else 0.0
        near = min((abs(i - j) for i in span.places for j in names if i != j), default=_REACH)
        sure = float(sum(chances[i] for i in span.places))
        spread = max(span.places) - min(span.places) if span.places else 0
        rank = (sum(quality) - limited, -min(near, _REACH), -negated, sure, -spread)
        if best is None or rank > best[0]:
            best = rank, span
    return best[1] if best is not None else Span((0.0,) * len(wanted), ())


def value_features(
    request: Request, name: str, values: Sequence[str], title: frozenset[str] = frozenset(),
    taken: frozenset[int] = frozenset(),
) -> tuple[Floats, Floats]:  # fmt: skip
    """Return (n, len(VALUE)) of exclusive values, and (len(NONE),) of asking for none of them.

    ``title`` are keys of words that the page says elsewhere, ``taken`` the instruction's tokens that a
    value of another choice says better.
    """
    n = len(values)
    rows = np.zeros((n, len(VALUE)), dtype=np.float32)
    if not n:
        return rows, np.zeros(len(NONE), dtype=np.float32)
    spans = [locate(request, value, name) for value in values]
    wanted = [content(value) or tokens(value) for value in values]
    holders: dict[str, int] = {}
    for keys in wanted:
        for key in {t.key for t in keys}:
            holders[key] = holders.get(key, 0) + 1
    weigh = {key: math.log((n + 1) / (count + 0.5)) + 0.1 for key, count in holders.items()}
    care = matters(request)
    name_keys = {token.key for token in content(name)}
    name_at = [i for key in name_keys for i in request.places.get(key, ())]
    cover = [_coverage(keys, span, weigh) for keys, span in zip(wanted, spans, strict=True)]
    whole_sets = [frozenset(s.places) if s.is_whole else frozenset() for s in spans]
    strength = [c * (1 + 0.3 * len(s.places)) for c, s in zip(cover, spans, strict=True)]
    negations = [
        _negated(request, min(s.places), max(s.places)) if s.places else (0.0, 0.0, 0.0)
        for s in spans
    ]
    top, runner = _two_best(strength)
    for i, (keys, span) in enumerate(zip(wanted, spans, strict=True)):
        places = frozenset(span.places)
        found = sum(q >= _ENOUGH for q in span.quality)
        swallowed = bool(places) and any(places < other for other in whole_sets)
        near = min((abs(p - q) for p in places for q in name_at), default=99)
        others = [sum(negations[j]) for j in range(n) if j != i and spans[j].places]
        rows[i] = (
            cover[i],
            sum(span.quality) / len(span.quality) if span.quality else 0.0,
            span.is_whole,
            span.is_whole and _is_run(span.places),
            min(found, 4) / 4,
            min(len(keys) - found, 4) / 4,
            min(sum(t.value is not None and q < _ENOUGH for t, q in zip(keys, span.quality, strict=True)), 3) / 3,
            max((weigh[t.key] for t, q in zip(keys, span.quality, strict=True) if q >= _ENOUGH), default=0.0) / 4,
            swallowed,
            max(-1.0, min(1.0, strength[i] - (runner if strength[i] >= top else top))),
            strength[i] >= top and top > 0,
            min(sum(s == strength[i] for s in strength) - 1, 4) / 4 if places else 0.0,
            sum(request.tokens[p].key in title for p in places) / max(len(places), 1),
            sum(p in taken for p in places) / max(len(places), 1),
            1 / (1 + near) if near <= _REACH else 0.0,
            bool(name_at),
            *negations[i],
            sum(p in request.in_limit for p in places) / max(len(places), 1),
            math.log(n) / 4,
            max((care[p] for p in places), default=0.0),
            _alike(request, values[i], span),
            any(len(request.places[request.tokens[p].key]) > 1 for p in places),
            any(t.value is not None for t in keys),
            max((rarity(request.tokens[p].word)[0] for p in places), default=0.0),
            1 - max((q for q in span.quality), default=1.0) if places else 0.0,
            n == 2 and i == 1,
            n == 2 and bool(others) and max(others) >= 1,
            not places,
            *_left_over(request, places, title, name_keys),
        )  # fmt: skip
    column = dict(zip(VALUE, rows.T, strict=True))
    none = np.array(
        [
            column["coverage"].max(), column["all found"].max(), bool(name_at), math.log(n) / 4,
            column["letters alike"].max(), column["matters"].max(), column["has number"].max(), n == 1,
        ],
        dtype=np.float32,
    )  # fmt: skip
    return rows, none


def _left_over(
    request: Request, places: frozenset[int], title: frozenset[str], names: set[str]
) -> tuple[float, float]:
    """Return how many words stand within a stretch, and right beside it, that it does not say.

    "army" in "army green" beside a "green": what is asked is another one.
    """
    if not places:
        return 0.0, 0.0
    first, last = min(places), max(places)

    def is_open(i: int) -> bool:
        token = request.tokens[i]
        return not (token.is_small or i in places or i in request.in_limit or token.key in names)

    gap = sum(is_open(i) for i in range(first, last))
    beside = 0
    for i, step in ((first - 1, -1), (last + 1, 1)):
        edge = first if step < 0 else last
        if 0 <= i < len(request.tokens) and request.sentence[i] == request.sentence[edge]:
            between = request.text[
                min(request.tokens[i].end, request.tokens[edge].end) : max(
                    request.tokens[i].start, request.tokens[edge].start
                )
            ]
            token = request.tokens[i]
            beside += is_open(i) and token.key not in title and "," not in between
    return min(gap, 3) / 3, beside / 2


def _coverage(keys: Sequence[Token], span: Span, weigh: Mapping[str, float]) -> float:
    total = sum(weigh[t.key] for t in keys)
    found = sum(weigh[t.key] * q for t, q in zip(keys, span.quality, strict=True))
    return found / total if total else 0.0


def _two_best(values: Sequence[float]) -> tuple[float, float]:
    ordered = sorted(values, reverse=True)
    return ordered[0], ordered[1] if len(ordered) > 1 else 0.0


def _is_run(places: Sequence[int]) -> bool:
    return all(b - a == 1 for a, b in itertools.pairwise(places))


@lru_cache(maxsize=65536)
def _triples(text: str) -> frozenset[str]:
    padded = f"  {text.lower()} "
    return frozenset(padded[i : i + 3] for i in range(len(padded) - 2))


def _alike(request: Request, value: str, span: Span) -> float:
    """Return the share of a value's letter triples that the instruction's own text has."""
    ours = _triples(value)
    return len(ours & _triples(request.text)) / len(ours) if ours else 0.0


@dataclass(frozen=True)
class Asked:
    """Of the values of one choice: probabilities of being asked and excluded; ``none`` is asked of all.

    They are calibrated: of the values with ``asked`` 0.8 some eight in ten are.
    """

    name: str
    values: tuple[str, ...]
    asked: tuple[float, ...]
    excluded: tuple[float, ...]
    none: float
    spans: tuple[Span, ...] = ()

    @property
    def best(self) -> int:
        """The place of the value that is asked most likely."""
        return max(range(len(self.asked)), key=lambda i: self.asked[i])


@lru_cache(maxsize=8192)
def ask_choices(
    text: str, choices: tuple[tuple[str, tuple[str, ...]], ...], title: str = ""
) -> tuple[Asked, ...]:
    """Return for each choice (name, values) of a page what the instruction ``text`` asks of it.

    ``title`` is what the page says of the thing itself: a word that stands there may be meant of it.
    """
    request = read_request(text)
    keys = frozenset(token.key for token in content(title))
    whole = [
        max(
            (s.places for v in values if (s := locate(request, v, name)).is_whole),
            key=len,
            default=(),
        )
        for name, values in choices
    ]
    found = []
    for i, (name, values) in enumerate(choices):
        mine = len(whole[i])
        taken = frozenset(
            p for j, places in enumerate(whole) if j != i and len(places) > mine for p in places
        )
        rows, none = value_features(request, name, values, keys, taken)
        asked, excluded, rest = judge(rows, none)
        spans = tuple(locate(request, value, name) for value in values)
        found.append(Asked(name, values, tuple(asked), tuple(excluded), rest, spans))
    return tuple(found)


# What a page is about ------------------------------------------------------------------------------

SUBJECT = (
    "values missing", "sure values missing", "worst missing", "value words", "choices", "open",
    "open share", "least asked", "title says it", "title says the thing", "title says properties",
    "least phrase", "excluded", "alike only", "gaps", "beside",
)  # fmt: skip
_VALUED = 0.4  # probability from which a word is one of a value


def missing_values(request: Request, choices: Sequence[Asked], title: str) -> Floats:
    """Return for each token how surely it is of a value that a page does not offer (0 to 1).

    ``choices`` are the page's, ``title`` says what it is about.
    """
    chances = word_roles(request)[:, ROLES.index("value")]
    said = np.asarray(covered(request, title), dtype=np.float32)
    for places in request.places.values():
        # A word that is said of the thing and as a value is not offered because the title has it.
        for i in sorted(places, key=lambda i: chances[i])[1:]:
            said[i] = 0.0
    for asked in choices:
        said = np.maximum(said, covered(request, asked.name))
        for i, (chance, out) in enumerate(zip(asked.asked, asked.excluded, strict=True)):
            # A value that is excluded is what its words are about, too.
            for place, quality in zip(asked.spans[i].places, asked.spans[i].quality, strict=False):
                said[place] = max(said[place], quality * max(chance, out))
    return np.asarray(chances * (1 - said), dtype=np.float32)


def subject_features(request: Request, choices: Sequence[Asked], title: str) -> Floats:
    """Return (len(SUBJECT),) of a page about ``title`` with ``choices``."""
    roles = word_roles(request)
    missing = missing_values(request, choices, title)
    cover = np.asarray(covered(request, title), dtype=np.float32)
    thing, properties, values, _ = roles.T if len(roles) else np.zeros((4, 0))

    def share(weights: Any) -> float:
        total = float(weights.sum())
        return float(weights @ cover) / total if total > 0.3 else 1.0

    best = [max(asked.asked, default=0.0) for asked in choices]
    is_open = [asked.none > top for asked, top in zip(choices, best, strict=True)]
    alike = [
        asked.spans[asked.best].is_whole is False
        for asked, top in zip(choices, best, strict=True)
        if top >= asked.none
    ]
    titled = frozenset(token.key for token in content(title))
    sure = [a for a, top in zip(choices, best, strict=True) if top >= a.none]
    picked = _keys_at(request, frozenset(p for a in sure for p in a.spans[a.best].places))
    left = [
        _left_over(request, frozenset(a.spans[a.best].places), titled | picked, set()) for a in sure
    ]
    phrases = [
        float(np.mean([cover[i] for i in run])) for run in runs(request, ("thing", "property"))
    ]
    return np.asarray(
        [
            missing.sum() / 3, missing[missing > _VALUED].sum() / 3, missing.max(initial=0.0),
            values.sum() / 5, len(choices) / 3, sum(is_open) / 2, sum(is_open) / max(len(choices), 1),
            min(best, default=1.0), share(thing + properties), share(thing), share(properties),
            min(phrases, default=1.0), max((max(a.excluded, default=0.0) for a in choices), default=0.0),
            sum(alike) / 2, sum(gap for gap, _ in left), sum(beside for _, beside in left),
        ],
        dtype=np.float32,
    )  # fmt: skip


def _keys_at(request: Request, places: frozenset[int]) -> frozenset[str]:
    return frozenset(request.tokens[p].key for p in places)


def meets(request: Request, choices: Sequence[Asked], title: str) -> float:
    """Return the probability that the thing of a page can be all that is asked, as far as it shows."""
    net = network("subject")
    hidden = np.tanh(subject_features(request, choices, title) @ net["w1"] + net["b1"])
    return float(1 / (1 + np.exp(-(hidden @ net["w2"] + net["b2"])[0])))


@lru_cache(maxsize=4096)
def runs(request: Request, roles: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
    """Return the runs of words that most likely are of ``roles``, as places of tokens."""
    chances = word_roles(request)
    best = chances.argmax(axis=1) if len(chances) else []
    found: list[list[int]] = []
    last = -2
    for i, role in enumerate(best):
        if ROLES[role] not in roles:
            continue
        if last == i - 1 and best[last] == role and request.clause[last] == request.clause[i]:
            found[-1].append(i)
        else:
            found.append([i])
        last = i
    return tuple(tuple(run) for run in found)


# Weights -------------------------------------------------------------------------------------------


def judge(rows: Floats, none: Floats) -> tuple[list[float], list[float], float]:
    """Return P(asked), P(excluded) of each value, and P(none is asked)."""
    if not len(rows):
        return [], [], 1.0
    net = network("value")
    hidden = np.tanh(rows @ net["w1"] + net["b1"])
    out = hidden @ net["w2"] + net["b2"]
    logits = np.append(out[:, 0], float(none @ net["w3"][:, 0] + net["b3"][0]))
    chances = np.exp(logits - logits.max())
    chances /= chances.sum()
    ruled_out = (1 - chances[:-1]) / (1 + np.exp(-out[:, 1]))
    return chances[:-1].tolist(), ruled_out.tolist(), float(chances[-1])


def network(part: str) -> Mapping[str, Floats]:
    """Return the weights of "word", "value" or "subject": the shipped checkpoint's."""
    if not _installed:
        install(_shipped())
    return _installed[part]


def install(arrays: Mapping[str, Floats]) -> None:
    """Use these weights from now on, as a trainer does; what was computed with others is forgotten."""
    for part in ("word", "value", "subject"):
        lead = f"{part}/"
        _installed[part] = {
            k.removeprefix(lead): v for k, v in arrays.items() if k.startswith(lead)
        }
    word_roles.cache_clear()
    matters.cache_clear()
    locate.cache_clear()
    runs.cache_clear()
    ask_choices.cache_clear()


_installed: dict[str, Mapping[str, Floats]] = {}


def _shipped() -> dict[str, Floats]:
    from stores.assets.weights import load_arrays

    arrays, meta = load_arrays(CHECKPOINT, "aligner")
    columns: dict[str, Any] = meta["architecture"]
    known = {"word": WORD, "value": VALUE, "none": NONE, "subject": SUBJECT}
    if any(tuple(columns.get(name, ())) != names for name, names in known.items()):
        from stores.errors import UserError

        raise UserError("checkpoint 'aligner' has other features: stategate train aligner")
    return arrays
