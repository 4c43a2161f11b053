"""An instruction read without a grammar: which words carry it, limits on amounts, what is excluded.

How much a word *matters* (belongs to what is asked, not to the talk around it) is learned from many
wordings (``words``); limits and negations are read by closed classes of English words.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from stategate.envs.asking.text import Token, english, tokens
from stategate.stores.tokens import encoding

_SENTENCE = re.compile(r"(?<=[.!?;\n])\s+|\s+[-–/|>]+\s+|(?<=\w): ")
_CLAUSE = re.compile(r"[,;:!?()\n|/\"<>]|(?<!\bmax)(?<!\bmin)\.(?!\d)|\s[-–—]+\s")
_MARKS = 2  # punctuation marks between an amount and a word of money ("Money? - 70")
_NEAR = 6  # words between an amount and what says that it is a limit
_FAR = 9  # words around an amount among which beyond it is refused
_CURRENCY = ("$", "€", "£")
_RANGE = re.compile(r"^\s*(?:dollars?|bucks?|usd)?\s*(?:-|–|to|and|or)\s*[$€£]?\s*$")
#: What behind an amount makes it an upper end ("70 at most"), or a lower one ("20 or more").
_BOUND = re.compile(
    r"^\W*(?:dollars?|bucks?|usd|euros?)?\W*(?:(?:or|and)\s+(?:less|under|below|cheaper|(?P<lower>more|over|above|up(?:wards?)?))"
    r"|(?P<least>at\s+least|minimum|upwards?|up(?=\s*(?:[,.;!?)]|$)))|at\s+(?:the\s+)?(?:very\s+)?(?:most|outside|maximum)|tops|max(?:imum)?"
    r"|(?:has\s+to|must|should|will)\s+(?:cover|do|suffice|be\s+enough)"
    r"|(?:is|as)\s+(?:my|the|our)\s+(?:(?:very\s+)?most|limit|ceiling|maximum|cap|end))\b(?!\W*\d)"
)


@dataclass(frozen=True)
class Limit:
    """Amounts must lie from ``low`` to ``high``; ``start:end`` are the words that say so."""

    low: float | None
    high: float | None
    start: int
    end: int

    def excludes(self, amount: float) -> bool:
        """Say whether ``amount`` is ruled out."""
        return (self.high is not None and amount > self.high) or (
            self.low is not None and amount < self.low
        )


@dataclass(frozen=True)
class Request:
    """What an instruction says. ``clause`` and ``sentence`` number the parts that each token is in.

    ``negators`` are the places (in tokens) of words that exclude, outside of limits.
    """

    text: str
    tokens: tuple[Token, ...]
    clause: tuple[int, ...]
    sentence: tuple[int, ...]
    limit: Limit | None = None
    in_limit: frozenset[int] = frozenset()
    negators: tuple[int, ...] = ()
    places: dict[str, tuple[int, ...]] = field(default_factory=dict, hash=False)
    numbers: tuple[int, ...] = ()

    def __hash__(self) -> int:
        """Hash by the text alone."""
        return hash(self.text)


@lru_cache(maxsize=4096)
def read_request(text: str) -> Request:
    """Read an instruction."""
    found = tokens(text)
    clause = _numbered(found, [m.start() for m in _CLAUSE.finditer(text)])
    sentence = _numbered(found, [m.end() for m in _SENTENCE.finditer(text)])
    limit, inside = _Amounts(text, found, clause).limit()
    places: dict[str, tuple[int, ...]] = {}
    for i, token in enumerate(found):
        places[token.key] = (*places.get(token.key, ()), i)
    negators = _negators(text, found, inside, clause)
    numbers = tuple(i for i, token in enumerate(found) if token.value is not None)
    return Request(text, found, clause, sentence, limit, inside, negators, places, numbers)


def _numbered(found: tuple[Token, ...], cuts: list[int]) -> tuple[int, ...]:
    numbers, at = [], 0
    for token in found:
        while at < len(cuts) and cuts[at] <= token.start:
            at += 1
        numbers.append(at)
    return tuple(numbers)


def _negators(
    text: str, found: Sequence[Token], inside: frozenset[int], clause: Sequence[int]
) -> tuple[int, ...]:
    known = english()
    words = [token.word for token in found]
    places = []
    for i, word in enumerate(words):
        if i in inside or _takes_back(text, found, clause, i):
            continue
        is_end = word == "t" and i > 1 and words[i - 1] == "'" and words[i - 2].endswith("n")
        if " ".join(words[i : i + 2]) in known["negator_pairs"]:
            places.append(i + 1)
        elif word in known["negators"] or is_end:
            places.append(i)
    return tuple(places)


def _takes_back(text: str, found: Sequence[Token], clause: Sequence[int], i: int) -> bool:
    """Say whether a "no" takes back what was said, and excludes nothing: "red or no, blue".

    It ends its clause, or stands there with other such words alone, and something else follows.
    """
    known = english()
    if found[i].word not in known["retracts"] & known["negators"]:
        return False
    rest = [token for token, own in zip(found[i:], clause[i:], strict=True) if own == clause[i]]
    behind = text[rest[-1].end :].lstrip()
    is_last = all(token.word in known["retracts"] for token in rest)
    return is_last and (behind[:1] in tuple(",-–—:…") or behind[:2] == "..")


class _Cue(NamedTuple):
    """What says that an amount is a limit: how surely, the ends, its first and last token."""

    strength: int
    low: float | None
    high: float | None
    first: int
    last: int


class _Amounts:
    """The amounts of an instruction, beside the words that make limits of them."""

    def __init__(self, text: str, found: Sequence[Token], clause: Sequence[int]) -> None:
        self._text, self._found, self._clause = text, found, clause

    def limit(self) -> tuple[Limit | None, frozenset[int]]:
        """Return the limit on amounts of money that the words set, and the tokens that say it.

        What names a currency counts before what only compares; of equals the last, as people correct
        themselves. An amount of another unit is none.
        """
        found = self._found
        amounts = [i for i, token in enumerate(found) if token.value is not None]
        cues = {i: cue for i in amounts if (cue := self._cue(i)) is not None}
        if not cues:
            return None, frozenset()
        at = max(cues, key=lambda i: (cues[i].strength, i))
        _, low, high, first, last = cues.pop(at)
        inside = frozenset(range(first, last + 1))
        for i, cue in cues.items():
            after = cue.last + 1
            is_bare = after == len(found) or self._clause[after] != self._clause[i]
            is_bare = is_bare or _is(found[after].word, "small")
            if not is_bare or abs(self._clause[i] - self._clause[at]) > 1:
                continue
            # "at least 20 dollars, 60 at most": the other end
            if low is None and cue.high is None and (cue.low or 0.0) < (high or 0.0):
                low = cue.low
            elif high is None and cue.low is None and (cue.high or 0.0) > (low or 0.0):
                high = cue.high
            else:
                continue
            inside |= frozenset(range(cue.first, cue.last + 1))
        return Limit(low, high, found[min(inside)].start, found[max(inside)].end), inside

    def _word(self, i: int) -> str:
        return self._found[i].word if 0 <= i < len(self._found) else ""

    def _cue(self, i: int) -> _Cue | None:
        """Return what makes token ``i`` a limit, None where nothing does."""
        found, known = self._found, english()
        value, before, after = found[i].value or 0.0, self._word(i - 1), self._word(i + 1)
        is_marked = before in _CURRENCY
        if found[i].unit and not is_marked:
            return None
        names_money = _is(after, "currency") or after in _CURRENCY
        is_currency = is_marked or names_money
        first, last = i - is_marked, i + (names_money and not is_marked)
        is_near_money = any(_is(found[j].word, "money") for j in self._around(i))
        is_upper, is_lower, start = self._comparison(first)
        tail = _BOUND.match(self._text[found[i].end :].lower())
        if tail:
            is_lower = bool(tail["lower"] or tail["least"])
            is_upper = not is_lower
            end = found[i].end + tail.end()
            last = max(last, *(j for j in range(i, len(found)) if found[j].end <= end))
        is_compared = is_upper or is_lower
        strength = 3 * is_currency + 2 * is_near_money + is_compared
        if not is_currency and not is_near_money and after and after not in known["small"]:
            strength = 0  # "under 5 shelves" may count something
        is_told = any(_is(self._word(j), "money") for j in (i - 3, i - 2, i - 1, i + 1))
        if not is_currency and not is_compared and not is_told:  # "budget: 40" would be
            return None
        other = self._range_start(i, first)
        if other is not None:
            low = min(found[other].value or 0.0, value)
            first = other - (self._word(other - 1) in _CURRENCY)
            words = known["small"] | known["money"] | {"between"}
            return _Cue(strength, low, value, self._widened(first, words), last)
        first = first if start is None else min(first, start)
        if is_lower and not is_upper:
            return _Cue(strength, value, None, first, last)
        return _Cue(strength, None, value, first, last)

    def _around(self, i: int) -> list[int]:
        span = range(max(0, i - _NEAR), min(len(self._found), i + 4))
        return [j for j in span if j != i and abs(self._clause[j] - self._clause[i]) <= _MARKS]

    def _comparison(self, i: int) -> tuple[bool, bool, int | None]:
        """Return whether words before token ``i`` make it an upper or a lower end, and from where."""
        found, clause, known = self._found, self._clause, english()
        for j in range(i - 1, max(-1, i - 1 - _NEAR), -1):
            word = found[j].word
            is_parted = (
                clause[j] != clause[i] and ":" not in self._text[found[j].end : found[i].start]
            )
            if is_parted or found[j].value is not None:
                break
            if word in ("<", ">"):
                return word == "<", word == ">", j
            in_upper, in_lower = _is(word, "upper"), _is(word, "lower")
            if not in_upper and not in_lower:
                continue
            negators = [
                k
                for k in range(max(0, j - _FAR), j)
                if _denies(found[k])
                and (clause[k] == clause[j] or (k >= j - 4 and clause[k] == clause[j] - 1))
            ]
            start = j
            if in_upper and not (in_lower and not negators):
                # "not under 40" is a lower end; "not red, under 40" is none
                near = negators[-1] if negators else -1
                is_turned = near >= max(j - 2, 0) and clause[near] == clause[j] and not in_lower
            else:
                is_turned = not (negators or in_upper or self._is_refused(j, i))
                start = j if is_turned else max(0, j - 1)
            words = known["small"] | known["money"] | known["negators"]
            return not is_turned, is_turned, self._widened(start, words, clause[i])
        return False, False, None

    def _widened(self, first: int, words: frozenset[str], clause: int | None = None) -> int:
        """Return the first of the tokens before ``first``, of its clause, that are among ``words``."""
        own = self._clause[first] if clause is None else clause
        while first and self._clause[first - 1] == own and self._word(first - 1) in words:
            first -= 1
        return first

    def _is_refused(self, first: int, amount: int) -> bool:
        """Say whether the words around "over 40" (``first`` to ``amount``) want none beyond it."""
        found, clause, known = self._found, self._clause, english()
        if found[first].word in ("least", "minimum"):
            return False
        span = range(max(0, first - _FAR), min(len(found), amount + _FAR))
        around = [k for k in span if abs(clause[k] - clause[amount]) <= 1]
        own = [k for k in around if clause[k] == clause[amount]]
        if any(found[k].word in known["welcomes"] for k in own):
            return False
        return (
            # "an invoice above 40 won't be signed"
            any(_denies(found[k]) for k in own if k > amount)
            or any(found[k].word in known["refuses"] for k in around)
            or any(found[k].word in known["universal"] for k in around if first - 4 < k < first)
        )

    def _range_start(self, i: int, first: int) -> int | None:
        """Return the token of the lower end where ``i`` closes a range ("between $20 and $40")."""
        for j in range(first - 1, max(-1, first - 5), -1):
            if self._found[j].value is not None and not self._found[j].unit:
                between = self._text[self._found[j].end : self._found[i].start].lower()
                return j if _RANGE.match(between) else None
        return None


@lru_cache(maxsize=16384)
def _is(word: str, kind: str) -> bool:
    """Say whether ``word`` is of a closed class, one slip of the keyboard forgiven in longer words."""
    known = english()[kind]
    if word in known or len(word) < 5 or len(encoding().encode_ordinary(f" {word}")) == 1:
        return word in known  # a word of its own, as "lease" beside "least"
    from rapidfuzz.distance import OSA

    return any(len(k) > 4 and k[0] == word[0] and OSA.distance(word, k) == 1 for k in known)


def _denies(token: Token) -> bool:
    """Say whether a word excludes: "not", or the end of "won't"."""
    return token.word in english()["negators"] or token.word == "t"
