"""An instruction read without a grammar: which words carry it, limits on amounts, what is excluded.

How much a word *matters* (belongs to what is asked, not to the talk around it) is learned from many
wordings (``words``); limits and negations are read by closed classes of English words.
"""

import re
from dataclasses import dataclass, field
from functools import lru_cache

from stategate.envs.asking.text import Token, english, tokens
from stategate.stores.tokens import encoding

_SENTENCE = re.compile(r"(?<=[.!?;\n])\s+|\s+[-–/|>]+\s+|(?<=\w): ")
_CLAUSE = re.compile(r"[,;:!?()\n|/\"<>]|(?<!\bmax)(?<!\bmin)\.(?!\d)|\s[-–—]+\s")
_MARKS = 2  # punctuation marks between an amount and a word of money ("Money? - 70")
_NEAR = 6  # words between an amount and what says that it is a limit
_FAR = 9  # words around an amount among which beyond it is refused
_HEART = 3  # of "<3", which is no amount
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
    limit, inside = _limit(text, found, clause)
    places: dict[str, tuple[int, ...]] = {}
    for i, token in enumerate(found):
        places[token.key] = (*places.get(token.key, ()), i)
    return Request(
        text,
        found,
        clause,
        sentence,
        limit,
        inside,
        _negators(text, found, inside, clause),
        places,
        tuple(i for i, token in enumerate(found) if token.value is not None),
    )


def _numbered(found: tuple[Token, ...], cuts: list[int]) -> tuple[int, ...]:
    numbers, at = [], 0
    for token in found:
        while at < len(cuts) and cuts[at] <= token.start:
            at += 1
        numbers.append(at)
    return tuple(numbers)


def _negators(
    text: str, found: tuple[Token, ...], inside: frozenset[int], clause: tuple[int, ...]
) -> tuple[int, ...]:
    known = english()
    places = []
    takes_back = _interjections(text, found, clause)
    for i, token in enumerate(found):
        if i in inside or i in takes_back:
            continue
        pair = f"{token.word} {found[i + 1].word}" if i + 1 < len(found) else ""
        if pair in known["negator_pairs"]:
            places.append(i + 1)
        elif token.word in known["negators"] or (
            token.word == "t"
            and i > 1
            and found[i - 1].word == "'"
            and found[i - 2].word.endswith("n")
        ):
            places.append(i)
    return tuple(places)


def _interjections(text: str, found: tuple[Token, ...], clause: tuple[int, ...]) -> frozenset[int]:
    """Return the places of "no" that take back what was said, and exclude nothing: "red or no, blue".

    It ends its clause, or stands there with other such words alone, and something else follows.
    """
    known = english()["retracts"] & english()["negators"]
    ends = {number: i for i, number in enumerate(clause)}
    places = []
    for i, token in enumerate(found):
        if token.word not in known:
            continue
        rest = found[i + 1 : ends[clause[i]] + 1]
        behind = text[found[ends[clause[i]]].end :].lstrip()
        is_last = all(other.word in english()["retracts"] for other in rest)
        if is_last and (behind[:1] in tuple(",-–—:…") or behind[:2] == ".."):
            places.append(i)
    return frozenset(places)


def _limit(
    text: str, found: tuple[Token, ...], clause: tuple[int, ...]
) -> tuple[Limit | None, frozenset[int]]:
    """Return the limit on amounts of money that the words set, and the tokens that say it.

    What names a currency counts before what only compares; of equals the last, as people correct
    themselves. An amount of another unit is none.
    """
    cues = {
        i: cue
        for i, token in enumerate(found)
        if token.value is not None
        and _may_be_money(text, found, clause, i)
        and (cue := _cue(text, found, clause, i)) is not None
    }
    if not cues:
        return None, frozenset()
    at = max(cues, key=lambda i: (cues[i][0], i))
    _, low, high, first, last = cues[at]
    inside = frozenset(range(first, last + 1))
    for i, (_, least, most, begins, ends) in cues.items():
        following = found[ends + 1].word if ends + 1 < len(found) else ""
        is_bare = not following or clause[ends + 1] != clause[i] or _is(following, "small")
        if i == at or abs(clause[i] - clause[at]) > 1 or not is_bare:
            continue
        # "at least 20 dollars, 60 at most": the other end
        if low is None and most is None and least is not None and least < (high or 0.0):
            low = least
        elif high is None and least is None and most is not None and most > (low or 0.0):
            high = most
        else:
            continue
        inside |= frozenset(range(begins, ends + 1))
    said = Limit(low, high, found[min(inside)].start, found[max(inside)].end)
    return said, inside


def _cue(
    text: str, found: tuple[Token, ...], clause: tuple[int, ...], i: int
) -> tuple[int, float | None, float | None, int, int] | None:
    """Return (strength, low, high, first token, last token), None where the amount sets no limit."""
    known = english()
    value = found[i].value or 0.0
    after = found[i + 1].word if i + 1 < len(found) else ""
    before = found[i - 1].word if i else ""
    marked = before in "$€£" if before else False
    names_money = _is(after, "currency") or after in ("$", "€", "£")
    is_currency = marked or names_money or bool(found[i].unit)
    first, last = (i - 1 if marked else i), (i + 1 if names_money and not marked else i)
    around = _around(found, clause, i)
    words = [found[j].word for j in around]
    near_money = any(_is(word, "money") for word in words)
    upper, lower, start = _comparison(text, found, clause, first)
    tail = _BOUND.match(text[found[i].end :].lower())
    if tail:
        lower = bool(tail["lower"] or tail["least"])
        upper = not lower
        while last + 1 < len(found) and found[last + 1].end <= found[i].end + tail.end():
            last += 1
    if not is_currency and not near_money and not (upper or lower):
        return None
    strength = 3 * is_currency + 2 * near_money + (upper or lower)
    if not is_currency and not near_money and after and after not in known["small"]:
        strength = 0  # "under 5 shelves" may count something
    if not is_currency and near_money and not (upper or lower) and not _is_told(found, clause, i):
        return None
    other = _range_start(text, found, i, first)
    if other is not None:
        return (
            strength,
            min(found[other].value or 0.0, value),
            value,
            _widened(found, clause, other),
            last,
        )
    first = min(first, start if start is not None else first)
    if lower and not upper:
        return strength, value, None, first, last
    return strength, None, value, first, last


def _may_be_money(text: str, found: tuple[Token, ...], clause: tuple[int, ...], i: int) -> bool:
    """Say whether token ``i`` can be an amount of money: no other unit, and no heart ("<3")."""
    before = found[i - 1].word if i else ""
    if before == "<" and found[i].value == _HEART and found[i - 1].end == found[i].start:
        return False
    # Of "$70" in quotation marks the last mark is no inch.
    return not found[i].unit or before in ("$", "€", "£") or _in_pounds(text, found, clause, i)


def _in_pounds(text: str, found: tuple[Token, ...], clause: tuple[int, ...], i: int) -> bool:
    """Say whether the unit of token ``i`` is money's pound ("spend 30 pounds")."""
    is_pound = text[found[i].start : found[i].end].lower().rstrip("s").endswith("pound")
    near = range(max(0, i - _NEAR), i)
    return is_pound and any(clause[j] == clause[i] and _is(found[j].word, "money") for j in near)


@lru_cache(maxsize=16384)
def _is(word: str, kind: str) -> bool:
    """Say whether ``word`` is of a closed class, one slip of the keyboard forgiven in longer words."""
    known = english()[kind]
    if word in known or len(word) < 5 or len(encoding().encode_ordinary(f" {word}")) == 1:
        return word in known  # a word of its own, as "lease" beside "least"
    from rapidfuzz.distance import OSA

    return any(len(k) > 4 and k[0] == word[0] and OSA.distance(word, k) == 1 for k in known)


def _is_told(found: tuple[Token, ...], clause: tuple[int, ...], i: int) -> bool:
    """Say whether a word of money stands right beside a bare amount ("budget: 40")."""
    near = [j for j in (i - 3, i - 2, i - 1, i + 1) if 0 <= j < len(found)]
    return any(_is(found[j].word, "money") for j in near)


def _around(found: tuple[Token, ...], clause: tuple[int, ...], i: int) -> list[int]:
    span = range(max(0, i - _NEAR), min(len(found), i + 4))
    return [j for j in span if j != i and abs(clause[j] - clause[i]) <= _MARKS]


def _comparison(
    text: str, found: tuple[Token, ...], clause: tuple[int, ...], i: int
) -> tuple[bool, bool, int | None]:
    """Return whether the words before token ``i`` make it an upper or a lower end, and from where."""
    known = english()
    upper = lower = False
    start: int | None = None
    for j in range(i - 1, max(-1, i - 1 - _NEAR), -1):
        word = found[j].word
        if clause[j] != clause[i] and ":" not in text[found[j].end : found[i].start]:
            break
        if found[j].value is not None and j != i:
            break
        if word == "<":
            return True, False, j
        if word == ">":
            return False, True, j
        in_upper, in_lower = _is(word, "upper"), _is(word, "lower")
        negators = [
            k
            for k in range(max(0, j - _FAR), j)
            if _denies(found[k])
            and (clause[k] == clause[j] or (k >= j - 4 and clause[k] == clause[j] - 1))
        ]
        is_negated = bool(negators)
        if in_upper and not (in_lower and not is_negated):
            # "not under 40" is a lower end; "not red, under 40" is none
            is_turned = is_negated and negators[-1] >= j - 2 and clause[negators[-1]] == clause[j]
            lower = is_turned and not in_lower
            upper, start = not lower, j
            break
        if in_lower:
            is_negated = is_negated or in_upper or _is_refused(found, clause, j, i)
            upper, lower, start = is_negated, not is_negated, j
            if is_negated:
                start = max(0, j - 1)
            break
    if start is not None:
        while (
            start > 0
            and clause[start - 1] == clause[i]
            and (found[start - 1].word in known["small"] | known["money"] | known["negators"])
        ):
            start -= 1
    return upper, lower, start


def _is_refused(found: tuple[Token, ...], clause: tuple[int, ...], first: int, amount: int) -> bool:
    """Say whether the words around "over 40" (tokens ``first`` to ``amount``) want none beyond it."""
    known = english()
    if found[first].word in ("least", "minimum"):
        return False
    last = min(len(found), amount + _FAR)
    around = [k for k in range(max(0, first - _FAR), last) if abs(clause[k] - clause[amount]) <= 1]
    said = {found[k].word for k in around}
    of_all = {found[k].word for k in around if first - 4 < k < first}
    own = {found[k].word for k in around if clause[k] == clause[amount]}
    if not own.isdisjoint(known["welcomes"]):
        return False
    # "an invoice above 40 won't be signed"
    is_denied = any(_denies(found[k]) for k in around if k > amount and clause[k] == clause[amount])
    # "I get fired above 40": what happens to somebody there, who does not want it; "a bill above 40
    # would sink the plan": what that does
    behind = next((k for k in around if k > amount and found[k].word not in known["currency"]), 0)
    is_subject = (
        bool(behind) and clause[behind] == clause[amount] and found[behind].word in known["verbs"]
    )
    happens = is_subject or not own.isdisjoint(known["people"])
    return (
        is_denied
        or (happens and own.isdisjoint(known["wants"]))
        or not said.isdisjoint(known["refuses"])
        or not of_all.isdisjoint(known["universal"])
    )


def _denies(token: Token) -> bool:
    """Say whether a word excludes: "not", or the end of "won't"."""
    return token.word in english()["negators"] or token.word == "t"


def _range_start(text: str, found: tuple[Token, ...], i: int, first: int) -> int | None:
    """Return the token of the lower end where token ``i`` closes a range ("between $20 and $40")."""
    for j in range(first - 1, max(-1, first - 5), -1):
        if found[j].value is not None and not found[j].unit:
            between = text[found[j].end : found[i].start].lower()
            return j if _RANGE.match(between) else None
    return None


def _widened(found: tuple[Token, ...], clause: tuple[int, ...], first: int) -> int:
    if first and found[first - 1].word in ("$", "€", "£"):
        first -= 1
    small = english()["small"] | english()["money"] | {"between"}
    while first and clause[first - 1] == clause[first] and found[first - 1].word in small:
        first -= 1
    return first
