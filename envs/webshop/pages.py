"""Pages as the original shows them: text nodes, drawn in its two observation modes."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from stategate.envs.webshop.catalogue import Product
from stategate.language.amounts import prices_in

PER_PAGE = 10
SUB_PAGES = ("Description", "Features", "Reviews", "Attributes")
BACK, PREV, NEXT, BUY = "Back to Search", "< Prev", "Next >", "Buy Now"
#: Of all buttons but the search bar's.
LABELS = (BACK, PREV, NEXT, *SUB_PAGES, BUY)
#: The affordance of a search bar; concrete actions are ``search[red shoes]``.
SEARCH = "search[<query>]"
SEPARATOR = " [SEP] "  # between the nodes of text mode
CLICKED = "You have clicked "  # leads the notes of rich mode
RESULTS = re.compile(r"Page (\d+) \(Total results: (\d+)\)")
#: A line of rich mode: its indent (of options), whether it was clicked, its label.
MARKED = re.compile(r"^(\s*)\[(clicked )?button\] (.*?) \[(?:clicked )?button_\]\s*$", re.DOTALL)
_FAR_APART = 5  # times a range's lower end, from which its upper end counts

_RECEIPT = Path(__file__).with_name("receipt.txt").read_text("utf-8").splitlines()


@dataclass(frozen=True, slots=True)
class Node:
    """One visible text node. ``role`` says what one can do with it."""

    text: str
    role: Literal["text", "button", "link", "option"] = "text"
    group: str = ""


def search_nodes(instruction: str) -> Iterator[Node]:
    """Yield the search page."""
    yield from (Node("WebShop"), Node("Instruction: "), Node(instruction))
    yield Node("Search", "button")


def results_nodes(
    instruction: str, products: Sequence[Product], number: int, total: int
) -> Iterator[Node]:
    """Yield one page of results."""
    yield from _head(instruction)
    yield Node(f"Page {number} (Total results: {total})")
    if number > 1:
        yield Node(PREV, "button")
    yield Node(NEXT, "button")
    for product in products:
        yield Node(product.asin, "link")
        yield Node(product.name)
        yield Node(product.price_tag)


def item_nodes(instruction: str, product: Product) -> Iterator[Node]:
    """Yield a product's page."""
    yield from _head(instruction)
    yield Node(PREV, "button")
    for name, values in product.options.items():
        yield Node(name)
        for value in values:
            yield Node(value, "option", name)
    yield Node(product.name)
    yield Node(f"Price: {product.price_tag}")
    yield Node("Rating: N.A.")
    for label in (*SUB_PAGES[:3], BUY):
        yield Node(label, "button")


def sub_nodes(instruction: str, product: Product, sub: str) -> Iterator[Node]:
    """Yield a product's description, features or reviews (of which the data has none)."""
    yield from _head(instruction)
    yield Node(PREV, "button")
    if sub == "Description":
        yield Node(product.description)
    elif sub == "Features":
        for bullet in product.bullets:
            yield Node(f" {bullet}")


def done_nodes(asin: str, options: dict[str, str], reward: float) -> Iterator[Node]:
    """Yield the receipt."""
    escapes = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "'": "\\u0027"})
    chosen = json.dumps(options, sort_keys=True).translate(escapes)
    fields = {"asin": asin, "options": chosen, "reward": str(reward)}
    yield from (Node(line.format(**fields)) for line in _RECEIPT)


def draw_rich(nodes: Sequence[Node], url: str, visited: Sequence[str]) -> str:
    """Draw in ``rich`` mode: a line a node, with buttons marked and choices noted first.

    The original looks for a chosen value, in quotes, in its page's ``url``, whose options are JSON:
    a value with a quote or beyond ASCII in it never shows as clicked. Kept, for parity.
    """
    notes = ""
    lines = []
    for node in nodes:
        text = node.text
        if text in ("", "\n"):
            continue
        if node.role == "button":
            text = f"[button] {text} [button_]"
        elif node.role == "option":
            is_chosen = f'"{text}"' in url
            notes = f"{CLICKED}{text}.\n{notes}" if is_chosen else notes
            text = f"  {_marked(text, is_chosen)}"
        elif node.role == "link":
            text = f"\n{_marked(text, text in visited)}"
        lines.append(f"{text}\n")
    return notes + "".join(lines)


def clickables(nodes: Sequence[Node]) -> dict[str, Node]:
    """Return what can be clicked by its lower-case label: buttons, links, then options.

    A value that two option groups share belongs to the later group, as in the original.
    """
    by_label = {n.text.lower(): n for n in nodes if n.role == "button"}
    by_label.update({n.text.lower(): n for n in nodes if n.role == "link"})
    by_label.update({n.text: n for n in nodes if n.role == "option"})
    return by_label


def affordances(nodes: Sequence[Node]) -> tuple[str, ...]:
    """Return the actions that a page offers, in order."""
    return tuple(
        SEARCH if label == "search" and node.role == "button" else f"click[{label}]"
        for label, node in clickables(nodes).items()
    )


def dollars(text: str) -> float | None:
    """Return the price that ``text`` names, the lower end of a range, None if there is none.

    Of amounts that are far apart, which promise nothing, it is the highest: "$1 to $9,000" is 9000.
    """
    amounts = prices_in(text[text.find("$") :]) if "$" in text else ()
    if not amounts:
        return None
    return max(amounts) if max(amounts) > _FAR_APART * min(amounts) else amounts[0]


def _head(instruction: str) -> Iterator[Node]:
    yield from (Node("Instruction:"), Node(instruction), Node(BACK, "button"))


def _marked(text: str, is_clicked: bool) -> str:
    word = "clicked button" if is_clicked else "button"
    return f"[{word}] {text} [{word}_]"
