"""The WebShop encoder of the ``policy`` actor: what it may do on a page, as named numbers.

Candidates are the readable affordances; where there is a search bar, the queries that
:func:`queries` makes of the instruction stand in its place. Everything is computed from the built
context's pieces (``nodes.act.shop.page``) and the step number: words shared between the wish and
a title, an option value or the features, prices, places on the page, and the visible actions so far.
"""

from collections.abc import Sequence

from stategate.envs.webshop.pages import SEARCH
from stategate.envs.webshop.reading import FORMS, Wanted
from stategate.envs.webshop.view import BACK, BUY, DETAILS, NEXT, OPENED, PREV
from stategate.language.instruction.parsed import ROLES
from stategate.nodes.act.page_features import (
    Entries,
    Entry,
    Features,
    agreement,
    best_met,
    met_features,
    step_features,
    subject_features,
    value_features,
)
from stategate.nodes.act.shop.page import ShopPage, read_page
from stategate.nodes.protocols import BuiltContext, WorldProfile
from stategate.stores.text import one_line

_BUTTONS = ("buy now", "next >", "< prev", "back to search", "features", "description", "reviews")
QUERIES = ("with options", "phrases", "kind and options", "kind", "whole wish")


def describe(
    context: BuiltContext, step: int, profile: WorldProfile
) -> tuple[dict[str, Features], Features]:
    """Return the features of each candidate, by its action, and those of the page."""
    page = read_page(context)
    entries = Entries(
        page.wanted,
        [Entry(p.asin, p.title, p.price, p.is_seen) for p in page.products],
        page.trail.opened,
        page.trail.met,
    )
    known = {**_products(page, entries), **_options(page)}
    rows: dict[str, Features] = {}
    for action in page.actions:
        if action == SEARCH:
            for query, names in queries(page.wanted).items():
                rows[f"search[{query}]"] = _search(query, names, page)
        else:
            rows[action] = known.get(action) or {_type(action): 1.0}
    return rows, _facts(page, entries, step)


def queries(wanted: Wanted) -> dict[str, tuple[str, ...]]:
    """Return the candidate queries, each once, with the names of what it is made of."""
    texts = [wanted.searched(form) for form in FORMS]
    texts.append(wanted.words(*ROLES))
    found: dict[str, tuple[str, ...]] = {}
    for name, query in zip(QUERIES, texts, strict=True):
        if query:
            found[query] = (*found.get(query, ()), name)
    return found


def _type(action: str) -> str:
    label = action.removeprefix("click[").removesuffix("]")
    if label in _BUTTONS:
        return label
    return "product" if OPENED.fullmatch(action) else "other"


def _search(query: str, names: Sequence[str], page: ShopPage) -> Features:
    times = page.trail.history.count(f"search[{query}]")
    made_of = {f"query {name}": 1.0 for name in names}
    searched = {"query tried": float(times > 0), "times query tried": times / 3}
    return {"search": 1.0, **made_of, **searched}


def _products(page: ShopPage, entries: Entries) -> dict[str, Features]:
    """Return the features of each readable product, by the click that opens it."""
    has_properties = bool(page.wanted.phrases("property"))
    rows: dict[str, Features] = {}
    for product, row in zip(page.products, entries.rows(), strict=True):
        asin = product.asin
        if not has_properties:
            row["title properties"] = row["met properties"] = 0.0
        rows[product.action] = {
            **row,
            "product": 1.0,
            "title property words": page.wanted.share(product.title, "property"),
            "was read": float(asin in page.trail.read),
            "was rejected": float(asin in page.trail.rejected),
            "was left": float(asin in page.trail.left),
            "was kept": float(asin in page.trail.left and asin in page.trail.read),
        }
    return rows


def _options(page: ShopPage) -> dict[str, Features]:
    """Return the features of each readable option value, by its click."""
    groups = dict(page.options)
    return {
        action: {
            **value_features(asked, i, now, one_line(action) in page.trail.since),
            "option": 1.0,
        }
        for asked, now in zip(page.wanted.choices, _values(page), strict=True)
        for i, (_, action) in enumerate(groups[asked.name])
    }


def _values(page: ShopPage) -> list[str | None]:
    """Return the value of each group, by the page's own mark or by the visible clicks."""
    found: list[str | None] = []
    for asked in page.wanted.choices:
        now = page.chosen.get(asked.name)
        if now is None:
            values = {one_line(a): value for value, a in dict(page.options)[asked.name]}
            now = next((values[a] for a in reversed(page.trail.since) if a in values), None)
        known = {one_line(value): value for value in asked.values}
        found.append(now if now is None else known.get(one_line(now), now))
    return found


def _facts(page: ShopPage, entries: Entries, step: int) -> Features:
    """Return the page's own features."""
    wanted = page.wanted
    facts = {
        page.kind: 1.0,
        f"after {_last(page.trail.history)}": 1.0,
        **step_features(wanted, step, page.trail.opened),
        "best met": best_met(wanted, page.trail.met),
        "page number": min(page.number, 5) / 3,
        "read": min(len(set(page.trail.read)), 6) / 3,
        "searches": min(page.trail.searches, 4) / 2,
        "blind": float(step > 0 and not page.trail.history),
        "cut history": float(len(page.trail.history) < step),
        "instruction known": float(bool(page.instruction)),
        "something chosen": float(bool(page.chosen)),
        "buy readable": float(BUY in page.actions),
        "prev readable": float(PREV in page.actions),
        "back readable": float(BACK in page.actions),
        "rejected": min(len(set(page.trail.rejected)), 6) / 3,
        "left": min(len(set(page.trail.left)), 6) / 3,
        "since the search": min(_since_search(page.trail.history), 6) / 3,
    }
    if page.kind == "item":
        facts |= _item(page)
    elif page.kind == "results":
        known = [p.asin in page.trail.read for p in page.products]
        scores = (s for s, is_read in zip(entries.scores, known, strict=True) if is_read)
        facts |= {**entries.page, "best known": max(scores, default=0.0)}
    elif page.kind == "detail":
        facts |= met_features(wanted, page.detail, page.trail.met, page.trail.item)
        facts["unsaid"] = min(wanted.unsaid(page.detail), 6) / 3
        if page.detail:
            facts |= {"has text": 1.0, **agreement("text", wanted, page.detail)}
    return facts


def _item(page: ShopPage) -> Features:
    wanted, item = page.wanted, page.trail.item
    facts = {
        **subject_features(wanted, page.title, page.price, _values(page)),
        **met_features(wanted, page.title, page.trail.met, item),
        "returned": float(PREV in page.trail.since),
        "since opening": min(len(page.trail.since), 6) / 3,
        "times this one": min(page.trail.opened.count(item) - 1, 3) / 2 if item else 0.0,
        "read here": float(item in page.trail.read),
        "clicked here": min(len([a for a in page.trail.since if a not in {*DETAILS, PREV}]), 4) / 2,
        "was rejected": float(item in page.trail.rejected),
        "was left": float(item in page.trail.left),
        "unsaid": min(wanted.unsaid(page.title), 6) / 3,
    }
    return facts if page.title else {**facts, "subject told": 0.0}


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
    known = {NEXT: "next", PREV: "prev", BACK: "back"}
    return known.get(last, "tab" if last in DETAILS else "other")
