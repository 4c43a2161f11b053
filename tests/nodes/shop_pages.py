"""Small shop pages as typed contexts: each line in short is a piece, as a builder would make it."""

import re
from collections.abc import Sequence

from stategate.envs.protocols import Fragment, target_of
from stategate.envs.webshop.pages import dollars
from stategate.nodes.build_context.assemble import instruction_piece
from stategate.nodes.protocols import BuiltContext, ContextRequest, Piece
from tests.kit import context_of, piece_of, step_piece

WISH = (
    "Find me machine wash men's shirts with long sleeve with color: black, and size: x-large, "
    "and price lower than 50.00 dollars"
)
NAVIGATION = ("click[back to search]", "click[< prev]", "click[next >]")
RESULTS = [
    "Page 1 (Total results: 50). Buttons: back to search | next >",
    "b07aaaaaa1 | Garden Hose, 50 Feet | $13.99",
    "b07aaaaaa2 | Men's Long Sleeve Shirt, Machine Wash | $39.99",
    "b07aaaaaa3 | Men's Long Sleeve Shirt, Machine Wash, Gold Buttons | $99.99",
]
LINKS = tuple(f"click[b07aaaaaa{i}]" for i in (1, 2, 3))
ITEM = [
    "Buttons: back to search | < prev",
    "Option color: black | blue | 2 | 4 pack",
    "Option size: large | x-large",
    "Product: Men's Shirt",
    "Price: $39.99",
    "Rating: N.A.",
    "Buttons: description | features | reviews | buy now",
]
VALUES = ("black", "blue", "2 | 4 pack", "large", "x-large")
BUTTONS = ("back to search", "< prev", "description", "features", "reviews", "buy now")
ON_RESULTS = ("click[back to search]", "click[next >]", *LINKS)
ON_ITEM = tuple(f"click[{target}]" for target in (*BUTTONS, *VALUES))
ON_DETAIL = NAVIGATION[:2]
OPENED = ["search[shirts]", "click[b07aaaaaa2]"]


def context(
    lines: Sequence[str],
    actions: Sequence[str],
    history: Sequence[str] = (),
    wish: str = WISH,
    further: Sequence[Piece] = (),
) -> BuiltContext:
    """Return the context of a page of ``lines`` with ``actions``, after the actions ``history``."""
    open_ = list(actions)
    request = ContextRequest(wish, None, None, (), 10**9)  # type: ignore[arg-type]
    pieces = [instruction_piece(request)] if wish else []
    pieces += [_piece(line, open_) for line in lines]
    if open_:
        pieces.append(piece_of("buttons", ("lead", "Buttons:\n"), actions=open_))
    pieces += [step_piece(action, kind="history") for action in history]
    return context_of(*pieces, *further)


def _piece(line: str, open_: list[str]) -> Piece:
    """Return what a line shows; actions that it spells leave ``open_``."""
    head, _, rest = line.partition(": ")
    link = re.match(r"([0-9a-z]{10})( \(seen\))?(?: \| (.*))?$", line)
    if link and f"click[{link[1]}]" in open_:
        open_.remove(f"click[{link[1]}]")
        title, bar, price = (link[3] or "").rpartition(" | ")
        title, price = (title, price) if bar else (link[3] or "", "")
        shown = [
            Fragment(link[1], f"click[{link[1]}]"),
            Fragment(f" | {title}", role="title", label=" | "),
            Fragment(f" | {price}", role="quantity", amount=dollars(price)),
        ]
        return _made("product", "entry", shown, is_visited=bool(link[2]))
    if line.startswith("Option ") and rest:
        shown = [Fragment(f"{head}:", role="lead")]
        for action in [a for a in open_ if f" {_flat(target_of(a))} |" in f" {_flat(rest)} |"]:
            open_.remove(action)
            shown.append(Fragment(f" | {_flat(target_of(action))}", action, label=" | "))
        return _made("options", "choice", shown, choice=head.removeprefix("Option "))
    if head in ("Product", "Price"):
        role = "title" if head == "Product" else "quantity"
        shown = [Fragment(line, role=role, amount=dollars(rest), label=f"{head}: ")]
        return _made("item", "subject", shown)
    if head == "Text":
        return _made("detail", "text", [Fragment(line, label="Text: ")])
    if head == "Chosen" and " = " in rest:
        name, _, value = rest.partition(" = ")
        return _made("status", "", [Fragment(value, role="value", name=name)])
    page = re.match(r"Page (\d+) \(Total", line)
    amount = float(page[1]) if page else None
    return _made("buttons", "commands", [Fragment(line, role="lead", amount=amount)])


def _flat(text: str) -> str:
    return " ".join(text.split())


def _made(kind: str, role: str, shown: Sequence[Fragment], **more: object) -> Piece:
    text = "".join(f.text for f in shown) + "\n"
    actions = tuple(f.action for f in shown if f.action is not None)
    fragments = (*shown, Fragment("\n", role="lead"))
    return Piece(kind, kind, text, actions, 0, 0, role=role, fragments=fragments, **more)  # type: ignore[arg-type]
