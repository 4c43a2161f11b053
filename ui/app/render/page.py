"""A world's page drawn as a page: product cards, options as chips, buttons; each takes its action.

Whatever can be done carries ``data-action``; a search form carries ``data-verb``. The page knows only
chunks, so a world that nobody here has heard of is drawn too: as cards of text with buttons.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from envs.protocols import SEARCH
from nodes.protocols import Chunk
from ui.app.render.actions import action_label, split_action
from ui.app.render.html import el, join, plural, short

_PRIMARY = ("click[buy now]",)


def render_page(
    chunks: Sequence[Chunk],
    instruction: str,
    *,
    taken: str | None = None,
    hidden: Sequence[str] = (),
    live: bool = True,
    address: str = "",
) -> Markup:
    """Draw a page.

    ``taken`` is the action that was taken here (it is ringed), ``hidden`` are the affordances that
    the model cannot see (dashed), ``live`` says whether one can act here.
    """
    draw = _Drawing(taken, frozenset(hidden), live)
    by_kind: dict[str, list[Chunk]] = {}
    for chunk in chunks:
        by_kind.setdefault(chunk.kind, []).append(chunk)
    body = _item(draw, by_kind) if "item" in by_kind else _plain(draw, chunks)
    bar = el(
        "div",
        el("span", cls="sg-dot"), el("span", cls="sg-dot"), el("span", cls="sg-dot"),
        el("span", address or "page", cls="sg-address"),
        cls="sg-browserbar",
    )  # fmt: skip
    wish = el("div", el("span", "Instruction", cls="sg-wish-label"), instruction, cls="sg-wish")
    search = draw.search_form(taken) if live or (taken or "").startswith("search[") else None
    return el(
        "div",
        bar,
        el("div", wish, search, body, cls="sg-page-body"),
        cls="sg-page" + ("" if live else " sg-page-past"),
    )


class _Drawing:
    """What every part of one page's drawing needs to know."""

    def __init__(self, taken: str | None, hidden: frozenset[str], live: bool) -> None:
        self.taken, self.hidden, self.live = taken, hidden, live

    def button(self, action: str, label: object, cls: str = "sg-btn", **more: Any) -> Markup:
        """Return a button that takes ``action``."""
        marks = cls
        title = more.pop("title", None)
        if action == self.taken:
            marks, title = f"{marks} sg-taken", "the action that was taken here"
        elif action in self.hidden:
            marks, title = (
                f"{marks} sg-unseen",
                "dropped from the context: the model cannot see this",
            )
        return el(
            "button", label, cls=marks, type="button", data_action=action, title=title,
            disabled=not self.live, **more,
        )  # fmt: skip

    def search_form(self, taken: str | None) -> Markup:
        """Return the search bar (WebShop takes a search on any page)."""
        verb, words = split_action(taken or "")
        is_taken = verb == "search"
        return el(
            "form",
            el(
                "input", name="words", type="search", placeholder="search words …",
                aria_label="search words", value=words if is_taken else None,
                disabled=not self.live, autocomplete="off",
            ),
            el("button", "Search", type="submit", cls="sg-btn", disabled=not self.live),
            cls="sg-search" + (" sg-taken" if is_taken else ""),
            data_verb="search",
        )  # fmt: skip


def _plain(draw: _Drawing, chunks: Sequence[Chunk]) -> Markup:
    """Draw chunks in page order, runs of products as a grid of cards."""
    parts: list[Markup] = []
    cards: list[Markup] = []
    for chunk in chunks:
        if chunk.kind == "product":
            cards.append(_product(draw, chunk))
            continue
        if cards:
            parts.append(el("div", cards, cls="sg-cards"))
            cards = []
        parts.append(_chunk(draw, chunk))
    if cards:
        parts.append(el("div", cards, cls="sg-cards"))
    return join(parts)


def _chunk(draw: _Drawing, chunk: Chunk) -> Markup:
    if chunk.kind in ("instruction", "header"):
        return Markup("")
    if chunk.kind == "notice":
        return Markup("")  # what was clicked shows on the chips themselves
    if chunk.kind in ("navigation", "buttons"):
        return _navigation(draw, chunk)
    if chunk.kind == "options":
        return _options(draw, chunk)
    if chunk.kind == "detail":
        lines = [el("p", line) for line in chunk.data.get("lines", ())]
        return el("div", lines, cls="sg-detail") if lines else Markup("")
    title = chunk.data.get("title") or chunk.data.get("source")
    buttons = [draw.button(a, action_label(a)) for a in chunk.actions]
    return el(
        "div",
        el("div", title, cls="sg-card-title") if title else None,
        el("div", short(chunk.text, 700), cls="sg-card-text"),
        el("div", buttons, cls="sg-row") if buttons else None,
        cls="sg-card sg-text-card",
    )


def _navigation(draw: _Drawing, chunk: Chunk) -> Markup:
    actions = [action for action in chunk.actions if action != SEARCH]
    where = None
    if "page" in chunk.data:
        total = plural(int(chunk.data["total"]), "result")
        where = el("span", f"Page {chunk.data['page']} · {total}", cls="sg-muted")
    buttons = [
        draw.button(a, action_label(a), "sg-btn sg-primary" if a in _PRIMARY else "sg-btn")
        for a in actions
    ]
    if not buttons and where is None:
        return Markup("")
    return el("div", buttons, where, cls="sg-row sg-nav")


def _product(draw: _Drawing, chunk: Chunk) -> Markup:
    data = chunk.data
    action = chunk.actions[0] if chunk.actions else ""
    inside = join(
        [
            tile(str(data.get("asin", "")), str(data.get("title", ""))),
            el(
                "span",
                el("span", data.get("title", ""), cls="sg-card-title"),
                el(
                    "span",
                    el("span", data.get("price", ""), cls="sg-price"),
                    el("span", str(data.get("asin", "")).lower(), cls="sg-asin"),
                    el("span", "seen", cls="sg-badge") if data.get("seen") else None,
                    cls="sg-row sg-facts",
                ),
                cls="sg-card-body",
            ),
        ]
    )
    return draw.button(action, inside, "sg-card sg-product")


def _options(draw: _Drawing, chunk: Chunk) -> Markup:
    chosen = str(chunk.data.get("chosen") or "").lower()
    chips = []
    for action, value in zip(chunk.actions, chunk.data.get("values", ()), strict=False):
        is_chosen = str(value).lower() == chosen and bool(chosen)
        label = join(["✓ " if is_chosen else "", value])
        marks = "sg-chip sg-chosen" if is_chosen else "sg-chip"
        chips.append(draw.button(action, label, marks, aria_pressed=str(is_chosen).lower()))
    name = str(chunk.data.get("name", ""))
    return el(
        "div",
        el("span", name, cls="sg-option-name"),
        el("div", chips, cls="sg-row"),
        cls="sg-options", role="group", aria_label=name,
    )  # fmt: skip


def _item(draw: _Drawing, by_kind: Mapping[str, list[Chunk]]) -> Markup:
    """Draw a product's page: what it is first, then its options, then what one can do."""
    lines = [line for chunk in by_kind["item"] for line in chunk.data.get("lines", ())]
    title, *facts = lines or [""]
    price = next((line for line in facts if line.startswith("Price: ")), "")
    rest = [line for line in facts if line != price]
    hero = el(
        "div",
        tile(title, title, big=True),
        el(
            "div",
            el("div", title, cls="sg-item-title"),
            el("div", price.removeprefix("Price: "), cls="sg-price sg-price-big")
            if price
            else None,
            el("div", " · ".join(rest), cls="sg-muted") if rest else None,
        ),
        cls="sg-hero",
    )
    options = [_options(draw, chunk) for chunk in by_kind.get("options", ())]
    known = ("item", "options", "navigation", "buttons", "instruction", "header", "notice")
    others = [_chunk(draw, c) for kind in by_kind if kind not in known for c in by_kind[kind]]
    top = [_navigation(draw, chunk) for chunk in by_kind.get("navigation", ())]
    end = [_navigation(draw, chunk) for chunk in by_kind.get("buttons", ())]
    return join([top, hero, options, others, end])


def tile(seed: str, title: str, *, big: bool = False) -> Markup:
    """Return the picture of a thing that has none: its initial on a colour of its own."""
    hue = int(hashlib.sha256(seed.encode()).hexdigest()[:4], 16) % 360
    words = [word for word in title.split() if word[:1].isalnum()]
    letters = "".join(word[0].upper() for word in words[:2]) or "·"
    size = "sg-tile sg-tile-big" if big else "sg-tile"
    return el("span", letters, cls=size, style=f"--h:{hue}", aria_hidden="true")
