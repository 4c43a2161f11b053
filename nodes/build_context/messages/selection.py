"""The selection of result parts by probability of need and by cost.

A token of a prompt costs ``PRICE``: it is written to the provider's cache once (1.25) and read from it
by some eight later calls (.1 each). A needed part that is gone costs ``LOSS`` tokens: at best a further
call by ``recall``, at worst a task that fails with all its calls. So a part stays where
``chance * LOSS >= tokens * PRICE``.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from stategate.envs.messages.history import Count
from stategate.envs.protocols import Chunk
from stategate.nodes.build_context.messages.parts import ELISION
from stategate.nodes.protocols import Piece, Vector
from stategate.nodes.retrieval.history import visible_text, word_scores
from stategate.stores.text import words_of

PRICE = 2.0
LOSS = 40_000.0
_LIST, _HEAD = 20, 5  # entries of a list from which on they share their chances, but for the first
_GAP_TOKENS = 2  # an omission beside a part
_PROSE = re.compile(
    r"(?:(?<=[\s\"'>(])|^)[a-z][a-z,;'()-]*(?:\s+[A-Za-z]?[a-z,;'()-]*[.,]?(?=[\s\"'<]|$)){6,}"
)
_WORDS_CHANCE = 0.05  # of the part that shares the rarest words with what is asked
_WORTH_A_CUT = 0.7  # a part without its prose is at most so large, or it is not offered
_PROSE_CHANCE = 0.05  # of a part's chance falls to its prose


@dataclass(frozen=True)
class Offer:
    """A way to show a part: ``text`` for ``size`` tokens; ``chance`` that a later turn needs it."""

    chunk: Chunk
    leads: tuple[int, ...]
    text: str
    size: int
    chance: float


def without_prose(text: str) -> str:
    """Return ``text`` with its stretches of plain words elided; ids, amounts, dates, paths stay."""
    return _PROSE.sub(ELISION, text)


def adjusted(
    chances: Mapping[str, Vector], results: Mapping[str, Sequence[Chunk]], query_text: str
) -> dict[str, Vector]:
    """Return the parts' chances, corrected for long lists and for words shared with the query.

    A long list has few needed entries, whatever its length: its entries share their chances, except the
    first ones, which show what the list is. A part that shares the rarest words with the query is
    shown, whatever its chance.
    """
    query = dict.fromkeys(words_of(query_text), 1.0)
    scores = word_scores(query, [chunk for parts in results.values() for chunk in parts])
    top = float(scores.max(initial=0.0)) or 1.0
    ours: dict[str, Vector] = {}
    start = 0
    for name, parts in results.items():
        siblings = Counter(chunk.data["leads"] for chunk in parts)
        places: Counter[tuple[int, ...]] = Counter()
        share = np.ones(len(parts), dtype=np.float32)
        for number, chunk in enumerate(parts):
            leads = chunk.data["leads"]
            places[leads] += 1
            if places[leads] > _HEAD:
                share[number] = min(1.0, _LIST / siblings[leads])
        words = scores[start : start + len(parts)] / top
        ours[name] = np.maximum(chances[name] * share, _WORDS_CHANCE * words**4)
        start += len(parts)
    return ours


def select(
    results: Mapping[str, Sequence[Chunk]],
    chances: Mapping[str, Vector],
    budget: int,
    count: Count,
    loss: float = LOSS,
) -> dict[str, Piece]:
    """Return the pieces to show of ``results``, at most ``budget`` tokens, by worth per token.

    A row's values come first, its prose after every row's values: a part is offered without its prose,
    and the prose as an addition.
    """
    offers = [o for name, parts in results.items() for o in _offers(parts, chances[name], count)]
    offers.sort(key=lambda offer: -offer.chance / offer.size)
    pieces: dict[str, Piece] = {}
    room = budget
    for offer in offers:
        if offer.chance * loss < offer.size * PRICE:
            continue
        parts = results[offer.chunk.id.rpartition("/")[0]]
        leads = [parts[i] for i in offer.leads if parts[i].id not in pieces]
        size = offer.size + sum(int(lead.data["size"]) for lead in leads)
        if size > room:
            continue
        room -= size
        for lead in leads:
            pieces[lead.id] = _piece(lead, visible_text(lead), offer.chance)
        pieces[offer.chunk.id] = _piece(offer.chunk, offer.text, offer.chance)
    return _without_holes(results, pieces)


def _offers(parts: Sequence[Chunk], chances: Vector, count: Count) -> list[Offer]:
    """Return the ways to show each part."""
    offers = []
    for chunk, chance in zip(parts, chances, strict=True):
        whole, size = visible_text(chunk), int(chunk.data["size"])
        leads = chunk.data["leads"]
        if not size or (chunk.data["is_lead"] and chance < 0.01):
            continue
        chance = float(chance)
        short = without_prose(whole) if size > 12 else whole
        short_size = count(short) if short != whole else size
        if short_size <= _WORTH_A_CUT * size:
            offers.append(Offer(chunk, leads, short, short_size + _GAP_TOKENS, chance))
            chance *= _PROSE_CHANCE
        offers.append(Offer(chunk, leads, whole, size + _GAP_TOKENS, chance))
    return offers


def _piece(chunk: Chunk, text: str, score: float) -> Piece:
    size = int(chunk.data["size"])
    is_cut = text != visible_text(chunk)
    return Piece(chunk.id, chunk.kind, text, (), max(size, 2), 1 if is_cut else max(size, 2), score)


def _without_holes(
    results: Mapping[str, Sequence[Chunk]], pieces: Mapping[str, Piece]
) -> dict[str, Piece]:
    """Return the pieces with every part added that costs no more than its omission sign."""
    filled = dict(pieces)
    for parts in results.values():
        for before, chunk, after in zip(parts, parts[1:], parts[2:], strict=False):
            is_hole = before.id in filled and after.id in pieces and chunk.id not in filled
            if is_hole and int(chunk.data["size"]) <= _GAP_TOKENS + 1:
                filled[chunk.id] = _piece(chunk, visible_text(chunk), 0.0)
    return filled
