"""What an instruction asks of a page of the shop: what to search for, and which words a page met."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stategate.envs.asking.values import covered
from stategate.envs.asking.wanted import Wanted as Asking
from stategate.envs.asking.words import matters
from stategate.envs.protocols import Chunk

_SEARCHED = 0.25  # how much a word must matter to be noted
_MET = 0.5  # how far a page must say a word to have met it
#: Which parts of the instruction a search writes, by the name of the search.
FORMS: Mapping[str, tuple[str, ...]] = {
    "search": ("thing", "property", "value"),
    "search_no_options": ("thing", "property"),
    "search_kind_options": ("thing", "value"),
    "search_kind": ("thing",),
}
#: What is noted of a product's page that met nothing.
NOTHING = "nothing"


@dataclass(frozen=True)
class Wanted(Asking):
    """What is asked, with the forms of searches."""

    def searched(self, form: str) -> str:
        """Return the words to search for: all of it, or the part that ``form`` names ("" if none)."""
        return self.written(*FORMS[form])


def matched_words(chunks: Sequence[Chunk], instruction: str) -> str:
    """Return the instruction's words that the page of one product met, those it says side by side.

    On an item's page these are words of its title and of asked values that it offers.
    """
    title = " ".join(" ".join(c.data["lines"][:1]) for c in chunks if c.role == "subject")
    detail = " ".join(" ".join(c.data["lines"]) for c in chunks if c.role == "text")
    roles = {chunk.role for chunk in chunks}
    if "entry" in roles or not roles & {"subject", "text"}:
        return ""
    choices = [(c.choice.name, c.choice.values) for c in chunks if c.choice and c.choice.values]
    wanted = Wanted.of(instruction, choices, title)
    request = wanted.request
    met = [quality > _MET for quality in covered(request, f"{title} {detail}")]
    for asked in wanted.choices:
        if asked.asked[asked.best] >= asked.none:
            for place in asked.spans[asked.best].places:
                met[place] = True
    stretches: list[list[int]] = []
    for i, token in enumerate(request.tokens):
        if not met[i] or token.is_small or matters(request)[i] < _SEARCHED:
            continue
        last = stretches[-1][-1] if stretches else -2
        if last == i - 1 and request.clause[i] == request.clause[last]:
            stretches[-1].append(i)
        else:
            stretches.append([i])
    words = request.tokens
    said = [request.text[words[part[0]].start : words[part[-1]].end] for part in stretches]
    return ", ".join(dict.fromkeys(said)) or NOTHING
