"""WebShop's pages as chunks, in both observation modes.

Joined in order, the chunks' texts are the page again, byte for byte, so nothing that a builder drops
goes uncounted.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from envs.protocols import Choice, Chunk, Observation, Role
from envs.webshop.pages import MARKED, RESULTS, SEARCH

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


def chunk_page(observation: Observation) -> list[Chunk]:
    """Split a WebShop page, in either mode, into chunks with their affordances.

    Kinds: notice, header, instruction, navigation, product, options, item (title, price, rating),
    detail (one text node of a sub-page, or the receipt) and buttons.
    """
    is_rich = _SEPARATOR not in observation.text and "\n" in observation.text
    tokens = list(_rich_tokens(observation) if is_rich else _text_tokens(observation))
    return list(_with_ids(_group(tokens, observation)))


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
        elif is_results and i > 3 and clickable and part.lower() not in _BUTTONS:
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
        elif label.lower() not in _BUTTONS and action in observation.actions:
            yield _Token(line, label, "product", clicked)
        else:
            yield _Token(line, label, "button", clicked)


_BUTTONS = {"search", "back to search", "< prev", "next >", "description", "features", "reviews"}
_BUTTONS |= {"attributes", "buy now"}


def _group(tokens: Sequence[_Token], observation: Observation) -> Iterable[Chunk]:
    """Gather tokens into chunks, left to right; every token's raw text lands in exactly one."""
    i = 0

    def take(while_: Iterable[bool]) -> Sequence[_Token]:
        nonlocal i
        start = i
        for ok in while_:
            if not ok:
                break
            i += 1
        return tokens[start:i]

    def rest_is(*roles: str) -> Iterable[bool]:
        return (token.role in roles for token in tokens[i:])

    while i < len(tokens) and tokens[i].label.startswith(_CLICKED):
        i += 1
        label = tokens[i - 1].label.removeprefix(_CLICKED).removesuffix(".")
        yield _chunk("notice", tokens[i - 1 : i], (), clicked=label)
    if i < len(tokens) and tokens[i].label == "WebShop":
        i += 1
        yield _chunk("header", tokens[i - 1 : i], ())
    if observation.done:
        if i < len(tokens):
            yield _chunk("detail", tokens[i:], (), lines=[t.label for t in tokens[i:] if t.label])
        return
    instruction = take(rest_is("text"))
    if instruction:
        words = " ".join(t.label for t in instruction).removeprefix("Instruction:").strip()
        yield _chunk("instruction", instruction, (), instruction=words)
    navigation = take(
        token.role == "button" or RESULTS.fullmatch(token.label) is not None for token in tokens[i:]
    )
    if navigation:
        page = next((m for t in navigation if (m := RESULTS.fullmatch(t.label))), None)
        facts = {"page": int(page.group(1)), "total": int(page.group(2))} if page else {}
        yield _chunk("navigation", navigation, _buttons(navigation), **facts)
    while i < len(tokens):
        token = tokens[i]
        if token.role == "product" or (not token.label and _next_is(tokens, i, "product")):
            yield _product(take(_product_run(tokens, i)))
        elif token.role == "text" and _next_is(tokens, i, "option"):
            name = tokens[i]
            i += 1
            values = take(rest_is("option"))
            yield _chunk("options", [name, *values], tuple(v.action for v in values))
        elif token.role == "text" and "click[buy now]" in observation.actions:
            lines = take(rest_is("text"))
            yield _chunk("item", lines, (), lines=[t.label for t in lines if t.label])
        elif token.role == "text":
            i += 1
            yield _chunk("detail", [token], (), lines=[token.label] if token.label else [])
        else:
            buttons = take(rest_is(token.role))
            yield _chunk("buttons", buttons, _buttons(buttons))


def _product_run(tokens: Sequence[_Token], start: int) -> Iterable[bool]:
    """Say for each token from ``start`` whether it belongs to the product that begins there."""
    seen = False
    for i in range(start, len(tokens)):
        token = tokens[i]
        starts_next = token.role == "product" or (
            not token.label and _next_is(tokens, i, "product")
        )
        if seen and starts_next:
            yield False
            return
        seen = seen or token.role == "product"
        yield token.role in ("product", "text")


def _product(tokens: Sequence[_Token]) -> Chunk:
    link = next(token for token in tokens if token.role == "product")
    texts = [token.label for token in tokens if token.role == "text" and token.label]
    price = texts[-1] if len(texts) > 1 and texts[-1].startswith("$") else ""
    title = " ".join(texts[:-1] if price else texts)
    return _chunk(
        "product", tokens, (link.action,),
        asin=link.label, title=title, price=price, seen=link.clicked,
    )  # fmt: skip


def _next_is(tokens: Sequence[_Token], i: int, role: str) -> bool:
    return i + 1 < len(tokens) and tokens[i + 1].role == role


def _buttons(tokens: Sequence[_Token]) -> tuple[str, ...]:
    return tuple(
        SEARCH if token.label == "Search" else token.action
        for token in tokens
        if token.role == "button"
    )


def _chunk(kind: str, tokens: Sequence[_Token], actions: tuple[str, ...], **data: object) -> Chunk:
    text = "".join(token.raw for token in tokens)
    choice = None
    if kind == "options":
        values = tuple(token.label.lower() for token in tokens[1:])
        chosen = next((token.label.lower() for token in tokens[1:] if token.clicked), None)
        choice = Choice(tokens[0].label, values, chosen)
    return Chunk("", kind, text, actions, data, _ROLES[kind], choice, bool(data.get("seen")))


def _with_ids(chunks: Iterable[Chunk]) -> Iterable[Chunk]:
    """Name chunks so that the same part of the same page has the same id."""
    counts: dict[str, int] = {}
    for chunk in chunks:
        own = chunk.choice.name if chunk.choice is not None else chunk.data.get("asin")
        base = f"{chunk.kind}:{own}" if own else chunk.kind
        counts[base] = counts.get(base, 0) + 1
        suffix = f":{counts[base]}" if counts[base] > 1 or chunk.kind == "detail" else ""
        yield replace(chunk, id=base + suffix)
