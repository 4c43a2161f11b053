"""The aligner: what is asked meets what a page offers, in the terms of its world's view.

``language.instruction`` reads an instruction: how much each word matters, limits, what is excluded;
learned and calibrated, the same for every world. Here its scores become what nodes need of a page:
match features of chunks for rankers, and for ``compress`` the tier of each word and amount, and which
parts of the instruction are mere talk.
"""

import itertools
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from stategate.envs.protocols import Choice, Chunk, Fragment, View
from stategate.language.amounts import content
from stategate.language.instruction.choices import (
    ChoiceScores,
    covered,
    score_choices,
    token_matches,
)
from stategate.language.instruction.parsed import ParsedInstruction, parse
from stategate.nodes.protocols import ContextRequest
from stategate.nodes.retrieval.page import describe, render
from stategate.stores.text import words_of

_PLACE_COST = 0.04  # of standing one place further down the page
_TALK = 0.2  # how much a word must matter for its sentence to be more than talk
_ASKED = 0.3  # how much a word must matter to be looked for on a page
_SURE = 0.5  # how much a word must matter to be asked
_ENOUGH = 0.4  # share of the asked words that a page must say for a clear match
_SAID = 0.6  # how far a word must be said
_WORD = re.compile(r"\s*\S+")
_BREAK = re.compile(r"(?<=[.;!?,])\s+")
_SENTENCE = re.compile(r"(?<=[.!?;\n])\s+")
_STRETCH_WORDS = 8
_STEPS = 8  # how finely words are told apart by what they tell


# Chunks: features that say what embeddings cannot ---------------------------------------------------

#: Columns of :func:`match`. Only append: checkpoints hold a weight for each.
FEATURES = ("asked words", "next choice", "next entry", "beyond the limit", "done before")


def match(instruction: str, chunks: Sequence[Chunk], done: Collection[str]) -> NDArray[np.float32]:
    """Return features (n, len(FEATURES)) of ``chunks``, in page order; ``done`` are past actions.

    Sentence embeddings hardly tell look-alike entries apart, nor which choice is still to be made.
    Asked words: the share of the words that matter which the chunk holds. Next choice: 1 for the first
    choice with an asked value that is not chosen yet, 1/2 for the second, ... Next entry: likewise for
    entries, by asked words in the title (rare ones on this page count more), without those opened
    before or beyond the limit.
    """
    parsed = parse(instruction)
    weights = np.asarray(parsed.matters, dtype=np.float32)
    total = float(weights.sum()) or 1.0
    features = np.zeros((len(chunks), len(FEATURES)), dtype=np.float32)
    for i, chunk in enumerate(chunks):
        cover = np.asarray(covered(parsed, describe(chunk)), dtype=np.float32)
        features[i, 0] = float(weights @ cover) / total if len(weights) else 0.0
        features[i, 3] = float(
            chunk.role == "entry" and any(parsed.excludes(f.amount) for f in render(chunk))
        )
        is_opened = chunk.is_visited or any(action.lower() in done for action in chunk.actions)
        features[i, 4] = float(chunk.role == "entry" and is_opened)
    waiting = [
        i
        for i, choice in choice_scores(instruction, chunks).items()
        if _is_waiting(chunks[i], choice, done)
    ]
    for place, i in enumerate(waiting):
        features[i, 1] = 1 / (1 + place)
    fresh = [
        i
        for i, c in enumerate(chunks)
        if c.role == "entry" and not features[i, 3] and not features[i, 4]
    ]
    scores = entry_scores(parsed, [title_of(chunks[i]) for i in fresh])
    order = sorted(range(len(fresh)), key=lambda k: _PLACE_COST * k - scores[k])
    for place, k in enumerate(order):
        features[fresh[k], 2] = 1 / (1 + place)
    return features


def entry_scores(parsed: ParsedInstruction, titles: Sequence[str]) -> list[float]:
    """Return each title's weighted share of the instruction's words (rarer on the page weighs more)."""
    if not titles or not parsed.tokens:
        return [0.0] * len(titles)
    cover = np.array([covered(parsed, title) for title in titles], dtype=np.float32)
    weights = word_weights(parsed, titles)
    return [float(x) for x in cover @ weights / (float(weights.sum()) or 1.0)]


def word_weights(parsed: ParsedInstruction, titles: Sequence[str]) -> NDArray[np.float32]:
    """Return each instruction token's weight in comparing titles: the fewer hold it, the more."""
    cover = np.array([covered(parsed, title) for title in titles], dtype=np.float32)
    holders = (cover.reshape(len(titles), len(parsed.tokens)) > _SAID).sum(axis=0)
    rarity = np.log((len(titles) + 1) / (holders + 1)) + 0.2
    return np.asarray(np.asarray(parsed.matters) * rarity, dtype=np.float32)


def title_of(chunk: Chunk) -> str:
    """Return the title of an entry, as the prompt would show it."""
    return "".join(f.text for f in render(chunk) if f.role == "title")


def choice_scores(instruction: str, chunks: Sequence[Chunk]) -> dict[int, ChoiceScores]:
    """Return the instruction's scores for each choice on a page, by the place of its chunk."""
    places = [i for i, chunk in enumerate(chunks) if chunk.choice is not None]
    choices = [chunks[i].choice for i in places]
    title = " ".join(title_of(chunk) for chunk in chunks if chunk.role == "subject")
    named = tuple((c.name, tuple(c.values)) for c in choices if isinstance(c, Choice))
    return dict(zip(places, score_choices(instruction, named, title), strict=True))


def _is_waiting(chunk: Chunk, scores: ChoiceScores, done: Collection[str]) -> bool:
    """Say whether the instruction requests a value of this choice that is not chosen yet."""
    best = scores.best
    if chunk.choice is None or not scores.values or scores.requested[best] < scores.none:
        return False
    return scores.values[best] != chunk.choice.chosen and chunk.actions[best].lower() not in done


# The instruction: what of it is talk ----------------------------------------------------------------


@lru_cache(maxsize=1024)
def parts_of(instruction: str) -> tuple[tuple[int, int, bool], ...]:
    """Cut an instruction into (start, end, whether it is mere talk); joined they are the instruction.

    A sentence is talk where no word of it matters and it sets no limit. Where nothing is surely asked
    the instruction is not understood, and no part is.
    """
    parsed = parse(instruction)
    care = parsed.matters
    cuts = [0, *(m.start() for m in _SENTENCE.finditer(instruction)), len(instruction)]
    understood = max(care, default=0.0) >= _SURE
    parts = []
    for start, end in itertools.pairwise(cuts):
        if start == end:
            continue
        inside = [i for i, t in enumerate(parsed.tokens) if start <= t.start < end]
        matter = any(care[i] >= _TALK or i in parsed.in_limit for i in inside)
        negates = any(parsed.excluded[i] >= _SURE for i in inside)
        parts.append((start, end, understood and not matter and not negates))
    return tuple(parts)


# Fragments: which words of a page are asked for ---------------------------------------------------


@dataclass(frozen=True)
class Focus:
    """What decides how soon words are shown: asked ones, and which entries compete.

    ``rivals`` are the entries among which a choice is to be made, by chunk id; ``worth`` says of each
    token of the instruction how far it tells their titles apart. ``telling`` are the stretches of the
    page's running text that together name all asked words that it holds. Without a ``parsed`` every
    word is as good as another.
    """

    parsed: ParsedInstruction | None = None
    rivals: frozenset[str] = frozenset()
    worth: tuple[float, ...] = ()
    telling: frozenset[str] = frozenset()
    #: Where the world is seen in part: the stems asked of the thing itself, and all that are asked.
    things: frozenset[str] = frozenset()
    words: frozenset[str] = frozenset()

    def tier(self, text: str) -> int:
        """Return the tier of words: 1 where the instruction names them, else 3."""
        if self.parsed is None:
            return 1 if self.words.intersection(words_of(text)) else 3
        return 1 if _goal_places(self.parsed, text) else 3

    def title_tier(self, chunk: Chunk, word: str, title_words: set[int]) -> float:
        """Return the tier of a title's word, and add the goal's tokens it matches to ``title_words``.

        A repeated match is not shown twice. Entries show the words first that tell them apart best,
        the same in all of them, so that they can be compared.
        """
        if self.parsed is None:
            return self.tier(word)
        news = _goal_places(self.parsed, word) - title_words
        title_words |= news
        if not news:
            return 3
        if chunk.role != "entry":
            return 1
        return 2 - 0.9 * max(self.worth[i] for i in news) + (chunk.id not in self.rivals)

    def stretch_tier(self, stretch: str) -> int:
        """Return the tier of a stretch of running text."""
        return 1 if stretch in self.telling else max(self.tier(stretch), 2)

    def amount_tier(self, fragment: Fragment) -> int:
        """Return the tier of an amount: who acts must know that it is beyond the limit."""
        return 0 if self.parsed is not None and self.parsed.excludes(fragment.amount) else 3


def focus_on(request: ContextRequest) -> Focus:
    """Return what the instruction asks of the candidates."""
    chunks = request.source.all()
    if request.profile.partially_observed:
        clauses = request.view.clauses(request.instruction)
        things, values = (
            frozenset(
                word
                for c in clauses
                if c.role in roles
                for name in (c.text, *c.others)
                for word in words_of(name)
            )
            for roles in (("thing", "property"), ("value",))
        )
        return Focus(things=things, words=things | values)
    parsed = parse(request.instruction)
    entries = [chunk for chunk in chunks if chunk.role == "entry"]
    rivals, worth = _rivals(parsed, entries)
    running = [
        stretch
        for chunk in chunks
        if chunk.role == "text"
        for fragment in render(chunk)
        if fragment.action is None and fragment.role == "text"
        for line in fragment.text.splitlines()
        for stretch in stretches(headed(line)[1])
    ]
    return Focus(parsed, rivals, worth, _telling(parsed, running))


def _rivals(
    parsed: ParsedInstruction, entries: Sequence[Chunk]
) -> tuple[frozenset[str], tuple[float, ...]]:
    """Return the best-scored entries and how well (0 to 1) each token tells their titles apart.

    What was opened before, or is beyond the limit, is out of question.
    """
    fresh = [
        chunk
        for chunk in entries
        if not chunk.is_visited and not any(parsed.excludes(f.amount) for f in render(chunk))
    ]
    titles = [title_of(chunk) for chunk in fresh]
    worth = word_weights(parsed, titles)
    title_words = set().union(*(_goal_places(parsed, title) for title in titles))
    top = max((float(worth[i]) for i in title_words), default=1.0)
    steps = (min(1.0, round(float(x) / top * _STEPS) / _STEPS) for x in worth)
    return frozenset(chunk.id for chunk in fresh), tuple(steps)


def clarity(request: ContextRequest) -> float:
    """Return how clear (0 to 1) it is what the instruction asks of the candidates.

    It is clear where the page says enough of its words, weighed by how much they matter, and where
    each choice that the page offers is surely asked or surely open.
    """
    instruction, chunks = request.instruction, request.source.all()
    if request.profile.partially_observed:
        return min((c.probability for c in request.view.clauses(instruction)), default=1.0)
    parsed = parse(instruction)
    weights = np.asarray(parsed.matters, dtype=np.float32)
    if not len(weights) or weights.max() < _SURE:
        return 0.0
    cover = np.zeros_like(weights)
    for title in (title_of(chunk) for chunk in chunks if chunk.role in ("entry", "subject")):
        cover = np.maximum(cover, covered(parsed, title))
    choices = [choice for choice in choice_scores(instruction, chunks).values() if choice.values]
    for choice in choices:
        span = choice.spans[choice.best]
        for place, quality in zip(span.places, span.quality, strict=False):
            cover[place] = max(cover[place], quality)
    if not cover.any() and not any(chunk.role in ("entry", "subject") for chunk in chunks):
        return 1.0  # nothing to be told apart
    sure = min((max(*choice.requested, choice.none) for choice in choices), default=1.0)
    return min(sure, float(weights @ cover) / float(weights.sum()) / _ENOUGH, 1.0)


@lru_cache(maxsize=65536)
def _goal_places(parsed: ParsedInstruction, text: str) -> frozenset[int]:
    """Return the places of the instruction's content tokens that ``text`` contains."""
    care = parsed.matters
    return frozenset(
        place
        for token in content(text)
        for place, quality in token_matches(parsed, token)
        if quality >= _SAID and care[place] >= _ASKED
    )


def _telling(parsed: ParsedInstruction, candidates: Sequence[str]) -> frozenset[str]:
    """Return the greedy set cover: few ``candidates`` with all the goal's tokens that any matches."""
    holds = {stretch: _goal_places(parsed, stretch) for stretch in candidates}
    missing = set().union(*holds.values())
    chosen: set[str] = set()
    while missing:
        best = max(holds, key=lambda s: (len(holds[s] & missing), -len(s)))
        chosen.add(best)
        missing -= holds[best]
    return frozenset(chosen)


def headed(line: str) -> tuple[str, str]:
    """Split "Head: words" into its head ("" if there is none) and the rest, its space included."""
    head, colon, body = line.partition(": ")
    return (head, " " + body) if colon and " " not in head else ("", line)


def stretches(text: str) -> Iterator[str]:
    """Yield stretches of a few words, broken at punctuation; joined they are the text."""
    start = 0
    breaks = [match.start() for match in _BREAK.finditer(text)]
    for end in (*breaks, len(text)):
        yield from word_runs(text[start:end])
        start = end


def word_runs(text: str) -> Iterator[str]:
    """Yield runs of a few words; joined they are the text."""
    words = _WORD.findall(text)
    for i in range(0, len(words), _STRETCH_WORDS):
        yield "".join(words[i : i + _STRETCH_WORDS])


def unsure_parts(view: View, instruction: str) -> list[str]:
    """Return the words of an instruction whose best role has too low a probability."""
    doubtful = [c for c in view.clauses(instruction) if c.probability < _SURE]
    return [
        f'"{instruction[c.start : c.end]}"' if c.end > c.start else f"which {c.name or c.role}"
        for c in doubtful
    ]
