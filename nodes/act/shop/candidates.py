"""What the ``policy`` actor may do on a page, and every candidate as numbers.

Candidates are the readable affordances; where there is a search bar, the queries that
:func:`queries` makes of the instruction stand in its place. Everything is computed from the built
context's pieces (``nodes.act.shop.page``) and the step number: words shared between the wish and
a title, an option value or the features, prices, places on the page, and the visible actions so far.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stategate.envs.asking.wanted import is_excluded
from stategate.envs.asking.weights import ROLES
from stategate.envs.webshop.pages import SEARCH
from stategate.envs.webshop.reading import FORMS, Wanted
from stategate.envs.webshop.view import OPENED
from stategate.nodes.act.encoding import Encoded, most_alike
from stategate.nodes.act.shop.option_features import OPTION, option_features, pending
from stategate.nodes.act.shop.page import ShopPage, Trail, read_page
from stategate.nodes.act.shop.product_features import PRODUCT, best_two, met_share, product_features
from stategate.nodes.protocols import BuiltContext, Vector, WorldProfile

PAGES = ("search", "results", "item", "detail", "unknown")
TYPES = (
    "search",
    "product",
    "option",
    "buy now",
    "next >",
    "< prev",
    "back to search",
    "features",
    "description",
    "reviews",
    "other",
)
QUERIES = ("with options", "phrases", "kind and options", "kind", "whole wish")
_SEARCHED = ("tried", "times tried")
_PAGE_FACTS = (
    "step",
    "late",
    "very late",
    "page number",
    "opened",
    "read",
    "searches",
    "blind",
    "cut history",
    "returned",
    "since",
    "revisit",
    "read here",
    "clicked here",
    "dear",
    "affordable",
    "price known",
    "price share",
    "title words",
    "title attributes",
    "title whole attributes",
    "title kind",
    "told",
    "detail words",
    "detail attributes",
    "detail whole attributes",
    "detail least",
    "detail known",
    "meets",
    "missing",
    "waiting",
    "waiting share",
    "open",
    "unlike",
    "named attributes",
    "groups",
    "named nothing",
    "is shown",
    "fresh",
    "fresh fits",
    "best fresh",
    "best known",
    "result rows",
    "instruction known",
    "buy readable",
    "prev readable",
    "back readable",
    "rejected",
    "left",
    "since the search",
    "lead of the best",
    "close to the best",
    "unsaid",
    "was rejected",
    "was left",
    "last steps",
    "steps left",
    "asked groups",
    "met words",
    "met attributes",
    "met whole attributes",
    "met kind",
    "met least",
    "met unsaid",
    "met values",
    "best met",
    "best other met",
    "ahead of other met",
    "is met",
)
_LAST = tuple(f"after {name}" for name in "nothing search product next prev back tab other".split())
PAGE_FEATURES = (*PAGES, *_LAST, *_PAGE_FACTS)
CANDIDATE_FEATURES = (*TYPES, *QUERIES, *_SEARCHED, *PRODUCT, *OPTION)
#: Checkpoints hold this: a scorer of other features is refused.
ENCODER = (
    "lexical-"
    + hashlib.sha256("|".join((*PAGE_FEATURES, *CANDIDATE_FEATURES)).encode()).hexdigest()[:8]
)
_TOLD = 0.95  # share of words from which a text says them all
_CLOSE = 0.1  # of the best title's score, below which another is as good
_STEPS = 20  # an episode's, after which nothing counts
_TABS = tuple(f"click[{tab}]" for tab in ("features", "description", "reviews", "attributes"))


def encode(context: BuiltContext, step: int) -> Encoded:
    """Read ``context`` and return its candidates as numbers (none where nothing is readable)."""
    page = read_page(context)
    trail = Trail.of(page.history, page.notes)
    facts = _Facts(page, trail, step)
    searches = queries(page.wanted) if SEARCH in page.actions else {}
    products = product_features(page, trail)
    options = option_features(page, trail)
    actions: list[str] = []
    rows: list[list[float]] = []
    for action in page.actions:
        if action == SEARCH:
            for query, names in searches.items():
                actions.append(f"search[{query}]")
                rows.append(_row("search", search=_search_features(query, names, page)))
        else:
            actions.append(action)
            kind = _type(action, products, options)
            rows.append(_row(kind, product=products.get(action), option=options.get(action)))
    table = np.asarray(rows, dtype=np.float32).reshape(len(rows), len(CANDIDATE_FEATURES))
    return Encoded(tuple(actions), table, facts.vector())


class LexicalEncoder:
    """These features as an encoder of contexts (``nodes.act.encoding``)."""

    name = ENCODER
    row_features = CANDIDATE_FEATURES
    page_features = PAGE_FEATURES

    def encode(self, context: BuiltContext, step: int, profile: WorldProfile) -> Encoded:
        """See :func:`encode`."""
        return encode(context, step)

    def stands_for(self, action: str, candidates: Sequence[str]) -> int | None:
        """Return the candidate that stands for ``action``: itself, or the query most like it."""
        return match(action, candidates)

    def is_mistake(self, action: str, agent: Mapping[str, Any]) -> bool:
        """Say whether the expert opened a wrong product on purpose: to be seen, not to be imitated."""
        if agent.get("kind") == "rule":
            return False  # it did not know better, and of what it read this was the best
        opened = OPENED.fullmatch(action)
        wanted = str(agent.get("asin", "")).lower()
        return bool(opened and wanted) and action != f"click[{wanted}]"

    def sort_of(self, encoded: Encoded, index: int) -> str:
        """Return the candidate's type."""
        row = encoded.rows[index]
        return next(n for n, value in zip(CANDIDATE_FEATURES, row, strict=False) if value)


LEXICAL = LexicalEncoder()


def match(action: str, candidates: Sequence[str]) -> int | None:
    """Return the candidate that stands for ``action``: itself, or the query most like it."""
    is_clear = action in candidates or action.startswith("search[")
    return most_alike(action, candidates) if is_clear else None


def queries(wanted: Wanted) -> dict[str, tuple[str, ...]]:
    """Return the candidate queries, each once, with the names of what it is made of."""
    texts = [wanted.searched(form) for form in FORMS]
    texts.append(wanted.words(*ROLES))
    found: dict[str, tuple[str, ...]] = {}
    for name, query in zip(QUERIES, texts, strict=True):
        if query:
            found[query] = (*found.get(query, ()), name)
    return found


def _type(action: str, products: dict[str, list[float]], options: dict[str, list[float]]) -> str:
    if action in products:
        return "product"
    if action in options:
        return "option"
    label = action.removeprefix("click[").removesuffix("]")
    return label if label in TYPES else "product" if OPENED.fullmatch(action) else "other"


def _row(
    kind: str,
    search: list[float] | None = None,
    product: list[float] | None = None,
    option: list[float] | None = None,
) -> list[float]:
    return [
        *(float(kind == name) for name in TYPES),
        *(search or [0.0] * (len(QUERIES) + len(_SEARCHED))),
        *(product or [0.0] * len(PRODUCT)),
        *(option or [0.0] * len(OPTION)),
    ]


def _search_features(query: str, names: Sequence[str], page: ShopPage) -> list[float]:
    tried = sum(action == f"search[{query}]" for action in page.history)
    return [*(float(name in names) for name in QUERIES), float(tried > 0), tried / 3]


class _Facts:
    """The page's own numbers, by name; what does not apply is zero."""

    def __init__(self, page: ShopPage, trail: Trail, step: int) -> None:
        self._page = page
        values = dict.fromkeys(PAGE_FEATURES, 0.0)
        values[page.kind] = 1.0
        values[f"after {_last(page.history)}"] = 1.0
        wanted = page.wanted
        values |= {
            "step": min(step, 20) / 10,
            "late": float(step >= 9),
            "very late": float(step >= 13),
            "last steps": float(step >= 16),
            "steps left": max(_STEPS - step, 0) / _STEPS,
            "best met": max(_others(wanted, trail, None), default=0.0),
            "page number": min(page.number, 5) / 3,
            "opened": min(len(set(trail.opened)), 6) / 3,
            "read": min(len(set(trail.read)), 6) / 3,
            "searches": min(trail.searches, 4) / 2,
            "blind": float(step > 0 and not page.history),
            "cut history": float(len(page.history) < step),
            "instruction known": float(bool(page.instruction)),
            "named attributes": min(len(wanted.phrases("property")), 5) / 3,
            "named nothing": float(not wanted.phrases("property", "thing")),
            "is shown": float(bool(page.chosen)),
            "buy readable": float("click[buy now]" in page.actions),
            "prev readable": float("click[< prev]" in page.actions),
            "back readable": float("click[back to search]" in page.actions),
            "rejected": min(len(set(trail.rejected)), 6) / 3,
            "left": min(len(set(trail.left)), 6) / 3,
            "since the search": min(_since_search(page.history), 6) / 3,
        }
        self.values = values
        if page.kind == "item":
            self._item(trail)
        elif page.kind == "results":
            self._results(trail)
        elif page.kind == "detail":
            self._detail(trail)

    def vector(self) -> Vector:
        """Return the numbers in the order of :data:`PAGE_FEATURES`."""
        return np.asarray([self.values[name] for name in PAGE_FEATURES], dtype=np.float32)

    def _item(self, trail: Trail) -> None:
        page, wanted = self._page, self._page.wanted
        waiting, open_, unlike = pending(page, trail)
        told = wanted.share(page.title) >= _TOLD
        clicked = [a for a in trail.since if a not in (*_TABS, "click[< prev]")]
        price, limit = page.price, wanted.limit
        self.values |= {
            "returned": float("click[< prev]" in trail.since),
            "since": min(len(trail.since), 6) / 3,
            "revisit": min(trail.opened.count(trail.item or "") - 1, 3) / 2 if trail.item else 0.0,
            "read here": float(trail.item in trail.read),
            "clicked here": min(len(clicked), 4) / 2,
            "price known": float(price is not None),
            "groups": len(wanted.choices) / 2,
            "was rejected": float(trail.item in trail.rejected),
            "was left": float(trail.item in trail.left),
            "unsaid": min(wanted.unsaid(page.title), 6) / 3,
            "told": float(told and bool(page.title)),
            "meets": wanted.meets(),
            "missing": min(wanted.missing(), 4) / 2,
            "waiting": min(waiting, 4) / 2,
            "waiting share": float(waiting > 0),
            "open": min(open_, 3) / 2,
            "unlike": min(unlike, 3) / 2,
            **_agreement("title", wanted, page.title),
            **_met(wanted, trail, page.title),
            "asked groups": sum(c.asked[c.best] >= c.none for c in wanted.choices) / 2,
        }
        if price is not None and limit is not None:
            dear = limit.excludes(price)
            self.values |= {"dear": float(dear), "affordable": float(not dear)}
            self.values["price share"] = min(price / (limit.high or price or 1.0), 2.0)

    def _results(self, trail: Trail) -> None:
        page = self._page
        tried = {*trail.opened, *(p.asin for p in page.products if p.is_seen)}
        fresh = [p for p in page.products if p.asin not in tried]
        fits = [p for p in fresh if not is_excluded(page.wanted, p.price)]
        shares = page.title_scores
        best, second = best_two(shares[p.asin] for p in fits)
        self.values |= {
            "lead of the best": best - second,
            "close to the best": sum(shares[p.asin] > best - _CLOSE for p in fits) / 5,
            "fresh": len(fresh) / 10,
            "fresh fits": len(fits) / 10,
            "best fresh": best,
            "best known": max((shares[a] for a in trail.read if a in shares), default=0.0),
            "result rows": len(page.products) / 10,
        }

    def _detail(self, trail: Trail) -> None:
        page = self._page
        shares = page.wanted.phrase_shares(page.detail, "property")
        self.values |= {
            "detail known": float(bool(page.detail)),
            "unsaid": min(page.wanted.unsaid(page.detail), 6) / 3,
            "detail least": min(shares, default=0.0),
            **_met(page.wanted, trail, page.detail),
        }
        if page.detail:
            told = _agreement("detail", page.wanted, page.detail)
            self.values |= {key: told[key] for key in told if key in self.values}


def _agreement(lead: str, wanted: Wanted, text: str) -> dict[str, float]:
    shares = wanted.phrase_shares(text, "property")
    kind = wanted.share(text, "thing")
    return {
        f"{lead} words": wanted.share(text),
        f"{lead} attributes": sum(shares) / len(shares) if shares else kind,
        f"{lead} whole attributes": sum(s > _TOLD for s in shares) / max(len(shares), 1),
        f"{lead} kind": kind,
    }


def _met(wanted: Wanted, trail: Trail, shown: str) -> dict[str, float]:
    """Return how far what is ``shown`` and what was met before say what is asked of this product."""
    before = trail.met.get(trail.item or "", "")
    text = f"{shown}; {before}"
    others = max(_others(wanted, trail, trail.item), default=0.0)
    return {
        **_agreement("met", wanted, text),
        "met least": min(wanted.phrase_shares(text, "property"), default=0.0),
        "met unsaid": min(wanted.unsaid(text), 6) / 3,
        "met values": wanted.share(text, "value"),
        "best other met": others,
        "ahead of other met": met_share(wanted, text) - others,
        "is met": float(bool(before)),
    }


def _others(wanted: Wanted, trail: Trail, item: str | None) -> list[float]:
    return [met_share(wanted, text) for asin, text in trail.met.items() if asin != item]


def _since_search(history: Sequence[str]) -> int:
    """Return how many products were opened since the last visible search."""
    opened = 0
    for action in reversed(history):
        if action.startswith("search["):
            break
        opened += bool(OPENED.fullmatch(action))
    return opened


def _last(history: Sequence[str]) -> str:
    if not history:
        return "nothing"
    last = history[-1]
    if last.startswith("search["):
        return "search"
    if OPENED.fullmatch(last):
        return "product"
    known = {"click[next >]": "next", "click[< prev]": "prev", "click[back to search]": "back"}
    return known.get(last, "tab" if last in _TABS else "other")
