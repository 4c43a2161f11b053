"""The parts of results that stay, by chance of need and by cost, and the text that is made of them.

A token of a prompt costs ``PRICE``: it is written to the provider's cache once (1.25) and read from it
by some eight later calls (.1 each). A needed part that is gone costs ``LOSS`` tokens: at best a further
call by ``recall``, at worst a task that fails with all its calls. So a part stays where
``chance * LOSS >= tokens * PRICE``. It pays for the parts that lead it (``Chunk.data["leads"]``: their
indices in its result) unless they are shown already. What is missing is said in a note that closes the
text: "[cut 512 tokens: recall 9f3a1]".
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from stategate.envs.messages.history import tokens_in
from stategate.envs.messages.needs import IDENTIFIES
from stategate.envs.protocols import Chunk
from stategate.nodes.protocols import Vector
from stategate.nodes.retrieval.history import excerpt, word_scores

PRICE = 2.0
LOSS = 25_000.0
_LIST = 20  # entries of a list that share their chances
_MARKS = re.compile(r"[\w\s]+")  # what is left without it is the form of a list's entry
_ENDS = 5  # parts at each end of a new result that are shown where little else is
_ENDS_TOKENS = 150  # of a new result's first and last parts
_GAP_TOKENS = 2  # an omission beside a part
_PROSE = re.compile(
    r"(?:(?<=[\s\"'>(,])|^)[a-z][a-z;'()-]*,?(?:\s+[A-Za-z]?[a-z;'()-]*[.,]?(?=[\s\"'<,]|$)){6,}"
)
_WORDS_CHANCE = 0.05  # of the part that shares the rarest words with what is asked
_WORTH_A_CUT = 0.7  # a part without its prose is at most so large, or it is not offered
_PROSE_CHANCE = 0.05  # of a part's chance falls to its prose
_NOTE = re.compile(r"\[cut \d+ tokens(: \S+ \S+)?\]\Z")
#: What stands for prose within a part.
ELISION = "…"

#: The visible text of parts, by the id of their chunk; a part without an entry is not shown.
Shown = Mapping[str, str]


@dataclass(frozen=True)
class Offer:
    """A way to show a part: ``text`` for ``size`` tokens; ``chance`` that a later turn needs it."""

    chunk: Chunk
    leads: Sequence[Chunk]
    text: str
    size: int
    chance: float


def adjusted(
    chances: Mapping[str, Vector], results: Mapping[str, Sequence[Chunk]], query: str
) -> dict[str, Vector]:
    """Return the parts' chances, corrected for long lists and for words shared with the query.

    A long list has few needed entries, whatever its length: its entries share their chances. Entries
    have the same leads and the same punctuation. A part that shares the rarest words with the query is
    shown, whatever its chance.
    """
    scores = word_scores(query, [chunk for parts in results.values() for chunk in parts])
    top = float(scores.max(initial=0.0)) or 1.0
    ours: dict[str, Vector] = {}
    start = 0
    for name, parts in results.items():
        words = scores[start : start + len(parts)] / top
        lists = [(chunk.data["leads"], _MARKS.sub("", chunk.text)) for chunk in parts]
        lengths = Counter(lists)
        share = np.array([min(1.0, _LIST / lengths[entry]) for entry in lists])
        ours[name] = np.maximum(chances[name] * share, _WORDS_CHANCE * words**4)
        start += len(parts)
    return ours


def select(
    results: Mapping[str, Sequence[Chunk]],
    chances: Mapping[str, Vector],
    budget: int,
) -> Shown:
    """Return what to show of ``results``, at most ``budget`` tokens, by worth per token.

    A row's values come first, its prose after every row's values: a part is offered without its prose,
    and the prose as an addition, unless nothing but prose is in it.
    """
    offers = [o for name, parts in results.items() for o in _offers(parts, chances[name])]
    offers.sort(key=lambda offer: -offer.chance / offer.size)
    visible: dict[str, str] = {}
    room = budget
    for offer in offers:
        if offer.chance * LOSS < offer.size * PRICE:
            continue
        leads = [lead for lead in offer.leads if lead.id not in visible]
        size = offer.size + sum(int(lead.data["size"]) for lead in leads)
        if size <= room:
            room -= size
            visible |= {lead.id: lead.text.strip() for lead in leads}
            visible[offer.chunk.id] = offer.text
    return visible


def ends(results: Mapping[str, Sequence[Chunk]], budget: int) -> Shown:
    """Return the first and last parts of new ``results``, of which little is shown."""
    chances = {name: np.zeros(len(parts), dtype=np.float32) for name, parts in results.items()}
    for row in chances.values():
        row[:_ENDS] = row[-_ENDS:] = 1.0
    return select(results, chances, min(budget, _ENDS_TOKENS))


def _offers(parts: Sequence[Chunk], chances: Vector) -> list[Offer]:
    """Return the ways to show each part."""
    offers = []
    for chunk, chance in zip(parts, chances, strict=True):
        whole, size = chunk.text.strip(), int(chunk.data["size"])
        if not size or (chunk.data["is_lead"] and chance < 0.01):
            continue
        chance = float(chance)
        leads = [parts[i] for i in chunk.data["leads"]]
        # Without its stretches of plain words: ids, amounts, dates and paths stay.
        short = _PROSE.sub(ELISION, whole) if size > 12 else whole
        short_size = tokens_in(short) if short != whole else size
        if short_size <= _WORTH_A_CUT * size and IDENTIFIES.search(short):
            offers.append(Offer(chunk, leads, short, short_size + _GAP_TOKENS, chance))
            chance *= _PROSE_CHANCE
        offers.append(Offer(chunk, leads, whole, size + _GAP_TOKENS, chance))
    return offers


@dataclass(frozen=True)
class Rendering:
    """A result's visible text, its tokens, and the reason; ``is_note``: nothing but a note."""

    text: str
    size: int
    why: str = ""
    is_note: bool = False


def is_shortened(text: str) -> bool:
    """Say whether a result ends with such a note: another middleware has shortened it."""
    return bool(_NOTE.search(text))


def rendered(
    name: str, text: str, chunks: Sequence[Chunk], shown: Shown, recall: str, beyond: int = 0
) -> Rendering:
    """Return the text made of the parts that are ``shown``, of those that lead them, and of a note.

    The note names the tool ``recall`` ("" for none) and the result. All of ``text`` is returned where
    everything is shown, or where the note would cost more than it saves; not where ``text`` is a part
    of a result with ``beyond`` more tokens.
    """
    indices = [i for i, chunk in enumerate(chunks) if shown.get(chunk.id, "").strip()]
    body = excerpt(chunks, indices, shown)
    size = tokens_in(text)
    cut = max(size + beyond - tokens_in(body), 1)
    way_back = f": {recall} {name}" if recall else ""
    shortened = "\n".join(filter(None, (body, f"[cut {cut} tokens{way_back}]")))
    shortened_size = tokens_in(shortened)
    is_whole = body == text.rstrip() and not beyond
    if is_whole or shortened_size >= size + beyond:
        return Rendering(text, size)
    return Rendering(shortened, shortened_size, is_note=not indices)
