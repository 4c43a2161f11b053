"""WebShop's actions: their classes, and the kinds of moves that experience tells of."""

import re
import tomllib
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path

from stategate.envs.protocols import ActionVocabulary, Observation, is_legal, target_of
from stategate.envs.webshop.forms import FORMS
from stategate.envs.webshop.pages import SEARCH
from stategate.envs.webshop.reading import read_page
from stategate.envs.webshop.wanted import Wanted
from stategate.stores.text import overlap, words_of

BACK, PREV, NEXT = "click[back to search]", "click[< prev]", "click[next >]"
BUY, FEATURES = "click[buy now]", "click[features]"
DETAILS = ("click[description]", FEATURES, "click[reviews]", "click[attributes]")
#: The click that opens a product; its group is the product's code.
OPENED = re.compile(r"click\[(b[0-9a-z]{9})\]")
_WORDS = tomllib.loads(Path(__file__).with_name("actions.toml").read_text("utf-8"))
MOVES: dict[str, str] = _WORDS["moves"]
_BUTTONS = (
    "next >",
    "< prev",
    "back to search",
    "description",
    "features",
    "reviews",
    "attributes",
    "buy now",
)
_CLICK = re.compile(r"\s*click\s*\[(.*)\]\s*", re.DOTALL | re.IGNORECASE)
_SEARCH = re.compile(r"\s*search\s*\[(.*)\]\s*", re.DOTALL | re.IGNORECASE)
_CODE = re.compile(r"\bB[0-9A-Z]{9}\b", re.IGNORECASE)
_WORD = re.compile(r"[a-z0-9]+")
_SMALL = frozenset(
    "a s me an of in or i to is the and with for that are from this want need find looking".split()
)
_HALF = 0.5


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
    prototypes: Mapping[str, str] = _WORDS["prototypes"]
    moves: Mapping[str, str] = MOVES

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

    def is_echoed(self, action: str) -> bool:
        """Say yes of searches: the page of results says what was searched."""
        return action.startswith("search[")

    def opens(self, action: str) -> bool:
        """Say yes of clicks on a product."""
        return OPENED.fullmatch(action) is not None

    def move_of(self, instruction: str, action: str) -> str:
        """Return a key of :data:`MOVES`, else the verb."""
        if searched := _SEARCH.fullmatch(action):
            return _search_form(instruction, searched[1].strip())
        clicked = _CLICK.fullmatch(action)
        if clicked is None:
            return super().class_of("", action)
        target = " ".join(clicked[1].lower().split())
        if target in MOVES:
            return target
        if is_product(target):
            return "open"
        asked = instruction.lower()
        is_asked = target in asked or _content(target) <= _content(asked)
        return "option" if is_asked else "other_option"

    def offers(self, move: str, observation: Observation) -> bool:
        """Say whether the page offers a move of this kind."""
        targets = [target_of(a) for a in observation.actions if a.startswith("click[")]
        if move.startswith("search"):
            return len(targets) < len(observation.actions)
        if move == "open":
            return any(is_product(target) for target in targets)
        if move in ("option", "other_option"):
            return any(t not in _BUTTONS and not is_product(t) for t in targets)
        return move in targets or move not in _BUTTONS

    def spell(self, move: str, instruction: str) -> str:
        """Return the search that the move comes to, "" for any other move."""
        query = Wanted.of(instruction).searched(move) if move in FORMS else ""
        return f"search[{query}]" if query else ""

    def situation(self, instruction: str, last: str) -> Hashable:
        """Return whether options are asked for, and the last move."""
        is_search = last.startswith("search")
        return bool(Wanted.of(instruction).words("value")), "search" if is_search else last

    def tell(self, instruction: str, page: str, action: str) -> str:
        """Say the move, of a product its place in the list."""
        move = self.move_of(instruction, action)
        if move == "open":
            codes = list(dict.fromkeys(code.lower() for code in _CODE.findall(page)))
            opened = _CLICK.fullmatch(action)
            code = opened[1].strip().lower() if opened else ""
            if code in codes:
                return f"Open product number {codes.index(code) + 1} of the list"
        return MOVES.get(move, f"use {move}").capitalize()

    def general(self, text: str) -> str:
        """Return ``text`` without product codes."""
        return _CODE.sub("the product", text)

    def outcomes(self, actions: Sequence[str]) -> tuple[str, ...]:
        """Return the code of the product that was bought."""
        targets = [clicked[1].strip() for a in actions if (clicked := _CLICK.fullmatch(a))]
        opened = ""
        for target in targets:
            opened = target if is_product(target) else opened
            if target.lower() == "buy now" and opened:
                return (opened,)
        return ()


def _search_form(question: str, words: str) -> str:
    """Return which parts of the question the search words hold (half of a part counts)."""
    wanted = Wanted.of(question)
    options = list(words_of(wanted.words("value")))
    properties = list(words_of(wanted.words("property")))
    has_options = overlap(options, words) >= _HALF
    if overlap(properties, words) >= _HALF:
        return "search" if has_options else "search_no_options"
    return "search_kind_options" if has_options and options else "search_kind"


def _content(text: str) -> set[str]:
    return {word for word in _WORD.findall(text) if word not in _SMALL}
