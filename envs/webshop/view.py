"""How an agent reads WebShop: pages as prompt lines, wishes as clauses, what a model is offered."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from stategate.envs.protocols import (
    ActionVocabulary,
    Chunk,
    Clause,
    Fragment,
    Observation,
    Offer,
    StateInput,
    StatusLine,
    View,
    chosen_line,
    listed,
    target_of,
)
from stategate.envs.webshop.actions import BACK, BUY, DETAILS, NEXT, OPENED, PREV, WebShopActions
from stategate.envs.webshop.chunks import chunk_page
from stategate.envs.webshop.pages import SEARCH, dollars
from stategate.envs.webshop.prompt import Reading, Trail, read
from stategate.envs.webshop.reading import clauses, inputs_of
from stategate.envs.webshop.wanted import evidence
from stategate.stores.text import one_line
from stategate.stores.traces import Event

PRODUCTS = 2  # products after which a small model may no longer go back
_CLICKED = re.compile(r"\[clicked button\] (.*?) \[clicked button_\]")
_MARKS = re.compile(r"\[/?button_?\]|\[SEP\]|Instruction:|Back to Search|< Prev|Next >|[][]")
_BUTTONS = ("< prev", "buy now", "back to search", "next >")
_ELSEWHERE = {BACK, *DETAILS}
_LENGTHS = {"search": (3, 120)}


class WebShopView(View):
    """WebShop's pages in either observation mode."""

    name = "webshop"
    actions: ActionVocabulary = WebShopActions()
    brief = Path(__file__).with_name("brief.txt").read_text("utf-8").strip()

    def clauses(self, instruction: str) -> Sequence[Clause]:
        """Return the parts that the aligner finds (see ``reading``)."""
        return clauses(instruction)

    def chunks(self, observation: Observation) -> Sequence[Chunk]:
        """Split a page into chunks (see ``envs.webshop.chunks``)."""
        return chunk_page(observation)

    def fragments(self, chunk: Chunk) -> Sequence[Fragment]:
        """Return one fact a line; each affordance is written once."""
        draw = _FRAGMENTS.get(chunk.kind)
        return super().fragments(chunk) if draw is None else draw(chunk)

    def status(self, observation: Observation, shown: Sequence[Chunk]) -> Sequence[StatusLine]:
        """Return what is chosen, and, on pages that mark choices at all, what is not."""
        choices = [chunk.choice for chunk in shown if chunk.choice is not None]
        lines = [chosen_line(choice.name, choice.chosen) for choice in choices if choice.chosen]
        waiting = [one_line(choice.name) for choice in choices if not choice.chosen]
        marks = "[button]" in observation.text or "You have clicked " in observation.text
        if waiting and marks:
            lines.append(StatusLine(f"Not chosen yet: {', '.join(waiting)}", is_settled=False))
        return lines

    def inputs(self, event: Event) -> Sequence[StateInput]:
        """Return one line a page, and facts about the asked options (see ``reading``)."""
        return inputs_of(event)

    def gist(self, page: str, instruction: str = "", *, bare: bool = False) -> str:
        """Return the page on one line without the instruction, which every page repeats.

        Only its first place goes: a short instruction ("a lamp") may be part of a title too.
        """
        text, wish = one_line(page), one_line(instruction)
        if wish:
            framed = f"[SEP] {wish} [SEP] "
            text = text.replace(framed if framed in text else wish, "", 1)
        text = text.replace("Instruction: ", "", 1).strip()
        return one_line(_MARKS.sub(" ", _CLICKED.sub(r"(chosen) \1", text))) if bare else text

    def evidence(self, observation: Observation, instruction: str) -> str:
        """Return the words that an item's title and asked values, or a sub-page, met."""
        return evidence(self.chunks(observation), instruction)

    def offer(self, prompt: str, actions: Sequence[str]) -> Offer:
        """Withhold what the prompt itself shows to be pointless.

        Small models buy before they choose options, wander back to the search, and turn pages for
        ever. On an item with a choice to make: its first group's values, or going back (until
        :data:`PRODUCTS` products were opened: a small model rejects for ever); else buying or going
        back, no sub-pages, since what they say has left the prompt by the time of buying. On results:
        products not opened before, the next page only when all were.
        """
        page = read(prompt, actions)
        trail = Trail.of(page.history)
        offered = set(actions)
        group = asks = None
        if BUY in actions:
            offered, group = _on_item(page, trail)
            if group is not None:
                asks = f'Choose the {group}: {{"{group}": "value that the instruction asks for"}}'
        elif any(OPENED.fullmatch(action) for action in actions):
            products = {a for a in actions if OPENED.fullmatch(a)} - set(page.history)
            offered = products or {NEXT} & set(actions)
        listed = tuple(action for action in actions if action in offered)
        if not listed:
            return Offer(tuple(actions), lengths=_LENGTHS)
        values = tuple(a for a in listed if a != SEARCH and target_of(a) not in _BUTTONS)
        return Offer(listed, group, values if group is not None else (), asks, _LENGTHS)


def _on_item(page: Reading, trail: Trail) -> tuple[set[str], str | None]:
    """Return what to offer of a product's page, and the group that waits for a choice, if any.

    The page's marks alone do not say so: WebShop never marks a value with a quote in it.
    """
    groups = {name: {action for _, action in values} for name, values in page.options}
    waiting = [
        name
        for name, values in groups.items()
        if name not in page.chosen and not {one_line(v) for v in values} & set(trail.since)
    ]
    offered = set(page.actions).difference(_ELSEWHERE, *groups.values())
    if page.chosen or len(set(trail.opened)) >= PRODUCTS:
        offered.discard(PREV)  # a wrong product shows before any choice is made
    if not waiting:
        return offered, None
    return (offered - {BUY}) | groups[waiting[0]], waiting[0]


def _commands(chunk: Chunk) -> list[Fragment]:
    lead = "Search bar:" if chunk.actions == (SEARCH,) else "Buttons:"
    if "page" in chunk.data:
        lead = f"Page {chunk.data['page']} (Total results: {chunk.data['total']}). {lead}"
    labels = [a if a == SEARCH else one_line(target_of(a)) for a in chunk.actions]
    first, *others = listed(lead, chunk.actions, labels)
    return [replace(first, amount=chunk.data.get("page")), *others]


def _product(chunk: Chunk) -> list[Fragment]:
    seen = " (seen)" if chunk.is_visited else ""
    fragments = [Fragment(str(chunk.data["asin"]).lower() + seen, chunk.actions[0])]
    if chunk.data["title"]:
        title = f" | {one_line(chunk.data['title'])}"
        fragments.append(Fragment(title, role="title", label=" | "))
    if chunk.data["price"]:
        fragments.append(_price(f" | {one_line(chunk.data['price'])}"))
    return fragments


def _price(text: str) -> Fragment:
    amount = dollars(text)
    role = "title" if amount is None else "quantity"
    return Fragment(text, role=role, amount=amount, label=" | ")


def _options(chunk: Chunk) -> list[Fragment]:
    name, values = (chunk.choice.name, chunk.choice.values) if chunk.choice else ("", ())
    return listed(f"Option {one_line(name)}:", chunk.actions, values)


def _item(chunk: Chunk) -> list[Fragment]:
    title, *facts = [one_line(line) for line in chunk.data["lines"]] or [""]
    if not title:
        return []
    text = f"Product: {title}" + "\n" * bool(facts)
    fragments = [Fragment(text, role="title", label="Product: ")]
    for i, line in enumerate(facts):
        end = "\n" if i < len(facts) - 1 else ""
        if line.startswith("Price: "):
            amount = dollars(line)
            fragments.append(Fragment(line + end, role="quantity", amount=amount, label="Price: "))
        else:
            fragments.append(Fragment(line + end, role="fact"))
    return fragments


def _detail(chunk: Chunk) -> list[Fragment]:
    lines = [f"Text: {text}" for line in chunk.data["lines"] if (text := one_line(line))]
    ends = ["\n"] * (len(lines) - 1) + [""]
    return [Fragment(t + end, label="Text: ") for t, end in zip(lines, ends, strict=False)]


def _nothing(chunk: Chunk) -> list[Fragment]:
    return []


_FRAGMENTS = {
    "navigation": _commands,
    "buttons": _commands,
    "product": _product,
    "options": _options,
    "item": _item,
    "detail": _detail,
    # The instruction leads every prompt, notices become "Chosen:" lines.
    "instruction": _nothing,
    "notice": _nothing,
    "header": _nothing,
}
