"""Which words of an instruction ask for which part of a page, for people to see."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from stategate.envs.asking.request import Request, read_request
from stategate.envs.asking.values import Asked, covered
from stategate.envs.asking.words import matters
from stategate.envs.protocols import Chunk, View
from stategate.nodes.retrieval.align import asked_choices, entry_scores, title_of
from stategate.nodes.retrieval.page import render

Verdict = Literal[
    "asked for", "excluded", "left open", "says so", "within", "beyond", "nowhere here"
]
_ASKED = 0.3  # how much a word must matter to be looked for
_SAID = 0.6  # how far a text must say a word
_LIKELY = 0.5
_ENTRIES = 3  # of competing things, the best are shown


@dataclass(frozen=True)
class Pairing:
    """``places`` are (start, end) of words of the instruction, ``part`` what of the page they are of.

    ``chance`` is the aligner's probability, None where nothing is to be doubted.
    """

    places: tuple[tuple[int, int], ...]
    part: str
    verdict: Verdict
    chance: float | None = None


def pairings(view: View, instruction: str, chunks: Sequence[Chunk]) -> list[Pairing]:
    """Return what each part of a page has to do with the instruction, and which words found nothing."""
    request = read_request(instruction)
    found = [
        *_of_choices(view, request, chunks),
        *_of_titles(view, request, chunks),
        *_of_amounts(view, request, chunks),
    ]
    told = {place for one in found for place in one.places}
    limited = request.in_limit if any(one.verdict in ("within", "beyond") for one in found) else ()
    care = matters(request)
    rest = tuple(
        (token.start, token.end)
        for i, token in enumerate(request.tokens)
        if care[i] >= _LIKELY and i not in limited and (token.start, token.end) not in told
    )
    if rest and found:
        found.append(Pairing(rest, "", "nowhere here"))
    return found


def _words(request: Request, places: Sequence[int]) -> tuple[tuple[int, int], ...]:
    return tuple((request.tokens[p].start, request.tokens[p].end) for p in sorted(places))


def _of_choices(view: View, request: Request, chunks: Sequence[Chunk]) -> Iterator[Pairing]:
    for asked in asked_choices(view, request.text, chunks).values():
        if not asked.values:
            continue
        yield _best(request, asked)
        for i, chance in enumerate(asked.excluded):
            if chance > _LIKELY and asked.spans[i].places:
                places = _words(request, asked.spans[i].places)
                yield Pairing(places, f"{asked.name}: {asked.values[i]}", "excluded", chance)


def _best(request: Request, asked: Asked) -> Pairing:
    i = asked.best
    if asked.asked[i] < asked.none:
        return Pairing((), asked.name, "left open", asked.none)
    part = f"{asked.name}: {asked.values[i]}"
    return Pairing(_words(request, asked.spans[i].places), part, "asked for", asked.asked[i])


def _of_titles(view: View, request: Request, chunks: Sequence[Chunk]) -> Iterator[Pairing]:
    titled = [c for c in chunks if c.role in ("subject", "entry") and title_of(view, c)]
    titles = [title_of(view, chunk) for chunk in titled]
    scores = entry_scores(request, titles)
    care = matters(request)
    for i in sorted(range(len(titles)), key=lambda i: -scores[i])[:_ENTRIES]:
        said = covered(request, titles[i])
        places = [p for p, much in enumerate(said) if much >= _SAID and care[p] >= _ASKED]
        if places:
            title = titles[i].strip(" |\n")
            yield Pairing(_words(request, places), title, "says so")


def _of_amounts(view: View, request: Request, chunks: Sequence[Chunk]) -> Iterator[Pairing]:
    limit = request.limit
    if limit is None:
        return
    amounts = [
        (fragment.text.strip(" |\n"), fragment.amount)
        for chunk in chunks
        if chunk.role in ("subject", "entry")
        for fragment in render(view, chunk)
        if fragment.amount is not None
    ]
    for verdict in ("within", "beyond"):
        texts = [
            text for text, amount in amounts if limit.excludes(amount) == (verdict == "beyond")
        ]
        if texts:
            part = ", ".join(dict.fromkeys(texts))
            yield Pairing(((limit.start, limit.end),), part, verdict)
