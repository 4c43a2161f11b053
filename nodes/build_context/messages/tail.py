"""What the newest messages need of earlier results that are no longer shown: brought back at the tail.

By words alone: a part comes back where it holds rare words (names, numbers) of what was just said,
called or returned. What comes back is text of results, quoted with its source.
"""

from collections.abc import Sequence

from nodes.retrieval.history import chunks_of, shown_text, word_scores, words_in
from stores.text import words_of
from stores.tokens import count_tokens

_LEAD = "[from earlier results]"
_LEAST = 2.0  # of a part's score: about two words that few parts hold
_QUERY_WORDS = 400


def tail_for(
    hidden: Sequence[tuple[str, str, str, str, str]], query: str, already: str, room: int
) -> str:
    """Return a few parts of ``hidden`` results that ``query`` names, in at most ``room`` tokens.

    ``hidden`` is (key, name, source, text, what of it is shown), oldest first; "" where nothing fits.
    """
    words = words_of(query)[:_QUERY_WORDS]
    if not words or room < 20:
        return ""
    candidates = [
        (chunk, key, f"{name} {source}:", shown)
        for key, name, source, text, shown in hidden
        for chunk in chunks_of(key, text)
    ]
    chunks = [chunk for chunk, *_ in candidates]
    counts = {word: words.count(word) for word in set(words)}
    scores = word_scores({word: min(n, 2) / 2 + 0.5 for word, n in counts.items()}, chunks)
    order = sorted(range(len(chunks)), key=lambda i: (-scores[i], -i))
    lines: dict[str, list[tuple[int, str]]] = {}
    names: dict[str, str] = {}
    left = room - count_tokens(_LEAD + "\n")
    top = float(scores[order[0]]) if order else 0.0
    for i in order:
        if scores[i] < max(_LEAST, 0.6 * top):
            break
        chunk, key, source, shown = candidates[i]
        text = " ".join(shown_text(chunk).split())
        if not text or chunk.text.strip() in shown or text in shown or text in already:
            continue
        if not words_in(chunk) - set(words):
            continue  # it says nothing that the query does not say
        head = "" if key in lines else f"{source}\n"
        cost = count_tokens(f"{head}{text}\n")
        if cost > left:
            continue
        left -= cost
        names[key] = source
        lines.setdefault(key, []).append((i, text))
    if not lines:
        return ""
    parts = [_LEAD]
    for key, found in lines.items():
        parts.append(names[key])
        parts += [text for _, text in sorted(found)]
    return "\n".join(parts)
