"""How an agent reads WebShop, in both observation modes: chunks, actions, wishes, status.

Joined in order, the chunks' texts are the page again, byte for byte, so nothing that a builder drops
goes uncounted.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Literal

from stategate.envs.protocols import (
    ActionVocabulary,
    Choice,
    Chunk,
    Clause,
    Fragment,
    Observation,
    Role,
    StateInput,
    StatusLine,
    View,
    chosen_line,
    is_legal,
    listed,
    target_of,
)
from stategate.envs.webshop.pages import MARKED, RESULTS, SEARCH, dollars
from stategate.envs.webshop.reading import Wanted, clauses, inputs_of, read_page
from stategate.stores.text import one_line
from stategate.stores.traces import Event

BACK, PREV, NEXT = "click[back to search]", "click[< prev]", "click[next >]"
BUY, FEATURES = "click[buy now]", "click[features]"
DETAILS = ("click[description]", FEATURES, "click[reviews]", "click[attributes]")
#: The click that opens a product; its group is the product's code.
OPENED = re.compile(r"click\[(b[0-9a-z]{9})\]")
BUTTONS = (
    "search",
    "next >",
    "< prev",
    "back to search",
    "description",
    "features",
    "reviews",
    "attributes",
    "buy now",
)


def is_product(target: str) -> bool:
    """Say whether a click's target is a product code (ten characters, a letter and digits)."""
    return re.fullmatch(r"b[0-9a-z]{9}", target.lower()) is not None


class WebShopActions(ActionVocabulary):
    """Searches, products, options, buttons."""

    classes: tuple[str, ...] = (
        "search",
        "product",
        "option",
        "buy",
        "details",
        "page",
        "back",
        "other",
    )

    def class_of(self, page: str, action: str) -> str:
        """Return the class of ``action`` taken on the page with the text ``page``."""
        act = action.lower()
        if act.startswith("search["):
            return "search"
        if act in (BUY, BACK):
            return "buy" if act == BUY else "back"
        read = read_page(page)
        offered = {f"click[{part.lower()}]" for part in read.parts}
        if read.kind == "results":
            return "page" if act in (NEXT, PREV) else "product" if act in offered else "other"
        if read.kind not in ("item", "sub"):
            return "other"
        if act == PREV or act in DETAILS:
            return "back" if act == PREV else "details"
        return "option" if read.kind == "item" and act in offered else "other"

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
            plain = Wanted.of(instruction.removeprefix("Instruction:")).searched("search")
            return f"search[{plain or 'popular products'}]"
        return others[0]


_SEPARATOR = " [SEP] "
_CLICKED = "You have clicked "
_ROLES: dict[str, Role] = {
    "notice": "frame",
    "header": "frame",
    "instruction": "frame",
    "navigation": "commands",
    "buttons": "commands",
    "product": "entry",
    "options": "choice",
    "item": "subject",
    "detail": "text",
}


@dataclass(frozen=True)
class _Token:
    """One visible text node: ``raw`` is its slice of the page, ``label`` what a person reads."""

    raw: str
    label: str
    role: Literal["text", "button", "option", "product"]
    clicked: bool = False

    @property
    def action(self) -> str:
        return f"click[{self.label.lower()}]"


def chunk_page(observation: Observation) -> tuple[Chunk, ...]:
    """Split a WebShop page, in either mode, into chunks with their affordances; each page once.

    Kinds: notice, header, instruction, navigation, product, options, item (title, price, rating),
    detail (one text node of a sub-page, or the receipt) and buttons.
    """
    return _chunks(observation.text, observation.actions, observation.done)


@lru_cache(maxsize=256)
def _chunks(text: str, actions: tuple[str, ...], done: bool) -> tuple[Chunk, ...]:
    observation = Observation(text, actions, done=done)
    is_rich = _SEPARATOR not in text and "\n" in text
    tokens = list(_rich_tokens(observation) if is_rich else _text_tokens(observation))
    return tuple(_with_ids(_group(tokens, observation)))


def _text_tokens(observation: Observation) -> Iterable[_Token]:
    parts = observation.text.split(_SEPARATOR)
    actions = set(observation.actions)
    is_item = "click[buy now]" in actions
    is_results = any(RESULTS.fullmatch(part) for part in parts[2:5])
    # On an item page the last seven nodes are title, price, rating and the four buttons, and the
    # options stand between "< Prev" (node 3) and them, each group led by its name.
    options = range(4, len(parts) - 7) if is_item else range(0)
    after_name = False
    title = len(parts) - 7 if is_item else -1
    lead = 6 if is_results else 4  # nodes before the page's own content
    for i, part in enumerate(parts):
        raw = part + (_SEPARATOR if i < len(parts) - 1 else "")
        clickable = f"click[{part.lower()}]" in actions
        is_search = part == "Search" and SEARCH in actions and i == len(parts) - 1
        role: Literal["text", "button", "option", "product"] = "text"
        if i in options:
            role = "option" if clickable and after_name else "text"
            after_name = True
        elif is_results and i > 3 and clickable and part.lower() not in BUTTONS:
            role = "product"
        elif is_search or (clickable and i != title and (i < lead or is_item)):
            role = "button"
        yield _Token(raw, part, role)


def _rich_tokens(observation: Observation) -> Iterable[_Token]:
    for line in observation.text.splitlines(keepends=True):
        button = MARKED.match(line)
        if button is None:
            yield _Token(line, line.strip(), "text")
            continue
        indent, clicked, label = button.group(1), bool(button.group(2)), button.group(3)
        action = f"click[{label.lower()}]"
        is_search = label == "Search" and SEARCH in observation.actions
        if action not in observation.actions and not is_search:
            yield _Token(line, line.strip(), "text")  # a product's text that looks like a button
        elif indent:
            yield _Token(line, label, "option", clicked)
        elif label.lower() not in BUTTONS and action in observation.actions:
            yield _Token(line, label, "product", clicked)
        else:
            yield _Token(line, label, "button", clicked)


def _group(tokens: Sequence[_Token], observation: Observation) -> Iterable[Chunk]:
    """Gather tokens into chunks, left to right; every token's raw text lands in exactly one."""
    groups: list[tuple[str, list[_Token]]] = []
    kind, part = "", list[_Token]()
    for i, token in enumerate(tokens):
        following = tokens[i + 1].role if i + 1 < len(tokens) else ""
        own, joins = _place(token, following, kind, part, observation)
        if own == kind and joins:
            part.append(token)
        else:
            kind, part = own, [token]
            groups.append((kind, part))
    return [_chunk(*group) for group in groups]


def _place(
    token: _Token, following: str, kind: str, part: Sequence[_Token], observation: Observation
) -> tuple[str, bool]:
    """Return the kind of chunk of ``token``, and whether it may join the last one, ``part``."""
    is_text, head = token.role == "text", ("", "notice", "header", "instruction")
    if kind in head[:2] and token.label.startswith(_CLICKED):
        return "notice", False
    if kind in head[:2] and token.label == "WebShop":
        return "header", False
    if observation.done:
        return "detail", True
    if is_text and kind in head:
        return "instruction", True
    if kind in (*head, "navigation") and (token.role == "button" or RESULTS.fullmatch(token.label)):
        return "navigation", True
    if token.role == "product" or (not token.label and following == "product"):
        return "product", not any(t.label for t in part)  # after the blank that leads it
    if is_text and kind == "product":
        return "product", True
    if token.role == "option" and kind == "options":
        return "options", True
    if is_text and following == "option":
        return "options", False
    if is_text:
        is_item = "click[buy now]" in observation.actions
        return ("item", True) if is_item else ("detail", False)
    return "buttons", part[-1].role == token.role if part else False


def _chunk(kind: str, tokens: Sequence[_Token]) -> Chunk:
    labels = [token.label for token in tokens if token.label]
    actions: tuple[str, ...] = ()
    data: dict[str, object] = {}
    choice = None
    if kind == "notice":
        data["clicked"] = tokens[0].label.removeprefix(_CLICKED).removesuffix(".")
    elif kind == "instruction":
        words = " ".join(token.label for token in tokens)
        data["instruction"] = words.removeprefix("Instruction:").strip()
    elif kind in ("navigation", "buttons"):
        buttons = [token for token in tokens if token.role == "button"]
        actions = tuple(SEARCH if token.label == "Search" else token.action for token in buttons)
        if page := next((m for label in labels if (m := RESULTS.fullmatch(label))), None):
            data = {"page": int(page[1]), "total": int(page[2])}
    elif kind == "product":
        link = next(token for token in tokens if token.role == "product")
        texts = [token.label for token in tokens if token.role == "text" and token.label]
        price = texts.pop() if len(texts) > 1 and texts[-1].startswith("$") else ""
        actions, title = (link.action,), " ".join(texts)
        data = {"asin": link.label, "title": title, "price": price, "seen": link.clicked}
    elif kind == "options":
        name, *options = tokens
        actions = tuple(option.action for option in options)
        chosen = next((option.label.lower() for option in options if option.clicked), None)
        choice = Choice(name.label, tuple(option.label.lower() for option in options), chosen)
    elif kind in ("item", "detail"):
        data["lines"] = labels
    text = "".join(token.raw for token in tokens)
    return Chunk("", kind, text, actions, data, _ROLES[kind], choice, bool(data.get("seen")))


def _with_ids(chunks: Iterable[Chunk]) -> Iterable[Chunk]:
    """Name chunks so that the same part of the same page has the same id."""
    counts: dict[str, int] = {}
    for chunk in chunks:
        own = chunk.choice.name if chunk.choice is not None else chunk.data.get("asin")
        base = f"{chunk.kind}:{own}" if own else chunk.kind
        counts[base] = counts.get(base, 0) + 1
        suffix = f":{counts[base]}" if counts[base] > 1 or chunk.kind == "detail" else ""
        draw = _FRAGMENTS.get(
            chunk.kind
        )  # none: the instruction leads every prompt, notices are status
        fragments = () if draw is None else tuple(draw(chunk))
        yield replace(chunk, id=base + suffix, fragments=fragments)


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
    if amount is None:
        return Fragment(text, role="title", label=" | ")
    return Fragment(text, role="quantity", amount=amount, label=" | ")


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


_FRAGMENTS = {
    "navigation": _commands,
    "buttons": _commands,
    "product": _product,
    "options": _options,
    "item": _item,
    "detail": _detail,
}


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
