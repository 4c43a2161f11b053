"""The aligner: how much of what is asked each offered thing meets, excludes or leaves open.

What is asked comes as the clauses of an instruction, what is offered as chunks and fragments, both from
the world's view; here they meet, and nowhere else. Today they meet by shared words and numbers.
"""

import math
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from envs.protocols import Choice, Chunk, Clause, Fragment, View
from nodes.retrieval.page import describe, render
from stores.text import overlap, words_of

_VALUE_WEIGHT = 0.5  # of a word that is asked as a value, beside one of the thing itself
_PLACE_COST = 0.3  # of standing one place further down the page
_WORD = re.compile(r"\s*\S+")
_BREAK = re.compile(r"(?<=[.;!?,])\s+")
_STRETCH_WORDS = 8


@dataclass(frozen=True)
class Stance:
    """How much (0 to 1) something meets a clause, and how much it excludes it; the rest is open."""

    asked: float
    excluded: float = 0.0

    @property
    def open(self) -> float:
        """What is left undecided."""
        return max(0.0, 1.0 - self.asked - self.excluded)


@dataclass(frozen=True)
class Wish:
    """What an instruction asks for, clause by clause."""

    instruction: str
    clauses: tuple[Clause, ...]

    @property
    def phrases(self) -> tuple[str, ...]:
        """What is asked of the thing itself, without values and limits."""
        return tuple(c.text for c in self.clauses if c.role in ("thing", "property"))

    @property
    def values(self) -> tuple[tuple[str, str], ...]:
        """The values that are asked, each with the name of its choice ("" if that is not said)."""
        return tuple((c.name, c.text) for c in self.clauses if c.role == "value")

    @property
    def words(self) -> tuple[str, ...]:
        """The stems asked of the thing itself, without repeats."""
        return tuple(dict.fromkeys(w for phrase in self.phrases for w in words_of(phrase)))

    @property
    def value_words(self) -> tuple[str, ...]:
        """The stems of the asked values."""
        return tuple(word for _, value in self.values for word in words_of(value))

    def excludes(self, fragment: Fragment) -> bool:
        """Say whether what the fragment says is ruled out, as an amount beyond a limit is."""
        limits = (clause for clause in self.clauses if clause.role == "limit")
        return any(stance(clause, fragment).excluded > 0 for clause in limits)


@lru_cache(maxsize=1024)
def wish_of(view: View, instruction: str) -> Wish:
    """Return the clauses of ``instruction`` as ``view`` cuts them."""
    return Wish(instruction, tuple(view.clauses(instruction)))


def stance(clause: Clause, fragment: Fragment) -> Stance:
    """Return how ``fragment`` stands to ``clause``: shared words, or its amount and the limit."""
    if clause.limit is not None:
        if fragment.amount is None:
            return Stance(0.0)
        return Stance(0.0, 1.0) if fragment.amount > clause.limit else Stance(1.0)
    words = words_of(clause.text)
    return Stance(overlap(words, fragment.text) if words else 0.0)


# Chunks: features that say what embeddings cannot ---------------------------------------------------

#: Columns of :func:`match`. Only append: checkpoints hold a weight for each.
FEATURES = ("asked words", "next choice", "next entry", "beyond the limit", "done before")
#: Whether a feature can be seen of a chunk's affordances alone, without its text.
SEEN_BARE = (False, True, False, False, True)


def match(
    view: View, instruction: str, chunks: Sequence[Chunk], done: Collection[str]
) -> NDArray[np.float32]:
    """Return features (n, len(FEATURES)) of ``chunks``, in page order; ``done`` are past actions.

    Sentence embeddings hardly tell look-alike entries apart, nor which choice is still to be made.
    Asked words: the share of asked stems that the chunk holds. Next choice: 1 for the first choice
    with an asked value that is not chosen yet, 1/2 for the second, ... Next entry: likewise for
    entries, by asked words in the title (rare ones on this page count more), without those opened
    before or beyond the limit.
    """
    wish = wish_of(view, instruction)
    asked = tuple(dict.fromkeys((*wish.words, *wish.value_words)))
    features = np.zeros((len(chunks), len(FEATURES)), dtype=np.float32)
    for i, chunk in enumerate(chunks):
        features[i, 0] = overlap(asked, describe(view, chunk)) if asked else 0.0
        features[i, 3] = float(
            chunk.role == "entry" and any(wish.excludes(f) for f in render(view, chunk))
        )
        features[i, 4] = float(chunk.role == "entry" and _is_open(chunk, done))
    waiting = [i for i, chunk in enumerate(chunks) if _is_waiting(chunk, wish, done)]
    for place, i in enumerate(waiting):
        features[i, 1] = 1 / (1 + place)
    fresh = [
        i
        for i, c in enumerate(chunks)
        if c.role == "entry" and not features[i, 3] and not features[i, 4]
    ]
    titles = {i: set(words_of(title_of(view, chunks[i]))) for i in fresh}
    weights = _rarity(wish, list(titles.values()))
    scores = {
        i: sum(weights.get(word, 0.0) for word in titles[i]) - _PLACE_COST * place
        for place, i in enumerate(fresh)
    }
    for place, i in enumerate(sorted(fresh, key=lambda i: -scores[i])):
        features[i, 2] = 1 / (1 + place)
    return features


def title_of(view: View, chunk: Chunk) -> str:
    """Return the title of an entry, as the prompt would show it."""
    return "".join(f.text for f in render(view, chunk) if f.role == "title")


def _is_waiting(chunk: Chunk, wish: Wish, done: Collection[str]) -> bool:
    """Say whether an asked value of this choice is offered and not chosen."""
    choice = chunk.choice
    if choice is None:
        return False
    asked = asked_values(choice, wish)
    return bool(asked) and not any(
        choice.values[i] == choice.chosen or chunk.actions[i].lower() in done for i in asked
    )


def asked_values(choice: Choice, wish: Wish) -> list[int]:
    """Return the places of the values that are asked: same words, for this choice's name.

    An instruction that names no choices asks for every value whose words it holds.
    """
    values = [words_of(value) for value in choice.values]
    if wish.values:
        name = choice.name.lower()
        goals = [set(words_of(value)) for group, value in wish.values if group.lower() == name]
        return [i for i, words in enumerate(values) if choice.values[i] and set(words) in goals]
    return [i for i, w in enumerate(values) if w and overlap(w, wish.instruction) == 1]


def _is_open(chunk: Chunk, done: Collection[str]) -> bool:
    return chunk.is_visited or any(action.lower() in done for action in chunk.actions)


def _rarity(wish: Wish, titles: Sequence[set[str]]) -> dict[str, float]:
    """Weigh each asked word by how few of ``titles`` hold it."""
    weights = dict.fromkeys(wish.words, 1.0)
    for word in wish.value_words:
        weights.setdefault(word, _VALUE_WEIGHT)
    total = len(titles) + 1
    return {
        word: weight * (math.log(total / (sum(word in title for title in titles) + 1)) + 0.2)
        for word, weight in weights.items()
    }


# Fragments: which words of a page are asked for ---------------------------------------------------


@dataclass(frozen=True)
class Asked:
    """What decides how soon words are shown: asked stems, and those that most titles share.

    ``telling`` are the stretches of the page's running text that together name all asked words that
    it holds.
    """

    wish: Wish | None = None
    words: frozenset[str] = frozenset()
    common: frozenset[str] = frozenset()
    telling: frozenset[str] = frozenset()

    def tier(self, text: str) -> int:
        """Return the tier of words: 1 where they tell chunks apart, 2 asked, 3 anything else."""
        asked = self.words.intersection(words_of(text))
        return 3 if not asked else 1 if asked - self.common else 2

    def stretch_tier(self, stretch: str) -> int:
        """Return the tier of a stretch of running text."""
        return 1 if stretch in self.telling else max(self.tier(stretch), 2)

    def amount_tier(self, fragment: Fragment) -> int:
        """Return the tier of an amount: who acts must know that it is beyond the limit."""
        return 0 if self.wish is not None and self.wish.excludes(fragment) else 3


def asked_of(view: View, instruction: str, chunks: Sequence[Chunk]) -> Asked:
    """Return what the instruction asks of the page that ``chunks`` make."""
    wish = wish_of(view, instruction)
    words = frozenset((*wish.words, *wish.value_words))
    titles = [set(words_of(title_of(view, c))) for c in chunks if c.role == "entry"]
    common = {w for w in words if titles and sum(w in t for t in titles) > 0.5 * len(titles)}
    running = [
        stretch
        for chunk in chunks
        if chunk.role == "text"
        for fragment in render(view, chunk)
        if fragment.action is None and fragment.role == "text"
        for line in fragment.text.splitlines()
        for stretch in stretches(headed(line)[1])
    ]
    return Asked(wish, words, frozenset(common), _telling(frozenset(wish.words), running))


def _telling(words: frozenset[str], offered: Sequence[str]) -> frozenset[str]:
    """Choose few of ``offered`` that together name all of ``words`` that any names (greedy cover)."""
    holds = {stretch: words.intersection(words_of(stretch)) for stretch in offered}
    missing = set().union(*holds.values())
    chosen: set[str] = set()
    while missing:
        best = max(holds, key=lambda s: (len(holds[s] & missing), -len(s)))
        chosen.add(best)
        missing -= holds[best]
    return frozenset(chosen)


def headed(line: str) -> tuple[str, str]:
    """Split "Head: words" into its head ("" if there is none) and the rest, its space included."""
    head, colon, rest = line.partition(": ")
    return (head, " " + rest) if colon and " " not in head else ("", line)


def stretches(text: str) -> Iterator[str]:
    """Yield stretches of a few words, broken at punctuation; joined they are the text."""
    start = 0
    breaks = [match.start() for match in _BREAK.finditer(text)]
    for end in (*breaks, len(text)):
        words = _WORD.findall(text[start:end])
        for i in range(0, len(words), _STRETCH_WORDS):
            yield "".join(words[i : i + _STRETCH_WORDS])
        start = end
