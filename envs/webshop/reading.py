"""WebShop's pages read from their text alone, in both observation modes, and what they come to."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from envs.protocols import StateInput
from envs.webshop.pages import MARKED, RESULTS
from envs.webshop.wish import dollars, read_wish
from stores.text import overlap, words_of
from stores.traces import Event

PageKind = Literal["search", "results", "item", "sub", "done", "other"]
MAX_CLAUSES, MAX_FACTS = 6, 6
_ASIN = re.compile(r"[A-Z0-9]{10}")
_CLAUSE = re.compile(r", and |, | with (?=[^:,]{1,40}: )")
_CLICK = re.compile(r"click\[(.*)\]", re.DOTALL)
_TITLE_WORDS, _DETAIL_WORDS, _PLAIN_WORDS = 8, 60, 120


@dataclass(frozen=True)
class Page:
    """A page by its own words: ``parts`` are its visible texts without the instruction."""

    kind: PageKind
    instruction: str
    parts: tuple[str, ...]
    chosen: tuple[str, ...] = ()


@lru_cache(maxsize=4096)
def read_page(text: str) -> Page:
    """Read an observation, in either of WebShop's modes or of any other world."""
    parts: list[str] = []
    chosen: list[str] = []
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
            if label:
                parts.append(label)
    instruction, rest = _without_instruction(parts)
    return Page(_kind(rest), instruction, tuple(rest), tuple(chosen))


def inputs_of(event: Event) -> list[StateInput]:
    """Return what a state model reads of ``event``: a few short texts, whatever the page's length.

    A page becomes one line (a results page its titles, an item page title, price and what is chosen)
    and short facts about the asked options and the price limit. The instruction stands on every page
    but never changes, so it is read once, at step 0: whole, and clause by clause. Frozen embeddings
    cannot tell whether two texts name the same colour, hence ``match``.
    """
    if event.kind == "ACT":
        return [StateInput("ACT", _act(event.text), _asked(event.text, event.instruction))]
    if event.kind != "OBS":
        return [StateInput(event.kind, event.text or event.kind.lower())]
    page = read_page(event.text)
    rows: list[StateInput] = []
    if event.t == 0 and page.instruction:
        rows.append(StateInput("GOAL", page.instruction))
        rows += [
            StateInput("WISH" if ": " in part else "CLAUSE", part)
            for part in clauses(page.instruction)
        ]
    return [*rows, StateInput("OBS", summary(page), _agreement(page)), *facts(page)]


def facts(page: Page) -> list[StateInput]:
    """Return what an item page says about the asked options and the price limit."""
    if page.kind != "item":
        return []
    wish = read_wish(page.instruction)
    rows: list[StateInput] = []
    offered = {" ".join(part.lower().split()) for part in page.parts}
    chosen = {" ".join(value.lower().split()) for value in page.chosen}
    for group, value in wish.options:
        if " ".join(value.lower().split()) not in offered:
            rows.append(StateInput("FACT", f"the asked {group} is not offered", 0.0))
        elif value.lower() in chosen:
            rows.append(StateInput("FACT", f"the asked {group} is chosen", 1.0))
        else:
            rows.append(StateInput("FACT", f"the asked {group} is offered", 0.5))
    price = next((dollars(part) for part in page.parts if part.startswith("Price: ")), None)
    if price is not None and wish.limit is not None and price > wish.limit:
        rows.append(StateInput("FACT", "the price is above the limit", 0.25))
    return rows[:MAX_FACTS]


def _agreement(page: Page) -> float:
    """Return the share (0 to 1) of the asked words that the page's best text holds."""
    words = read_wish(page.instruction).words if page.instruction else ()
    if not words:
        return 0.0
    if page.kind == "results":
        return max((overlap(words, title) for title in titles(page)), default=0.0)
    if page.kind == "item":
        return overlap(words, " ".join(page.parts[-7:-6]))
    return overlap(words, " ".join(page.parts[2:])) if page.kind == "sub" else 0.0


def _asked(action: str, instruction: str) -> float:
    """Return the share of a clicked value's words that the instruction holds."""
    clicked = _CLICK.fullmatch(action)
    words = words_of(clicked[1]) if clicked else ()
    return overlap(words, instruction) if words and instruction else 0.0


def clauses(instruction: str) -> list[str]:
    """Return the first clauses of an instruction ("color: black", "price lower than ...")."""
    parts = [part.strip() for part in _CLAUSE.split(instruction)]
    return [part for part in parts if part][-MAX_CLAUSES:]


def summary(page: Page) -> str:
    """Return a page as one line of at most about 120 words."""
    if page.kind == "search":
        return "search page"
    if page.kind == "results":
        number = next(m[1] for part in page.parts if (m := RESULTS.fullmatch(part)))
        return f"results page {number}: " + "; ".join(_short(t) for t in titles(page))
    if page.kind == "item":
        at = next((i for i, p in enumerate(page.parts) if p.startswith("Price: ")), None)
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
