"""WebShop's pages read from their text alone, in both observation modes, and what they come to."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from stategate.envs.protocols import Clause, ClauseRole, StateInput, target_of
from stategate.envs.webshop.pages import CLICKED, MARKED, RESULTS, SEPARATOR, dollars
from stategate.language.instruction.aligned import VALUED, AlignedInstruction
from stategate.language.instruction.choices import ChoiceScores, covered, locate, score_choices
from stategate.language.instruction.parsed import ROLES, ParsedInstruction, parse
from stategate.stores.text import one_line
from stategate.stores.traces import Event

PageKind = Literal["search", "results", "item", "sub", "done", "other"]
_MAX_CLAUSES, _MAX_FACTS = 6, 6
_ASIN = re.compile(r"[A-Z0-9]{10}")
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


@dataclass(frozen=True, slots=True)
class Part:
    """One text of a page: ``raw`` is its slice of the page, ``label`` what a person reads.

    ``role`` is what the page marks it as: only `rich` pages mark anything.
    """

    raw: str
    label: str
    role: Literal["text", "button", "option", "product"] = "text"
    is_clicked: bool = False


@dataclass(frozen=True)
class Page:
    """A page by its own words: ``labels`` are its visible texts without the instruction."""

    kind: PageKind
    instruction: str
    labels: tuple[str, ...]
    parts: tuple[Part, ...]

    @property
    def options(self) -> tuple[str, ...]:
        """The values that the page marks as to choose."""
        return tuple(part.label for part in self.parts if part.role == "option")

    @property
    def chosen(self) -> tuple[str, ...]:
        """Those that are chosen."""
        return tuple(p.label for p in self.parts if p.role == "option" and p.is_clicked)

    @property
    def price_at(self) -> int:
        """The place of an item's price among ``labels``, behind its title; 0 if there is none."""
        places = (i for i, label in enumerate(self.labels) if i and label.startswith("Price: "))
        return next(places, 0)

    @property
    def title(self) -> str:
        """An item's title."""
        return self.labels[self.price_at - 1] if self.price_at else ""

    @property
    def titles(self) -> list[str]:
        """The product titles of a results page (the asin where no title follows)."""
        pairs = zip(self.labels, (*self.labels[1:], ""), strict=True)
        listed = [(asin, title) for asin, title in pairs if _ASIN.fullmatch(asin)]
        return [asin if not title or _ASIN.fullmatch(title) else title for asin, title in listed]


@lru_cache(maxsize=4096)
def read_page(text: str) -> Page:
    """Read an observation, in either of WebShop's modes or of any other world."""
    if SEPARATOR in text:
        raws = re.split(rf"(?<={re.escape(SEPARATOR)})", text)
        parts = tuple(Part(raw, raw.removesuffix(SEPARATOR).strip()) for raw in raws)
    else:
        parts = tuple(map(_part, text.splitlines(keepends=True)))
    texts = [p.label for p in parts if p.label and not p.label.startswith(CLICKED)]
    at = texts.index("Instruction:") if "Instruction:" in texts[:3] else len(texts)
    instruction = texts[at + 1] if at + 1 < len(texts) else ""
    labels = texts if at + 1 >= len(texts) else [*texts[:at], *texts[at + 2 :]]
    return Page(_kind(labels), instruction, tuple(labels), parts)


def _part(line: str) -> Part:
    """Read a line of `rich` mode."""
    marked = MARKED.match(line)
    if marked is None:
        return Part(line, line.strip())
    return Part(line, marked[3].strip(), "option" if marked[1] else "button", bool(marked[2]))


def _kind(labels: Sequence[str]) -> PageKind:
    first, last = labels[:3], [label.lower() for label in labels[-2:]]
    if any(RESULTS.fullmatch(label) for label in first):
        return "results"
    if "buy now" in last:
        return "item"
    if last[-1:] == ["search"] and len(labels) <= 2:
        return "search"
    if {"back to search", "< prev"} <= {label.lower() for label in first}:
        return "sub"
    is_receipt = any(label.startswith("Thank you for shopping") for label in first)
    return "done" if is_receipt else "other"


def inputs_of(event: Event) -> list[StateInput]:
    """Return what a state model reads of a page or an action: a few short texts, whatever its length.

    A page becomes one line (a results page its titles, an item page title, price and what is chosen)
    and short facts: which asked values it offers and marks as chosen, what is missing, whether the
    price is within the limit. The instruction stands on every page but never changes, so it is read
    once, at step 0: whole, and clause by clause. What is asked is read by
    ``language.instruction``, and reaches the model as ``match``,
    since frozen embeddings cannot tell two colours apart.
    """
    if event.kind == "ACT":
        return [StateInput("ACT", _act(event.text), _click_match(event.text, event.instruction))]
    page = read_page(event.text)
    rows: list[StateInput] = []
    if event.t == 0 and page.instruction:
        rows.append(StateInput("GOAL", page.instruction))
        rows += [
            StateInput("WISH" if clause.role == "value" else "CLAUSE", clause.text)
            for clause in clauses(page.instruction)[:_MAX_CLAUSES]
        ]
    return [*rows, StateInput("OBS", _summary(page), _agreement(page)), *_facts(page)]


def clauses(instruction: str) -> list[Clause]:
    """Return the instruction's clauses: product type, properties, option values, price limit."""
    parsed = parse(instruction)
    roles: tuple[ClauseRole, ...] = ("thing", "property", "value")
    parts = [
        Clause(
            instruction[start:end],
            start,
            end,
            role,
            probability=float(parsed.roles[list(run), ROLES.index(role)].mean()),
        )
        for role in roles
        for run in parsed.phrases(role)
        for start, end in [(parsed.tokens[run[0]].start, parsed.tokens[run[-1]].end)]
    ]
    limit = parsed.limit
    if limit is not None:
        words = instruction[limit.start : limit.end]
        parts.append(Clause(words, limit.start, limit.end, "limit", limit=limit.high))
    return sorted(parts, key=lambda clause: clause.start)


def _facts(page: Page) -> list[StateInput]:
    """Return what an item page says about the asked values and the price limit."""
    if page.kind != "item" or not page.price_at or not page.instruction:
        return []
    parsed = parse(page.instruction)
    requested = requested_parts(
        parsed, page.options or page.labels[2 : page.price_at - 1], page.title
    )
    chosen = {one_line(value.lower()) for value in page.chosen}
    rows = [
        StateInput("FACT", "an asked value is chosen", 1.0)
        if one_line(one.values[0].lower()) in chosen
        else StateInput("FACT", "an asked value is offered", 0.5)
        for one in requested
    ]
    cover = np.asarray(covered(parsed, page.title), dtype=np.float32)
    for place in (p for one in requested for p in one.spans[0].places):
        cover[place] = 1.0
    values = parsed.roles[:, ROLES.index("value")]
    if ((values > VALUED) & (cover < VALUED)).any():
        rows.append(StateInput("FACT", "an asked value is not offered", 0.0))
    price = dollars(page.labels[page.price_at])
    if parsed.excludes(price):
        rows.append(StateInput("FACT", "the price is beyond the limit", 0.25))
    return rows[:_MAX_FACTS]


@lru_cache(maxsize=8192)
def requested_parts(
    parsed: ParsedInstruction, parts: tuple[str, ...], title: str
) -> tuple[ChoiceScores, ...]:
    """Return those of an item page's ``parts`` (names and values, in order) that are asked values.

    Text alone does not tell names from values nor one group from the next, so each part is aligned by
    itself. Of parts whose words lie within those of another the longer one counts; what most likely is
    no value and stands beside one that the page has further down ("size large") is its name.
    """
    values = [part for part in parts[:_MANY] if locate(parsed, part).is_whole]
    single = tuple(("", (value,)) for value in dict.fromkeys(values))
    likely = [
        one for one in score_choices(parsed.text, single, title) if one.requested[0] >= one.none
    ]
    places = [frozenset(one.spans[0].places) for one in likely]
    chances = parsed.roles[:, ROLES.index("value")]

    def is_name(i: int) -> bool:
        if max(chances[p] for p in places[i]) > _VALUE:
            return False
        return any(
            abs(p - q) <= _BESIDE and not _STOP.search(parsed.between(p, q))
            for later in places[i + 1 :]
            for q in later
            for p in places[i]
        )

    return tuple(
        one
        for i, (one, own) in enumerate(zip(likely, places, strict=True))
        if not any(own < p for p in places) and not is_name(i)
    )


def _agreement(page: Page) -> float:
    """Return the share (0 to 1) of the described properties that the page's best text names."""
    if not page.instruction or page.kind not in ("results", "item", "sub"):
        return 0.0
    goal = AlignedInstruction.of(page.instruction)
    if page.kind == "results":
        return max((goal.share(title) for title in page.titles), default=0.0)
    if page.kind == "item":
        return goal.share(page.title) if page.price_at else 0.0
    return goal.share(" ".join(page.labels[2:]))


def _click_match(action: str, instruction: str) -> float:
    """Return the share of a clicked value's words that the instruction says, 0 where it excludes it."""
    if not action.startswith("click[") or not instruction:
        return 0.0
    one = score_choices(instruction, (("", (target_of(action),)),))[0]
    quality = one.spans[0].quality
    if not quality or one.excluded[0] > one.requested[0]:
        return 0.0
    return sum(quality) / len(quality)


def _summary(page: Page) -> str:
    """Return a page as one line of at most about 120 words."""
    if page.kind == "search":
        return "search page"
    if page.kind == "results":
        number = next(m[1] for label in page.labels if (m := RESULTS.fullmatch(label)))
        return f"results page {number}: " + "; ".join(_cut(t, _TITLE_WORDS) for t in page.titles)
    if page.kind == "item":
        price = page.labels[page.price_at] if page.price_at else ""
        marked = f" chosen: {', '.join(page.chosen)}." if page.chosen else ""
        return f"item page: {_cut(page.title, 25)}. {price}.{marked}"
    if page.kind == "sub":
        return "details page: " + _cut(" ".join(page.labels[2:]), _DETAIL_WORDS)
    if page.kind == "done":
        return "bought"
    return _cut(" ".join((page.instruction, *page.labels)), _PLAIN_WORDS)


def _cut(text: str, words: int) -> str:
    return " ".join(text.split()[:words])


def _act(action: str) -> str:
    if not action.startswith("click["):
        return action
    # An asin says nothing that the product's page does not say better.
    target = target_of(action)
    return "open product" if _ASIN.fullmatch(target.upper()) else f"choose {target}"
