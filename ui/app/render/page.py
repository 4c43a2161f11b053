"""A world's page drawn as a page, by the roles of its chunks.

Entries are cards, choices are chips, commands are buttons, text is text. Whatever can be done carries
``data-action``; a form for a command that takes words ``data-verb``.
"""

import hashlib
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from markupsafe import Markup

from envs.protocols import Chunk, Fragment, Observation, View, takes_text, verb_of
from ui.actions import label, lead_of, split_action
from ui.app.render.html import el, join, short

#: Roles whose chunks are commands.
_COMMANDS = ("commands", "pinned")


def render_page(
    view: View,
    observation: Observation,
    instruction: str,
    *,
    taken: str | None = None,
    hidden: Sequence[str] = (),
    live: bool = True,
    address: str = "",
    forms: Sequence[str] = (),
) -> Markup:
    """Draw a page.

    ``taken`` is the action that was taken here (it is ringed), ``hidden`` are the affordances that
    the model cannot see (dashed), ``live`` says whether one can act here, ``forms`` are affordances
    that take words beside those that the page lists.
    """
    draw = _Drawing(view, taken, frozenset(hidden), live)
    chunks = [chunk for chunk in view.chunks(observation) if chunk.role != "frame"]
    slots = dict.fromkeys([*filter(takes_text, observation.actions), *forms])
    dots = [el("span", cls="sg-dot") for _ in range(3)]
    wish = el("div", el("span", "Instruction", cls="sg-wish-label"), instruction, cls="sg-wish")
    return el(
        "div",
        el("div", dots, el("span", address or "page", cls="sg-address"), cls="sg-browserbar"),
        el("div", wish, [draw.form(slot) for slot in slots], draw.body(chunks), cls="sg-page-body"),
        cls="sg-page" + ("" if live else " sg-page-past"),
    )


def title_of(view: View, chunk: Chunk) -> str:
    """Return what a chunk is called: its title's words, "" where it has none."""
    parts = _parts(view.fragments(chunk))
    return " ".join(parts.get("title", ())) or str(chunk.data.get("title") or "")


def _parts(fragments: Sequence[Fragment]) -> dict[str, list[str]]:
    """Return the texts of fragments that are no commands, without what joins them, by role."""
    parts: dict[str, list[str]] = {}
    for fragment in fragments:
        text = fragment.text.strip(" |\n")
        if fragment.action is None and text:
            parts.setdefault(fragment.role, []).append(text)
    return parts


class _Drawing:
    """What every part of one page's drawing needs to know."""

    def __init__(self, view: View, taken: str | None, hidden: frozenset[str], live: bool) -> None:
        self.view, self.taken, self.hidden, self.live = view, taken, hidden, live

    def body(self, chunks: Sequence[Chunk]) -> Markup:
        """Draw chunks in page order; what the page is about goes before its choices."""
        if any(chunk.role == "subject" for chunk in chunks):
            first = next(i for i, c in enumerate(chunks) if c.role not in _COMMANDS)
            ranks = {"subject": 1, "choice": 2}
            order = [0 if i < first else ranks.get(c.role, 3) for i, c in enumerate(chunks)]
            chunks = [c for _, c in sorted(zip(order, chunks, strict=True), key=lambda p: p[0])]
            commands = [c for c in chunks if c.role == "commands" and c.actions]
            primary = commands[-1].actions[-1] if len(commands) > 1 else None
        else:
            primary = None
        parts: list[Markup] = []
        for role, run in groupby(chunks, key=lambda chunk: chunk.role):
            group = list(run)
            if role == "entry":
                parts.append(el("div", [self.entry(chunk) for chunk in group], cls="sg-cards"))
            elif role in _COMMANDS:
                parts.append(self.commands(group, primary))
            elif role == "text":
                parts.append(self.text(group))
            else:
                draw = self.subject if role == "subject" else self.choice
                parts += [draw(chunk) for chunk in group]
        return join(parts)

    def button(self, action: str, text: object, cls: str = "sg-btn", **more: Any) -> Markup:
        """Return a button that takes ``action``."""
        title = None
        if action == self.taken:
            cls, title = f"{cls} sg-taken", "the action that was taken here"
        elif action in self.hidden:
            cls, title = f"{cls} sg-unseen", "dropped from the context: the model cannot see this"
        return el(
            "button", text, cls=cls, type="button", data_action=action, title=title,
            disabled=not self.live, **more,
        )  # fmt: skip

    def buttons(self, actions: Sequence[str], primary: str | None = None) -> list[Markup]:
        """Return a button for each command; what takes words has a form instead."""
        return [
            self.button(a, label(a), "sg-btn sg-primary" if a == primary else "sg-btn")
            for a in actions
            if not takes_text(a)
        ]

    def form(self, slot: str) -> Markup:
        """Return the bar for a command that takes words."""
        verb = verb_of(slot)
        taken_verb, words = split_action(self.taken or "")
        is_taken = taken_verb == verb
        if not self.live and not is_taken:
            return Markup("")
        return el(
            "form",
            el(
                "input", name="words", type="search", placeholder=f"{verb} words …",
                aria_label=f"{verb} words", value=words if is_taken else None,
                disabled=not self.live, autocomplete="off",
            ),
            el("button", verb.capitalize(), type="submit", cls="sg-btn", disabled=not self.live),
            cls="sg-search" + (" sg-taken" if is_taken else ""),
            data_verb=verb,
        )  # fmt: skip

    def commands(self, chunks: Sequence[Chunk], primary: str | None) -> Markup:
        """Draw commands in a row, and what the page says of them."""
        buttons = [self.buttons(chunk.actions, primary) for chunk in chunks]
        leads = [lead_of(self.view, chunk) for chunk in chunks if chunk.role == "commands"]
        says = [el("span", lead, cls="sg-muted") for lead in leads if lead]
        return el("div", buttons, says, cls="sg-row sg-nav") if any(buttons) or says else Markup("")

    def entry(self, chunk: Chunk) -> Markup:
        """Draw one of several things as a card, a button where one command opens it."""
        parts = _parts(self.view.fragments(chunk))
        name = label(chunk.actions[0]) if chunk.actions else chunk.id
        title = " ".join(parts.pop("title", ())) or short(chunk.text, 160) or name
        facts = [
            *(el("span", text, cls="sg-amount") for text in parts.pop("quantity", ())),
            *(el("span", text) for text in parts.pop("fact", ())),
            el("span", name, cls="sg-name") if name.lower() != title.lower() else None,
            el("span", "seen", cls="sg-badge") if chunk.is_visited else None,
        ]
        body = el(
            "span",
            el("span", title, cls="sg-card-title"),
            el("span", facts, cls="sg-row sg-facts"),
            cls="sg-card-body",
        )
        inside = join([tile(name, title), body])
        if len(chunk.actions) == 1:
            return self.button(chunk.actions[0], inside, "sg-card sg-entry")
        return el(
            "div", el("div", inside, cls="sg-entry"),
            el("div", self.buttons(chunk.actions), cls="sg-row"), cls="sg-card",
        )  # fmt: skip

    def subject(self, chunk: Chunk) -> Markup:
        """Draw what the page is about, large."""
        parts = _parts(self.view.fragments(chunk))
        title = " ".join(parts.get("title", ())) or short(chunk.text, 200)
        kind, colon, rest = title.partition(": ")
        title = rest if colon and len(kind) < 12 else title  # what kind of thing it is
        amounts = [text.rpartition(": ")[2] for text in parts.get("quantity", ())]
        others = [*parts.get("fact", ()), *parts.get("text", ())]
        hero = el(
            "div",
            tile(title, title, big=True),
            el(
                "div",
                el("div", title, cls="sg-subject-title"),
                [el("div", amount, cls="sg-amount sg-amount-big") for amount in amounts],
                el("div", " · ".join(others), cls="sg-muted") if others else None,
            ),
            cls="sg-hero",
        )
        buttons = self.buttons(chunk.actions)
        return join([hero, el("div", buttons, cls="sg-row") if buttons else None])

    def choice(self, chunk: Chunk) -> Markup:
        """Draw values to choose from as chips, the chosen one marked."""
        choice = chunk.choice
        if choice is None:
            return self.text([chunk])
        chips = []
        for action, value in zip(chunk.actions, choice.values, strict=False):
            is_chosen = value == choice.chosen
            text = join(["✓ " if is_chosen else "", value])
            marks = "sg-chip sg-chosen" if is_chosen else "sg-chip"
            chips.append(self.button(action, text, marks, aria_pressed=str(is_chosen).lower()))
        return el(
            "div",
            el("span", choice.name, cls="sg-choice-name"),
            el("div", chips, cls="sg-row"),
            cls="sg-choice", role="group", aria_label=choice.name,
        )  # fmt: skip

    def text(self, chunks: Sequence[Chunk]) -> Markup:
        """Draw running text; a chunk with a title or commands is a card."""
        parts = []
        for chunk in chunks:
            lines = chunk.data.get("lines") or chunk.text.splitlines()
            title = chunk.data.get("title") or chunk.data.get("source")
            buttons = self.buttons(chunk.actions)
            body = [el("p", line) for line in lines if str(line).strip()]
            if title or buttons:
                head = el("div", title, cls="sg-card-title") if title else None
                row = el("div", buttons, cls="sg-row") if buttons else None
                parts.append(el("div", head, body, row, cls="sg-card sg-text-card"))
            else:
                parts.append(join(body))
        return el("div", parts, cls="sg-detail") if any(parts) else Markup("")


def render_outcome(cards: Sequence[Mapping[str, Any]]) -> Markup:
    """Draw what a world lays side by side at the end of an episode."""
    if not cards:
        return Markup("")
    drawn = [
        el(
            "div",
            el("div", card.get("name", ""), cls="sg-panel-title"),
            el("div", card.get("title", ""), cls="sg-card-title"),
            el("div", card.get("amount", ""), cls="sg-amount"),
            el(
                "div",
                _chips(card.get("facts", ())),
                _chips(card.get("tags", ()), soft=True),
                cls="sg-row",
            ),
            cls="sg-bill",
        )
        for card in cards
    ]
    return el("div", drawn, cls="sg-receipt")


def _chips(texts: Sequence[str], soft: bool = False) -> list[Markup]:
    return [el("span", text, cls="sg-chip" + " sg-chip-soft" * soft) for text in texts]


def tile(seed: str, title: str, *, big: bool = False) -> Markup:
    """Return the picture of a thing that has none: its initials on a colour of its own."""
    hue = int(hashlib.sha256(seed.encode()).hexdigest()[:4], 16) % 360
    words = [word for word in title.split() if word[:1].isalnum()]
    letters = "".join(word[0].upper() for word in words[:2]) or "·"
    size = "sg-tile sg-tile-big" if big else "sg-tile"
    return el("span", letters, cls=size, style=f"--h:{hue}", aria_hidden="true")
