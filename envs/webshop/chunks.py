"""WebShop's pages as chunks, in both observation modes.

Joined in order, the chunks' texts are the page again, byte for byte, so nothing that a builder drops
goes uncounted.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from stategate.envs.protocols import Choice, Chunk, Observation, Role
from stategate.envs.webshop.pages import MARKED, RESULTS, SEARCH

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
        yield replace(chunk, id=base + suffix)
