"""How an agent reads WebShop, in both observation modes: chunks, actions, wishes, status.

Joined in order, the chunks' texts are the page again, byte for byte, so nothing that a builder drops
goes uncounted.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from stategate.envs.protocols import (
    ActionVocabulary,
    Choice,
    Chunk,
    Clause,
    Fragment,
    FragmentRole,
    Observation,
    Role,
    StateInput,
    StatusLine,
    View,
    is_legal,
    listed,
    target_of,
)
from stategate.envs.webshop.pages import CLICKED, LABELS, RESULTS, SEARCH, SEPARATOR, dollars
from stategate.envs.webshop.reading import FORMS, Part, clauses, inputs_of, read_page
from stategate.language.instruction.aligned import AlignedInstruction
from stategate.language.instruction.parsed import parse
from stategate.stores.text import one_line
from stategate.stores.traces import Event

BACK, PREV, NEXT = "click[back to search]", "click[< prev]", "click[next >]"
BUY, FEATURES = "click[buy now]", "click[features]"
DETAILS = ("click[description]", FEATURES, "click[reviews]", "click[attributes]")
#: The click that opens a product; its group is the product's code.
OPENED = re.compile(r"click\[(b[0-9a-z]{9})\]")
BUTTONS = ("search", *(label.lower() for label in LABELS))


class WebShopActions(ActionVocabulary):
    """Searches, products, options, buttons."""

    classes: tuple[str, ...] = (
        *("search", "product", "option", "buy"),
        *("details", "page", "back", "other"),
    )

    def class_of(self, page: str, action: str) -> str:
        """Return the class of ``action`` taken on the page with the text ``page``."""
        act = action.lower()
        if act.startswith("search["):
            return "search"
        if act in (BUY, BACK):
            return "buy" if act == BUY else "back"
        read = read_page(page)
        clicks = {_click(label) for label in read.labels}
        if read.kind == "results":
            return "page" if act in (NEXT, PREV) else "product" if act in clicks else "other"
        if read.kind not in ("item", "sub"):
            return "other"
        if act == PREV or act in DETAILS:
            return "back" if act == PREV else "details"
        return "option" if read.kind == "item" and act in clicks else "other"

    def accepts(self, action: str, observation: Observation) -> bool:
        """Say whether the page offers ``action``; a search is taken on any page but the last."""
        is_search = action.startswith("search[") and action.endswith("]") and action != "search[]"
        return is_legal(action, observation.actions) or (is_search and not observation.done)

    def safe(self, actions: Sequence[str], instruction: str) -> str:
        """Return something that undoes, not buys: back, a search for the instruction, another click.

        With nothing readable, or nothing but "buy now", it is a search, which any page accepts.
        """
        for retreat in (PREV, BACK):
            if retreat in actions:
                return retreat
        others = [action for action in actions if action not in (SEARCH, BUY)]
        if SEARCH in actions or not others:
            goal = AlignedInstruction.of(instruction.removeprefix("Instruction:"))
            plain = goal.written(*FORMS["search"])
            return f"search[{plain or 'popular products'}]"
        return others[0]

    def refuses(self, action: str, observation: Observation, instruction: str) -> str:
        """Refuse to buy above the price that the instruction surely states as the most."""
        if action.strip().lower() != BUY:
            return ""
        subjects = (c for c in chunk_page(observation) if c.role == "subject")
        amounts = [f.amount for c in subjects for f in c.fragments or () if f.amount is not None]
        parsed = parse(instruction)
        if not amounts or parsed.limit is None or not parsed.forbids(amounts[0]):
            return ""
        return f"${amounts[0]:,.2f} is above the limit of ${parsed.limit.high:,.2f}"


class WebShopView(View):
    """WebShop's pages in either observation mode."""

    name = "webshop"
    actions: ActionVocabulary = WebShopActions()
    brief = Path(__file__).with_name("brief.txt").read_text("utf-8").strip()

    def clauses(self, instruction: str) -> Sequence[Clause]:
        """Return the parts that the aligner finds (see ``reading``)."""
        return clauses(instruction)

    def chunks(self, observation: Observation) -> Sequence[Chunk]:
        """Split a page into chunks."""
        return chunk_page(observation)

    def status(self, observation: Observation, visible: Sequence[Chunk]) -> Sequence[StatusLine]:
        """Return the chosen values, and, on pages that mark choices, the open choices."""
        lines = [*super().status(observation, visible)]
        choices = [chunk.choice for chunk in visible if chunk.choice is not None]
        waiting = [one_line(choice.name) for choice in choices if choice.chosen is None]
        marks = "[button]" in observation.text or CLICKED in observation.text
        if waiting and marks:
            lines.append(StatusLine(f"Not chosen yet: {', '.join(waiting)}", is_settled=False))
        return lines

    def inputs(self, event: Event) -> Sequence[StateInput]:
        """Return one line a page, and facts about the asked options (see ``reading``)."""
        return inputs_of(event) if event.kind in ("OBS", "ACT") else super().inputs(event)


def chunk_page(observation: Observation) -> tuple[Chunk, ...]:
    """Split a WebShop page, in either mode, into chunks with their affordances; each page once.

    Kinds: notice, header, instruction, navigation, product, options, item (title, price, rating),
    detail (one text node of a sub-page, or the receipt) and buttons.
    """
    return _chunks(observation.text, observation.actions, observation.done)


@lru_cache(maxsize=256)
def _chunks(text: str, actions: tuple[str, ...], done: bool) -> tuple[Chunk, ...]:
    parts: Sequence[Part] = read_page(text).parts
    if SEPARATOR in text or "\n" not in text:
        parts = _marked(parts, {*actions})
    groups = _groups(_with_roles(parts, {*actions}), actions, done)
    return tuple(_named(_chunk(*group) for group in groups))


def _click(label: str) -> str:
    return f"click[{label.lower()}]"


def _marked(parts: Sequence[Part], actions: set[str]) -> list[Part]:
    """Mark the parts of a `text` page as a `rich` page does, by their places.

    On an item page the last seven are title, price, rating and the four buttons, and the options
    stand between "< Prev" (the fourth) and them, each group led by its name.
    """
    is_item = BUY in actions
    is_results = any(RESULTS.fullmatch(part.label) for part in parts[2:5])
    first = 3 if SEARCH in actions else 2  # behind the instruction
    lead = 6 if is_results else 4  # parts before the page's own content
    title = len(parts) - 7 if is_item else -1
    marked = []
    for i, part in enumerate(parts):
        is_button = part.label.lower() in BUTTONS
        if 4 < i < title:
            marked.append(replace(part, role="option"))
        elif is_button and first <= i and (i < lead or (is_item and i > title)):
            marked.append(replace(part, role="button"))
        else:
            is_product = is_results and i > 3 and not is_button
            marked.append(replace(part, role="button") if is_product else part)
    return marked


def _with_roles(parts: Sequence[Part], actions: set[str]) -> list[Part]:
    """Tell what marked parts are by what the page offers; a text may only look like a button."""
    with_roles = []
    for part in parts:
        role, is_offered = part.role, _click(part.label) in actions
        if not is_offered and not (part.label == "Search" and SEARCH in actions):
            role = "text"
        elif role == "button" and is_offered and part.label.lower() not in BUTTONS:
            role = "product"
        with_roles.append(replace(part, role=role))
    return with_roles


def _groups(
    parts: Sequence[Part], actions: Sequence[str], done: bool
) -> list[tuple[str, list[Part]]]:
    """Gather parts into chunks, left to right; every part's raw text lands in exactly one."""
    groups: list[tuple[str, list[Part]]] = []
    kind, group = "", list[Part]()
    for part, following in zip(parts, (*parts[1:], None), strict=True):
        own, joins = _place(part, following.role if following else "", kind, group)
        if done and own not in ("notice", "header"):
            own, joins = "detail", True
        if own == "detail" and BUY in actions:
            own, joins = "item", True
        if own == kind and joins:
            group.append(part)
        else:
            kind, group = own, [part]
            groups.append((kind, group))
    return groups


_HEAD = ("", "notice", "header", "instruction")


def _place(part: Part, following: str, kind: str, group: Sequence[Part]) -> tuple[str, bool]:
    """Return the kind of chunk of ``part``, and whether it may join the last one, ``group``."""
    is_text = part.role == "text"
    if kind in ("", "notice") and part.label.startswith(CLICKED):
        return "notice", False
    if kind in ("", "notice") and part.label == "WebShop":
        return "header", False
    if is_text and kind in _HEAD:
        return "instruction", True
    if kind in (*_HEAD, "navigation") and (part.role == "button" or RESULTS.fullmatch(part.label)):
        return "navigation", True
    if part.role == "product" or (not part.label and following == "product"):
        return "product", not any(p.label for p in group)  # after the blank that leads it
    if is_text and kind == "product":
        return "product", True
    if part.role == "option" and kind == "options":
        return "options", True
    if is_text:
        return ("options" if following == "option" else "detail"), False
    return "buttons", bool(group) and group[-1].role == part.role


def _chunk(kind: str, parts: Sequence[Part]) -> Chunk:
    """Return the chunk of some parts; the instruction leads every prompt, and notices are status."""
    text = "".join(part.raw for part in parts)
    if kind in ("notice", "header", "instruction"):
        return Chunk("", kind, text, role="frame", fragments=())
    if kind in ("navigation", "buttons"):
        return _commands(kind, text, parts)
    if kind == "product":
        return _product(text, parts)
    if kind == "options":
        return _options(text, parts)
    labels = [part.label for part in parts if part.label]
    fragments = _item(labels) if kind == "item" else _detail(labels)
    role: Role = "subject" if kind == "item" else "text"
    return Chunk("", kind, text, (), {"lines": labels}, role, fragments=tuple(fragments))


def _named(chunks: Iterable[Chunk]) -> Iterable[Chunk]:
    """Name chunks so that the same part of the same page has the same id."""
    counts: dict[str, int] = {}
    for chunk in chunks:
        own = chunk.choice.name if chunk.choice is not None else chunk.data.get("asin")
        base = f"{chunk.kind}:{own}" if own else chunk.kind
        counts[base] = counts.get(base, 0) + 1
        suffix = f":{counts[base]}" if counts[base] > 1 or chunk.kind == "detail" else ""
        yield replace(chunk, id=base + suffix)


def _commands(kind: str, text: str, parts: Sequence[Part]) -> Chunk:
    buttons = [part.label for part in parts if part.role == "button"]
    actions = tuple(SEARCH if label == "Search" else _click(label) for label in buttons)
    lead = "Search bar:" if actions == (SEARCH,) else "Buttons:"
    page = next((m for part in parts if (m := RESULTS.fullmatch(part.label))), None)
    if page:
        lead = f"Page {page[1]} (Total results: {page[2]}). {lead}"
    labels = [a if a == SEARCH else one_line(target_of(a)) for a in actions]
    first, *others = listed(lead, actions, labels)
    first = replace(first, amount=int(page[1]) if page else None)
    return Chunk("", kind, text, actions, role="commands", fragments=(first, *others))


def _product(text: str, parts: Sequence[Part]) -> Chunk:
    link = next(part for part in parts if part.role == "product")
    texts = [part.label for part in parts if part.role == "text" and part.label]
    price = texts.pop() if len(texts) > 1 and texts[-1].startswith("$") else ""
    seen = " (seen)" if link.is_clicked else ""
    fragments = [Fragment(link.label.lower() + seen, _click(link.label))]
    if texts:
        title = f" | {one_line(' '.join(texts))}"
        fragments.append(Fragment(title, role="title", label=" | "))
    if price:
        amount = dollars(price)
        role: FragmentRole = "title" if amount is None else "quantity"
        fragments.append(Fragment(f" | {one_line(price)}", None, role, amount, " | "))
    actions, data = (_click(link.label),), {"asin": link.label}
    return Chunk(
        *("", "product", text, actions, data, "entry"),
        is_visited=link.is_clicked,
        fragments=tuple(fragments),
    )


def _options(text: str, parts: Sequence[Part]) -> Chunk:
    name, *options = parts
    values = tuple(option.label.lower() for option in options)
    chosen = next((option.label.lower() for option in options if option.is_clicked), None)
    actions = tuple(map(_click, values))
    fragments = tuple(listed(f"Option {one_line(name.label)}:", actions, values))
    choice = Choice(name.label, values, chosen)
    return Chunk("", "options", text, actions, {}, "choice", choice, fragments=fragments)


def _item(labels: Sequence[str]) -> Iterable[Fragment]:
    lines = [one_line(label) for label in labels]
    for i, line in enumerate(lines):
        end = "\n" if i < len(lines) - 1 else ""
        if not i:
            yield Fragment(f"Product: {line}{end}", role="title", label="Product: ")
        elif line.startswith("Price: "):
            yield Fragment(line + end, None, "quantity", dollars(line), "Price: ")
        else:
            yield Fragment(line + end, role="fact")


def _detail(labels: Sequence[str]) -> Iterable[Fragment]:
    for i, label in enumerate(labels):
        end = "\n" if i < len(labels) - 1 else ""
        yield Fragment(f"Text: {one_line(label)}{end}", label="Text: ")
