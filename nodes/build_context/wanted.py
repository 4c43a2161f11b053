"""What a page's text is measured against: the words asked for, and the clauses that name them."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nodes.act.shop.reading import dollars, read_wish, words_of

_WORD = re.compile(r"\s*\S+")
_CLAUSE = re.compile(r"(?<=[.;!?,])\s+")
_CLAUSE_WORDS = 8


@dataclass(frozen=True)
class Wanted:
    """What decides tiers: asked stems, those that most chunks share, the price limit in dollars.

    ``telling`` are the clauses of the page's running text that name all asked words that it holds.
    """

    words: frozenset[str] = frozenset()
    common: frozenset[str] = frozenset()
    limit: float | None = None
    telling: frozenset[str] = frozenset()

    def tier(self, text: str) -> int:
        """Return the tier of running text."""
        asked = self.words.intersection(words_of(text))
        return 3 if not asked else 1 if asked - self.common else 2

    def clause_tier(self, clause: str) -> int:
        """Return the tier of a clause of running text."""
        return 1 if clause in self.telling else max(self.tier(clause), 2)

    def price_tier(self, text: str) -> int:
        """Return the tier of a price: a buyer must know that it is too high."""
        price = dollars(text.strip())
        return 0 if price is not None and self.limit is not None and price > self.limit else 3


def wanted_of(instruction: str, titles: Sequence[str] = (), texts: Sequence[str] = ()) -> Wanted:
    """Return what the instruction asks for.

    ``titles`` are those that compete on the page, ``texts`` its running text as rendered.
    """
    wish = read_wish(instruction)
    values = (word for _, value in wish.options for word in words_of(value))
    words = frozenset((*wish.words, *values))
    stems = [set(words_of(title)) for title in titles]
    common = {w for w in words if stems and sum(w in s for s in stems) > 0.5 * len(stems)}
    lines = [headed(line)[1] for text in texts for line in text.splitlines()]
    telling = _telling(frozenset(wish.words), [c for line in lines for c in clauses(line)])
    return Wanted(words, frozenset(common), wish.limit, telling)


def _telling(words: frozenset[str], offered: Sequence[str]) -> frozenset[str]:
    """Choose few of ``offered`` that together name all of ``words`` that any names (greedy cover)."""
    holds = {clause: words.intersection(words_of(clause)) for clause in offered}
    missing = set().union(*holds.values())
    chosen: set[str] = set()
    while missing:
        best = max(holds, key=lambda c: (len(holds[c] & missing), -len(c)))
        chosen.add(best)
        missing -= holds[best]
    return frozenset(chosen)


def headed(line: str) -> tuple[str, str]:
    """Split "Head: words" into its head ("" if there is none) and the rest, its space included."""
    head, colon, rest = line.partition(": ")
    return (head, " " + rest) if colon and " " not in head else ("", line)


def clauses(text: str) -> Iterator[str]:
    """Yield stretches of a few words, broken at punctuation; joined they are the text."""
    start = 0
    breaks = [match.start() for match in _CLAUSE.finditer(text)]
    for end in (*breaks, len(text)):
        words = _WORD.findall(text[start:end])
        for i in range(0, len(words), _CLAUSE_WORDS):
            yield "".join(words[i : i + _CLAUSE_WORDS])
        start = end
