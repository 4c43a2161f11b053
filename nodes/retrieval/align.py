"""The aligner: an instruction's words matched with a page's chunks, as its world's view gives them.

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

_RANK_COST = 0.04  # of each entry further down the page: order breaks near-ties
_TALK = 0.2  # how much a word must matter for its sentence to be more than talk
_MATCHED = 0.3  # how much a word must matter to be matched with a page
_SURE = 0.5  # probability above which a word is asked for, or a role certain
_CERTAIN = 0.95  # probability from which a reading is shown without it
_CLEAR_SHARE = 0.4  # of the asked words that a page must hold for a clear match
_MIN_QUALITY = 0.6  # of a match between a word and a text
_WORD = re.compile(r"\s*\S+")
_CLAUSE_END = re.compile(r"(?<=[.;!?,])\s+")
_SENTENCE = re.compile(r"(?<=[.!?;\n])\s+")
_STRETCH_WORDS = 8
_WORTH_LEVELS = 8  # to which a token's worth is rounded, so that near-ties keep text order


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
    for rank, i in enumerate(waiting):
        features[i, 1] = 1 / (1 + rank)
    unopened = [
        i
        for i, c in enumerate(chunks)
        if c.role == "entry" and not features[i, 3] and not features[i, 4]
    ]
    cover, rarity = compared(parsed, [title_of(chunks[i]) for i in unopened])
    scores = (cover @ rarity / (float(rarity.sum()) or 1.0)).tolist()
    order = sorted(range(len(unopened)), key=lambda k: _RANK_COST * k - scores[k])
    for rank, k in enumerate(order):
        features[unopened[k], 2] = 1 / (1 + rank)
    return features


def compared(
    parsed: ParsedInstruction, titles: Sequence[str]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return how well titles cover the instruction's tokens, and each token's weight in comparing them.

    The fewer titles hold a token, the more it weighs. Shapes are (titles, tokens) and (tokens,).
    """
    cover = np.array([covered(parsed, title) for title in titles], dtype=np.float32)
    cover = cover.reshape(len(titles), len(parsed.tokens))
    rarity = np.log((len(titles) + 1) / ((cover > _MIN_QUALITY).sum(axis=0) + 1)) + 0.2
    return cover, np.asarray(np.asarray(parsed.matters) * rarity, dtype=np.float32)


def title_of(chunk: Chunk) -> str:
    """Return the title of an entry, as the prompt would show it."""
    return "".join(f.text for f in render(chunk) if f.role == "title")


def choice_scores(instruction: str, chunks: Sequence[Chunk]) -> dict[int, ChoiceScores]:
    """Return the instruction's scores for each choice on a page, by the index of its chunk."""
    indices = [i for i, chunk in enumerate(chunks) if chunk.choice is not None]
    choices = [chunks[i].choice for i in indices]
    title = " ".join(title_of(chunk) for chunk in chunks if chunk.role == "subject")
    named = tuple((c.name, tuple(c.values)) for c in choices if isinstance(c, Choice))
    return dict(zip(indices, score_choices(instruction, named, title), strict=True))


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
    weights = parsed.matters
    cuts = [0, *(m.start() for m in _SENTENCE.finditer(instruction)), len(instruction)]
    understood = max(weights, default=0.0) >= _SURE
    parts = []
    for start, end in itertools.pairwise(cuts):
        if start == end:
            continue
        inside = [i for i, t in enumerate(parsed.tokens) if start <= t.start < end]
        matter = any(weights[i] >= _TALK or i in parsed.in_limit for i in inside)
        negates = any(parsed.excluded[i] >= _SURE for i in inside)
        parts.append((start, end, understood and not matter and not negates))
    return tuple(parts)


# Fragments: which words of a page are asked for ---------------------------------------------------


@dataclass(frozen=True)
class Focus:
    """The tiers of words: asked ones are shown first, those that tell competing entries apart before.

    ``rivals`` are the entries among which a choice is to be made, by chunk id; ``worth`` says of each
    token of the instruction how far it tells their titles apart. ``telling`` are the stretches of the
    page's running text that together name all asked words that it holds. Without ``parsed`` only
    ``words`` count.
    """

    parsed: ParsedInstruction | None = None
    rivals: frozenset[str] = frozenset()
    worth: tuple[float, ...] = ()
    telling: frozenset[str] = frozenset()
    #: In partially observed worlds: stems of the asked thing and its properties, and all asked stems.
    things: frozenset[str] = frozenset()
    words: frozenset[str] = frozenset()

    def tier(self, text: str) -> int:
        """Return the tier of words: 1 where the instruction names them, else 3."""
        if self.parsed is None:
            return 1 if self.words.intersection(words_of(text)) else 3
        return 1 if _goal_tokens(self.parsed, text) else 3

    def title_tier(self, chunk: Chunk, word: str, title_words: set[int]) -> float:
        """Return the tier of a title's word, and add the goal's tokens it matches to ``title_words``.

        A repeated match is not shown twice. All entries show the same words first, those that
        tell them apart best, so that they can be compared.
        """
        if self.parsed is None:
            return self.tier(word)
        new_tokens = _goal_tokens(self.parsed, word) - title_words
        title_words |= new_tokens
        if not new_tokens:
            return 3
        if chunk.role != "entry":
            return 1
        return 2 - 0.9 * max(self.worth[i] for i in new_tokens) + (chunk.id not in self.rivals)

    def stretch_tier(self, stretch: str) -> int:
        """Return the tier of a stretch of running text."""
        return 1 if stretch in self.telling else max(self.tier(stretch), 2)

    def amount_tier(self, fragment: Fragment) -> int:
        """Return the tier of an amount: 0 beyond the limit, which an actor must know."""
        return 0 if self.parsed is not None and self.parsed.excludes(fragment.amount) else 3


def focus_on(request: ContextRequest) -> Focus:
    """Return the focus of the request: asked words, rival entries, and the set cover of its text."""
    chunks = request.source.all()
    if request.profile.partially_observed:
        # Also of what is meant by all that was seen: "salt shakers" may be pepper shakers.
        past = [c.data for c in chunks if c.role == "past"]
        steps = [(str(data["action"]), str(data["outcome"])) for data in past]
        page = request.observation
        clauses = (
            *request.view.clauses(request.instruction),
            *request.view.clauses_here(request.instruction, steps, page.text, page.actions),
        )
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
        for stretch in stretches(split_head(line)[1])
    ]
    return Focus(parsed, rivals, worth, _set_cover(parsed, running))


def _rivals(
    parsed: ParsedInstruction, entries: Sequence[Chunk]
) -> tuple[frozenset[str], tuple[float, ...]]:
    """Return the best-scored entries and how well (0 to 1) each token tells their titles apart.

    Entries opened before, or beyond the limit, are no rivals.
    """
    fresh = [
        chunk
        for chunk in entries
        if not chunk.is_visited and not any(parsed.excludes(f.amount) for f in render(chunk))
    ]
    titles = [title_of(chunk) for chunk in fresh]
    _, worth = compared(parsed, titles)
    title_words = set().union(*(_goal_tokens(parsed, title) for title in titles))
    top = max((float(worth[i]) for i in title_words), default=1.0)
    steps = (min(1.0, round(float(x) / top * _WORTH_LEVELS) / _WORTH_LEVELS) for x in worth)
    return frozenset(chunk.id for chunk in fresh), tuple(steps)


def clarity(request: ContextRequest) -> float:
    """Return how clearly (0 to 1) the instruction's words match the candidates.

    Clear: the page holds enough of the words, weighted by how much they matter, and each choice that
    it offers is surely asked or surely open.
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
        for i, quality in zip(span.places, span.quality, strict=False):
            cover[i] = max(cover[i], quality)
    if not cover.any() and not any(chunk.role in ("entry", "subject") for chunk in chunks):
        return 1.0  # no entries to choose among
    sure = min((max(*choice.requested, choice.none) for choice in choices), default=1.0)
    return min(sure, float(weights @ cover) / float(weights.sum()) / _CLEAR_SHARE, 1.0)


@lru_cache(maxsize=65536)
def _goal_tokens(parsed: ParsedInstruction, text: str) -> frozenset[int]:
    """Return the indices of the instruction's content tokens that ``text`` contains."""
    weights = parsed.matters
    return frozenset(
        i
        for token in content(text)
        for i, quality in token_matches(parsed, token)
        if quality >= _MIN_QUALITY and weights[i] >= _MATCHED
    )


def _set_cover(parsed: ParsedInstruction, candidates: Sequence[str]) -> frozenset[str]:
    """Return the greedy set cover: few ``candidates`` with all the goal's tokens that any matches."""
    holds = {stretch: _goal_tokens(parsed, stretch) for stretch in candidates}
    missing = set().union(*holds.values())
    chosen: set[str] = set()
    while missing:
        best = max(holds, key=lambda s: (len(holds[s] & missing), -len(s)))
        chosen.add(best)
        missing -= holds[best]
    return frozenset(chosen)


def split_head(line: str) -> tuple[str, str]:
    """Split "Head: words" into its head ("" if there is none) and the rest, its space included."""
    head, colon, body = line.partition(": ")
    return (head, " " + body) if colon and " " not in head else ("", line)


def stretches(text: str) -> Iterator[str]:
    """Yield stretches of a few words, broken at punctuation; joined they are the text."""
    breaks = (match.start() for match in _CLAUSE_END.finditer(text))
    for start, end in itertools.pairwise((0, *breaks, len(text))):
        yield from word_runs(text[start:end])


def word_runs(text: str) -> Iterator[str]:
    """Yield runs of a few words; joined they are the text."""
    words = _WORD.findall(text)
    for i in range(0, len(words), _STRETCH_WORDS):
        yield "".join(words[i : i + _STRETCH_WORDS])


def is_understood(view: View, instruction: str) -> bool:
    """Say whether any word of an instruction is surely asked for, or its clauses are on average."""
    average = np.mean([clause.probability for clause in view.clauses(instruction)] or [0.0])
    return max(float(average), *parse(instruction).matters, 0.0) >= _SURE


def parts_read(view: View, instruction: str) -> list[str]:
    """Return how each part of an instruction is read: "thing: salt shakers → saltshaker (0.68)".

    The probability is said where the reading is not sure. Nothing is read where the world's view does
    not tell things from properties.
    """
    clauses, parts = view.clauses(instruction), list[str]()
    if all(clause.role == "property" for clause in clauses):
        return parts
    for clause in clauses:
        said = instruction[clause.start : clause.end]
        read = clause.text if clause.text in said or not said else f"{said} → {clause.text}"
        doubt = f" ({clause.probability:.2f})" if clause.probability < _CERTAIN else ""
        parts.append(f"{clause.name or clause.role}: {read}{doubt}")
    parsed = parse(instruction)
    excluded = [t.word for t, p in zip(parsed.tokens, parsed.excluded, strict=True) if p >= _SURE]
    return [*parts, *([f"not: {' '.join(excluded)}"] if excluded else [])]


def unsure_parts(view: View, instruction: str) -> list[str]:
    """Return the words of an instruction whose role is in doubt, or all where none is understood."""
    if not is_understood(view, instruction):
        return [f'"{instruction}"']
    clauses, parsed = view.clauses(instruction), parse(instruction)
    doubts = [(c.start, c.end, c.name or c.role) for c in clauses if c.probability < _SURE]
    for i, token in enumerate(parsed.tokens):
        is_open = _TALK <= parsed.matters[i] < _SURE and parsed.excluded[i] < _SURE
        if is_open and not any(
            c.start <= token.start < c.end or token.word in c.text for c in clauses
        ):
            doubts.append((token.start, token.end, ""))
    return [
        f'"{instruction[start:end]}"' if end > start else f"which {name}"
        for start, end, name in sorted(doubts)
    ]
