"""The parts of results that stay, by chance of need and by cost, and the text that is made of them.

A token of a prompt costs ``PRICE``: it is written to the provider's cache once (1.25) and read from it
by some eight later calls (.1 each). A needed part that is gone costs ``LOSS`` tokens: at best a further
call by ``recall``, at worst a task that fails with all its calls. So a part stays where
``chance * LOSS >= tokens * PRICE``. It pays for the parts that lead it unless they are shown already.
What is missing is said in a note that closes the text: "[cut 512 tokens: recall 9f3a1]".
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from stategate.envs.messages.history import tokens_in
from stategate.envs.messages.needs import IDENTIFIES
from stategate.envs.messages.reading import Span, spans
from stategate.nodes.protocols import Vector
from stategate.nodes.retrieval.history import Results, excerpt, word_scores

PRICE = 2.0
LOSS = 15_000.0
_LIST = 20  # entries of a list that share their chances
_MARKS = re.compile(r"[\w\s]+")  # what is left without it is the form of a list's entry
_ENDS = 5  # parts at each end of a new result that are shown where little else is
_ENDS_TOKENS = 150  # of a new result's first and last parts
_GAP_TOKENS = 2  # an omission beside a part
_PROSE = re.compile(
    r"(?:(?<=[\s\"'>(,])|^)[a-z][a-z;'()-]*,?(?:\s+[A-Za-z]?[a-z;'()-]*[.,]?(?=[\s\"'<,]|$)){6,}"
)
_WORDS_CHANCE = 0.08  # of the part that shares the rarest words with what is asked
_WORTH_A_CUT = 0.7  # a part without its prose is at most so large, or it is not offered
_PROSE_CHANCE = 0.05  # of a part's chance falls to its prose
_NOTE = "[cut "
#: What stands for prose within a part.
ELISION = "…"

#: The visible text of a result's parts, by their number; a part without an entry is not shown.
Shown = Mapping[int, str]


def adjusted(chances: Mapping[str, Vector], results: Results, query: str) -> dict[str, Vector]:
    """Return the parts' chances, corrected for long lists and for words shared with the query.

    A long list has few needed entries, whatever its length: its entries share their chances. Entries
    have the same leads and the same punctuation. A part that shares the rarest words with the query is
    shown, whatever its chance.
    """
    scores = word_scores(query, [part for parts in results.values() for part in parts])
    top = float(scores.max(initial=0.0)) or 1.0
    ours: dict[str, Vector] = {}
    start = 0
    for name, parts in results.items():
        words = scores[start : start + len(parts)] / top
        lists = [(part.leads, _MARKS.sub("", part.text)) for part in parts]
        lengths = Counter(lists)
        share = np.array([min(1.0, _LIST / lengths[entry]) for entry in lists])
        ours[name] = np.maximum(chances[name] * share, _WORDS_CHANCE * words**4)
        start += len(parts)
    return ours


def select(results: Results, chances: Mapping[str, Vector], budget: int) -> dict[str, Shown]:
    """Return what to show of each result, at most ``budget`` tokens together, by worth per token.

    A row's values come first, its prose after every row's values: a part is offered without its prose,
    and the prose as an addition, unless nothing but prose is in it.
    """
    offers = (
        (chance / size, name, part, text, size)
        for name, parts in results.items()
        for part, text, size, chance in _offers(parts, chances[name])
    )
    visible: dict[str, dict[int, str]] = {name: {} for name in results}
    room = budget
    for worth, name, part, text, size in sorted(offers, key=lambda offer: -offer[0]):
        if worth * LOSS < PRICE:
            break
        shown = visible[name]
        leads = [lead for lead in part.leads if lead.number not in shown]
        whole_size = size + sum(lead.size for lead in leads)
        if whole_size <= room:
            room -= whole_size
            shown |= {lead.number: lead.visible_text for lead in leads}
            shown[part.number] = text
    return {**visible}


def ends(results: Results, budget: int) -> dict[str, Shown]:
    """Return the first and last parts of new ``results``, of which little is shown."""
    chances = {name: np.zeros(len(parts), dtype=np.float32) for name, parts in results.items()}
    for row in chances.values():
        row[:_ENDS] = row[-_ENDS:] = 1.0
    return select(results, chances, min(budget, _ENDS_TOKENS))


def _offers(parts: Sequence[Span], chances: Vector) -> Iterator[tuple[Span, str, int, float]]:
    """Yield each way to show a part: its text, its tokens, the chance that a later turn needs it."""
    for part, chance in zip(parts, chances, strict=True):
        whole, size = part.visible_text, part.size
        if not size or (part.is_lead and chance < 0.01):
            continue
        chance = float(chance)
        # Without its stretches of plain words: ids, amounts, dates and paths stay.
        short = _PROSE.sub(ELISION, whole) if size > 12 else whole
        short_size = tokens_in(short) if short != whole else size
        if short_size <= _WORTH_A_CUT * size and IDENTIFIES.search(short):
            yield part, short, short_size + _GAP_TOKENS, chance
            chance *= _PROSE_CHANCE
        yield part, whole, size + _GAP_TOKENS, chance


def is_shortened(text: str) -> bool:
    """Say whether a result ends with such a note: another middleware has shortened it."""
    return text.rpartition("\n")[2].startswith(_NOTE)


def rendered(name: str, text: str, shown: Shown, recall: str, beyond: int = 0) -> str:
    """Return the text made of the parts that are ``shown``, of those that lead them, and of a note.

    The note names the tool ``recall`` ("" for none) and the result. All of ``text`` is returned where
    everything is shown, or where the note would cost more than it saves; not where ``text`` is a part
    of a result with ``beyond`` more tokens.
    """
    body = excerpt(spans(text), shown)
    size = tokens_in(text) + beyond
    way_back = f": {recall} {name}" if recall else ""
    note = f"{_NOTE}{max(size - tokens_in(body), 1)} tokens{way_back}]"
    shortened = "\n".join(filter(None, (body, note)))
    is_whole = body == text.rstrip() and not beyond
    return text if is_whole or tokens_in(shortened) >= size else shortened
