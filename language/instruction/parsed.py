"""An instruction as tagged words: things, properties, values, places, exclusions, limits, talk.

>>> parse("a red mug, not the tall one, for fifty dollars at most").limit.high
50.0
"""

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from stategate.language.amounts import Token, tokens
from stategate.language.instruction.tagger import TAGS, tag
from stategate.language.instruction.weights import Floats

#: What a word is worth to a page: a place is a value to choose; what is excluded is not looked for.
ROLES = ("thing", "property", "value", "talk")
_SURE = 0.5  # probability from which a word belongs to a limit
_RESIDUE = 0.01  # what another reader's tag leaves for each other one
_MEASURES = ("m", "l", "byte")  # dimensions of no price; pounds are money, too
_HELD = 0.8  # probability from which a stated limit is held against any actor
_AMOUNT = 0.4  # probability from which a number is an end of the limit
_TAG = {name: i for i, name in enumerate(TAGS)}
_LIMITS = [_TAG[name] for name in ("high", "low", "limit")]
_BREAKS = frozenset(",;:!?()\n|/<>")


@dataclass(frozen=True)
class Limit:
    """Amounts must lie from ``low`` to ``high``; ``start:end`` are the words that say so.

    ``probability`` is the upper end's, the lower one's where there is no other.
    """

    low: float | None
    high: float | None
    start: int
    end: int
    probability: float = 1.0


@dataclass(frozen=True, eq=False)
class ParsedInstruction:
    """What an instruction says. ``tags`` are the probabilities of ``TAGS`` for each token.

    ``clause`` numbers the stretches between marks that each token is in; ``in_limit`` are the places
    of the tokens that say the limit. Equal is only the same object: another reader's is another one.
    """

    text: str
    tokens: tuple[Token, ...]
    tags: Floats = field(repr=False)
    clause: tuple[int, ...] = field(repr=False)
    limit: Limit | None
    in_limit: frozenset[int]

    @cached_property
    def places(self) -> dict[str, tuple[int, ...]]:
        """Where each key stands."""
        positions: dict[str, tuple[int, ...]] = {}
        for i, token in enumerate(self.tokens):
            positions[token.key] = (*positions.get(token.key, ()), i)
        return positions

    @cached_property
    def silent(self) -> NDArray[np.bool_]:
        """Whether each token is a function word or of the limit."""
        words = enumerate(self.tokens)
        return np.array([token.is_small or i in self.in_limit for i, token in words], dtype=bool)

    @cached_property
    def roles(self) -> Floats:
        """(tokens, ROLES): how probable each role is; function words and limits are talk."""
        by = {name: self.tags[:, i] for name, i in _TAG.items()}
        content_roles = np.stack([by["thing"], by["property"], by["value"] + by["place"]], axis=1)
        content_roles = np.where(self.silent[:, None], 0.0, content_roles)
        talk = 1 - content_roles.sum(axis=1, keepdims=True)
        return np.concatenate([content_roles, talk], axis=1).astype(np.float32)

    @cached_property
    def matters(self) -> tuple[float, ...]:
        """How much (0 to 1) each token belongs to what is asked."""
        return tuple((1 - self.roles[:, -1]).tolist())

    def between(self, one: int, other: int) -> str:
        """Return the text between two tokens."""
        first, last = sorted((one, other))
        return self.text[self.tokens[first].end : self.tokens[last].start]

    def excludes(self, amount: float | None) -> bool:
        """Say whether ``amount`` is outside the limit."""
        if self.limit is None or amount is None:
            return False
        low, high = self.limit.low, self.limit.high
        return (high is not None and amount > high) or (low is not None and amount < low)

    def forbids(self, amount: float | None) -> bool:
        """Say whether ``amount`` is above what is surely stated as the most."""
        limit = self.limit
        if amount is None or limit is None or limit.high is None:
            return False
        return limit.probability >= _HELD and amount > limit.high

    @cached_property
    def excluded(self) -> Floats:
        """How probable it is that each token is of something that is not wanted."""
        return np.asarray(self.tags[:, _TAG["excluded"]])

    def span_of(self, name: str) -> tuple[int, int] | None:
        """Return where the first stretch of a tag is, without function words at its ends."""
        for run in self._runs(self.tags, (_TAG[name],)):
            content = [self.tokens[i] for i in run if not self.tokens[i].is_small]
            if content:
                return content[0].start, content[-1].end
        return None

    def phrases(self, *roles: str) -> list[tuple[int, ...]]:
        """Return the runs of words that most likely are of ``roles``, as places of tokens."""
        return self._runs(self.roles, [ROLES.index(role) for role in roles])

    def _runs(self, chances: Floats, columns: Collection[int]) -> list[tuple[int, ...]]:
        """Return the runs of a clause's tokens with the same likeliest column, one of ``columns``."""
        best = chances.argmax(axis=1)
        groups = itertools.groupby(range(len(best)), key=lambda i: (best[i], self.clause[i]))
        return [tuple(run) for (column, _), run in groups if column in columns]


@lru_cache(maxsize=4096)
def parse(text: str) -> ParsedInstruction:
    """Return what the instruction ``text`` says, read by the token tagger."""
    words, tags = tokens(text), tag(text)
    clause, number = [], 0
    for i, token in enumerate(words):
        between = text[words[i - 1].end : token.start] if i else ""
        number += bool(_BREAKS.intersection(between)) or ". " in between or " - " in between
        clause.append(number)
    limit, inside = _limit(words, tags)
    return ParsedInstruction(text, words, tags, tuple(clause), limit, inside)


def tags_of(
    text: str, quotes: Mapping[str, Sequence[str]], low: float | None, high: float | None
) -> Floats:
    """Return the tags of ``text`` by another reader: its words by tag, and the limit's ends.

    The learned tagger still says which words beside an amount make it a limit.
    """
    words = tokens(text)
    best = np.full(len(words), _TAG["talk"])
    if low or high:
        best[tag(text)[:, _TAG["limit"]] >= _SURE] = _TAG["limit"]
    for name, texts in quotes.items():
        keys = {token.key for quote in texts for token in tokens(quote) if not token.is_small}
        best[[i for i, token in enumerate(words) if token.key in keys]] = _TAG[name]
    for name, amount in (("low", low), ("high", high)):
        if amount is not None:
            best[[i for i, token in enumerate(words) if token.value == amount]] = _TAG[name]
    tags = np.full((len(words), len(TAGS)), _RESIDUE, dtype=np.float32)
    tags[np.arange(len(words)), best] = 1 - _RESIDUE * (len(TAGS) - 1)
    return tags


def _limit(words: tuple[Token, ...], tags: Floats) -> tuple[Limit | None, frozenset[int]]:
    """Return the limit that tagged numbers set, and the places of the words that say it.

    Of several upper (lower) ends the last counts, as people correct themselves.
    """
    ends: dict[str, int] = {}
    for i, token in enumerate(words):
        high, low = (float(tags[i, _TAG[name]]) for name in ("high", "low"))
        if token.value is not None and high + low >= _AMOUNT and not _is_measured(words, i):
            ends["high" if high >= low else "low"] = i
    if not ends:
        return None, frozenset()
    of_limit = tags[:, _LIMITS].sum(axis=1) >= _SURE
    inside: set[int] = set()
    for end in ends.values():
        for step in (-1, 1):
            i = end
            while 0 <= i < len(words) and (i == end or of_limit[i]):
                inside.add(i)
                i += step
    amounts = {name: _amount(words, i) for name, i in ends.items()}
    low_end, high_end = amounts.get("low"), amounts.get("high")
    if low_end is not None and high_end is not None and low_end > high_end:
        is_range = any(words[i].word == "between" for i in inside)
        low_end, high_end = (high_end, low_end) if is_range else (None, high_end)
    start, end = words[min(inside)].start, words[max(inside)].end
    sure = float(tags[ends["high" if "high" in ends else "low"], _LIMITS[:2]].max())
    return Limit(low_end, high_end, start, end, sure), frozenset(inside)


def _is_measured(words: Sequence[Token], place: int) -> bool:
    """Say whether an amount is in inches, litres or bytes, as both are of "30 to 36 inches"."""
    if words[place].unit or place + 1 == len(words):
        return words[place].unit in _MEASURES
    joint, *after = words[place + 1 : place + 3]
    if joint.value is not None:
        return joint.unit in _MEASURES and joint.start == words[place].end + len("-")
    is_range = joint.word == "to" or (place and words[place - 1].word == "between")
    return bool(is_range and after and after[0].unit in _MEASURES)


def _amount(words: Sequence[Token], place: int) -> float:
    """Return the amount at ``place``; of a price "8k" is 8,000 also where no currency says so."""
    token, after = words[place], words[place + 1 : place + 2]
    return (
        token.money * 1000 if after and after[0].word == "k" and after[0].is_glued else token.money
    )
