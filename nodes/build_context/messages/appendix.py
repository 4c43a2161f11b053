"""What the newest messages need of earlier results that are no longer shown: an appendix.

By words alone: a part comes back where it holds rare words (names, numbers) of what was just said,
called or returned. What comes back is text of results, quoted with its source and what leads it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from stategate.nodes.retrieval.history import chunks_of, excerpt, shown_text, word_scores, words_in
from stategate.stores.text import words_of
from stategate.stores.tokens import count_tokens

LEAD = "[from earlier results]"
_LEAST = 2.0  # of a part's score: about two words that few parts hold
_NEAR = 0.6  # of the best score
_QUERY_WORDS = 150
_TRIED = 40  # candidates that are looked at for room


@dataclass(frozen=True)
class Hidden:
    """An earlier result that is not shown whole: its name, the call it answers, what is shown."""

    key: str
    name: str
    source: str
    text: str
    shown: str


def appendix_for(hidden: Sequence[Hidden], query: str, already: str, room: int) -> str:
    """Return a few parts of ``hidden`` results (oldest first) that ``query`` names.

    They have at most ``room`` tokens; "" where nothing fits or is worth it.
    """
    words = tuple(dict.fromkeys(words_of(query)))[:_QUERY_WORDS]
    if not words or room < 20:
        return ""
    rows = [
        (result, place, chunk)
        for result in hidden
        for place, chunk in enumerate(chunks_of(result.key, result.text))
    ]
    scores = word_scores(dict.fromkeys(words, 1.0), [chunk for *_, chunk in rows])
    order = sorted(range(len(rows)), key=lambda i: (-scores[i], -i))
    least = _LEAST
    chosen: dict[str, list[int]] = {}
    appendix = ""
    for i in order[:_TRIED]:
        result, place, chunk = rows[i]
        text = " ".join(shown_text(chunk).split())
        if scores[i] < least:
            break
        is_known = not text or chunk.text.strip() in result.shown or text in already
        if is_known or not words_in(chunk) - set(words):  # it says nothing new
            continue
        least = max(least, _NEAR * float(scores[i]))  # of the best that does
        tried = {**chosen, result.key: [*chosen.get(result.key, ()), place]}
        longer = _quoted(hidden, tried)
        if count_tokens(longer) <= room:
            chosen, appendix = tried, longer
    return appendix


def _quoted(hidden: Sequence[Hidden], chosen: dict[str, list[int]]) -> str:
    parts = [LEAD]
    for result in hidden:
        if result.key in chosen:
            parts.append(f"{result.name} {result.source}:")
            parts.append(excerpt(chunks_of(result.key, result.text), chosen[result.key]))
    return "\n".join(parts)
