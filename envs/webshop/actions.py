"""WebShop's actions: their classes, which are legal, and one that does no harm."""

import re
from collections.abc import Sequence

from stategate.envs.protocols import ActionVocabulary, Observation, is_legal
from stategate.envs.webshop.pages import SEARCH
from stategate.envs.webshop.reading import Wanted, read_page

BACK, PREV, NEXT = "click[back to search]", "click[< prev]", "click[next >]"
BUY, FEATURES = "click[buy now]", "click[features]"
DETAILS = ("click[description]", FEATURES, "click[reviews]", "click[attributes]")
#: The click that opens a product; its group is the product's code.
OPENED = re.compile(r"click\[(b[0-9a-z]{9})\]")
BUTTONS = (
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
