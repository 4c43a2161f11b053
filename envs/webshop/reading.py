"""WebShop's pages read from their text alone, in both observation modes, and what they come to."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from stategate.envs.asking.request import Request, read_request
from stategate.envs.asking.subject import VALUED
from stategate.envs.asking.values import Asked, ask_choices, covered, locate
from stategate.envs.asking.wanted import Wanted as Asking
from stategate.envs.asking.weights import ROLES
from stategate.envs.asking.words import runs, word_roles
from stategate.envs.protocols import Clause, StateInput
from stategate.envs.webshop.pages import MARKED, RESULTS, dollars
from stategate.stores.traces import Event

PageKind = Literal["search", "results", "item", "sub", "done", "other"]
MAX_CLAUSES, MAX_FACTS = 6, 6
_ASIN = re.compile(r"[A-Z0-9]{10}")
_CLICK = re.compile(r"click\[(.*)\]", re.DOTALL)
_STOP = re.compile(r"[,;.!?]")
_TITLE_WORDS, _DETAIL_WORDS, _PLAIN_WORDS = 8, 60, 120
_VALUE = 0.25  # probability of being of a value, from which words are not just a choice's name
_BESIDE = 2  # words from a name to its value
_MANY = 60  # values of a page that are aligned: more are not read


#: Which parts of the instruction a search writes, by the name of the search.
FORMS: Mapping[str, tuple[str, ...]] = {
    "search": ("thing", "property", "value"),
    "search_no_options": ("thing", "property"),
    "search_kind_options": ("thing", "value"),
    "search_kind": ("thing",),
}


@dataclass(frozen=True)
class Wanted(Asking):
    """What is asked, with the forms of searches."""

    def searched(self, form: str) -> str:
        """Return the words to search for: all of it, or the part that ``form`` names ("" if none)."""
        return self.written(*FORMS[form])


@dataclass(frozen=True)
class Page:
    """A page by its own words: ``parts`` are its visible texts without the instruction.

    ``options`` are those that an item page marks as values to choose (only `rich` pages mark any).
    """

    kind: PageKind
    instruction: str
    parts: tuple[str, ...]
    chosen: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


@lru_cache(maxsize=4096)
def read_page(text: str) -> Page:
    """Read an observation, in either of WebShop's modes or of any other world."""
    parts: list[str] = []
    chosen: list[str] = []
    options: list[str] = []
    if " [SEP] " in text:
        parts = [part.strip() for part in text.split(" [SEP] ")]
    else:
        for line in text.split("\n"):
            button = MARKED.match(line)
            label = (button[3] if button else line).strip()
            if label.startswith("You have clicked "):
                continue
            if button and button[1] and button[2]:
                chosen.append(label)
            if button and button[1]:
                options.append(label)
            if label:
                parts.append(label)
    instruction, rest = _without_instruction(parts)
    return Page(_kind(rest), instruction, tuple(rest), tuple(chosen), tuple(options))


def inputs_of(event: Event) -> list[StateInput]:
    """Return what a state model reads of ``event``: a few short texts, whatever the page's length.

    A page becomes one line (a results page its titles, an item page title, price and what is chosen)
    and short facts: which asked values it offers and marks as chosen, what is missing, whether the
    price is within the limit. The instruction stands on every page but never changes, so it is read
    once, at step 0: whole, and clause by clause. What is asked is told by the aligner
    (``envs.asking``), and reaches the model as ``match``, since frozen embeddings cannot tell two
    colours apart.
    """
    if event.kind == "ACT":
        return [StateInput("ACT", _act(event.text), _asked(event.text, event.instruction))]
    if event.kind == "NOTE":
        return []  # the page itself was read
    if event.kind != "OBS":
        return [StateInput(event.kind, event.text or event.kind.lower())]
    page = read_page(event.text)
    rows: list[StateInput] = []
    if event.t == 0 and page.instruction:
        rows.append(StateInput("GOAL", page.instruction))
        rows += [
            StateInput("WISH" if clause.role == "value" else "CLAUSE", clause.text)
            for clause in clauses(page.instruction)[:MAX_CLAUSES]
        ]
    return [*rows, StateInput("OBS", summary(page), _agreement(page)), *facts(page)]


def clauses(instruction: str) -> list[Clause]:
    """Return the runs of words that the aligner takes for thing, properties, values; the limit."""
    request = read_request(instruction)
    roles: tuple[Literal["thing", "property", "value"], ...] = ("thing", "property", "value")
    found = [
        Clause(instruction[start:end], start, end, role)
        for role in roles
        for run in runs(request, (role,))
        for start, end in [(request.tokens[run[0]].start, request.tokens[run[-1]].end)]
    ]
    limit = request.limit
    if limit is not None:
        words = instruction[limit.start : limit.end]
        found.append(Clause(words, limit.start, limit.end, "limit", limit=limit.high))
    return sorted(found, key=lambda clause: clause.start)


def facts(page: Page) -> list[StateInput]:
    """Return what an item page says about the asked values and the price limit."""
    at = _price_at(page)
    if page.kind != "item" or at is None or not page.instruction:
        return []
    request = read_request(page.instruction)
    title = page.parts[at - 1]
    asked = asked_parts(request, page.options or page.parts[2 : at - 1], title)
    chosen = {_folded(value) for value in page.chosen}
    rows = [
        StateInput("FACT", "an asked value is chosen", 1.0)
        if _folded(one.values[0]) in chosen
        else StateInput("FACT", "an asked value is offered", 0.5)
        for one in asked
    ]
    said = np.asarray(covered(request, title), dtype=np.float32)
    for place in (p for one in asked for p in one.spans[0].places):
        said[place] = 1.0
    values = word_roles(request)[:, ROLES.index("value")]
    if ((values > VALUED) & (said < VALUED)).any():
        rows.append(StateInput("FACT", "an asked value is not offered", 0.0))
    price = dollars(page.parts[at])
    if price is not None and request.limit is not None and request.limit.excludes(price):
        rows.append(StateInput("FACT", "the price is beyond the limit", 0.25))
    return rows[:MAX_FACTS]


@lru_cache(maxsize=8192)
def asked_parts(request: Request, parts: tuple[str, ...], title: str) -> tuple[Asked, ...]:
    """Return those of an item page's ``parts`` (names and values, in order) that are asked values.

    Text alone does not tell names from values nor one group from the next, so each part is aligned by
    itself. Of parts whose words lie within those of another the longer one counts; what most likely is
    no value and stands beside one that the page has further down ("size large") is its name.
    """
    values = [part for part in parts[:_MANY] if locate(request, part).is_whole]
    single = tuple(("", (value,)) for value in dict.fromkeys(values))
    likely = [one for one in ask_choices(request.text, single, title) if one.asked[0] >= one.none]
    places = [frozenset(one.spans[0].places) for one in likely]
    chances = word_roles(request)[:, ROLES.index("value")]

    def is_name(i: int) -> bool:
        if max(chances[p] for p in places[i]) > _VALUE:
            return False
        return any(
            abs(p - q) <= _BESIDE and not _STOP.search(_between(request, p, q))
            for later in places[i + 1 :]
            for q in later
            for p in places[i]
        )

    return tuple(
        one
        for i, (one, own) in enumerate(zip(likely, places, strict=True))
        if not any(own < p for p in places) and not is_name(i)
    )


def _between(request: Request, one: int, other: int) -> str:
    first, last = sorted((one, other))
    return request.text[request.tokens[first].end : request.tokens[last].start]


def _agreement(page: Page) -> float:
    """Return the share (0 to 1) of what is described that the page's best text says."""
    if not page.instruction or page.kind not in ("results", "item", "sub"):
        return 0.0
    wanted = Wanted.of(page.instruction)
    if page.kind == "results":
        return max((wanted.share(title) for title in titles(page)), default=0.0)
    at = _price_at(page)
    if page.kind == "item":
        return wanted.share(page.parts[at - 1]) if at else 0.0
    return wanted.share(" ".join(page.parts[2:]))


def _asked(action: str, instruction: str) -> float:
    """Return the share of a clicked value's words that the instruction says, 0 where it excludes it."""
    clicked = _CLICK.fullmatch(action)
    if clicked is None or not instruction:
        return 0.0
    one = ask_choices(instruction, (("", (clicked[1],)),))[0]
    quality = one.spans[0].quality
    if not quality or one.excluded[0] > one.asked[0]:
        return 0.0
    return sum(quality) / len(quality)


def _price_at(page: Page) -> int | None:
    return next((i for i, part in enumerate(page.parts) if i and part.startswith("Price: ")), None)


def _folded(text: str) -> str:
    return " ".join(text.lower().split())


def summary(page: Page) -> str:
    """Return a page as one line of at most about 120 words."""
    if page.kind == "search":
        return "search page"
    if page.kind == "results":
        number = next(m[1] for part in page.parts if (m := RESULTS.fullmatch(part)))
        return f"results page {number}: " + "; ".join(_short(t) for t in titles(page))
    if page.kind == "item":
        at = _price_at(page)
        title, price = (page.parts[at - 1], page.parts[at]) if at else ("", "")
        marked = f" chosen: {', '.join(page.chosen)}." if page.chosen else ""
        return f"item page: {' '.join(title.split()[:25])}. {price}.{marked}"
    if page.kind == "sub":
        words = " ".join(page.parts[2:]).split()
        return "details page: " + " ".join(words[:_DETAIL_WORDS])
    if page.kind == "done":
        return "bought"
    return " ".join(" ".join((page.instruction, *page.parts)).split()[:_PLAIN_WORDS])


def titles(page: Page) -> list[str]:
    """Return the product titles of a results page (the asin where no title follows)."""
    listed = []
    for i, part in enumerate(page.parts):
        if _ASIN.fullmatch(part):
            after = page.parts[i + 1] if i + 1 < len(page.parts) else ""
            listed.append(part if _ASIN.fullmatch(after) or not after else after)
    return listed


def _without_instruction(parts: Sequence[str]) -> tuple[str, list[str]]:
    for i, part in enumerate(parts[:3]):
        if part == "Instruction:" and i + 1 < len(parts):
            return parts[i + 1], [*parts[:i], *parts[i + 2 :]]
    return "", list(parts)


def _kind(parts: Sequence[str]) -> PageKind:
    heads = {part.lower() for part in parts[:3]}
    last = parts[-1].lower() if parts else ""
    if any(RESULTS.fullmatch(part) for part in parts[:3]):
        return "results"
    if "buy now" in {part.lower() for part in parts[-2:]}:
        return "item"
    if last == "search" and len(parts) <= 2:
        return "search"
    if "back to search" in heads and "< prev" in heads:
        return "sub"
    if any(part.startswith("Thank you for shopping") for part in parts[:3]):
        return "done"
    return "other"


def _short(title: str) -> str:
    return " ".join(title.split()[:_TITLE_WORDS])


def _act(action: str) -> str:
    clicked = _CLICK.fullmatch(action)
    if clicked is None:
        return action
    # An asin says nothing that the product's page does not say better.
    return "open product" if _ASIN.fullmatch(clicked[1].upper()) else f"choose {clicked[1]}"
