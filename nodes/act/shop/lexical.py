"""The WebShop encoder of the ``policy`` actor: named features of a page's actions.

Candidates are the readable affordances; a search bar is replaced by the queries that :func:`queries`
makes of the instruction. Features come from the built context's pieces (``nodes.act.shop.page``) and
the step number: words that the goal shares with a title, an option value or the features, prices,
positions on the page, and the visible actions so far.
"""

from collections.abc import Sequence

from stategate.envs.webshop.pages import SEARCH
from stategate.envs.webshop.reading import FORMS, ShopInstruction
from stategate.envs.webshop.view import BACK, BUY, DETAILS, NEXT, OPENED, PREV
from stategate.language.instruction.parsed import ROLES
from stategate.nodes.act.page_features import (
    Entries,
    Entry,
    Features,
    agreement,
    best_match,
    note_features,
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
        page.goal,
        [Entry(p.asin, p.title, p.price, p.is_seen) for p in page.products],
        page.trail.opened,
        page.trail.notes,
    )
    by_action = {**_products(page, entries), **_options(page)}
    rows: dict[str, Features] = {}
    for action in page.actions:
        if action == SEARCH:
            for query, names in queries(page.goal).items():
                rows[f"search[{query}]"] = _search(query, names, page)
        else:
            rows[action] = by_action.get(action) or {_type(action): 1.0}
    return rows, _facts(page, entries, step)


def queries(goal: ShopInstruction) -> dict[str, tuple[str, ...]]:
    """Return the candidate queries, each once, with the names of its parts."""
    texts = [goal.searched(form) for form in FORMS]
    texts.append(goal.words(*ROLES))
    names_by_query: dict[str, tuple[str, ...]] = {}
    for name, query in zip(QUERIES, texts, strict=True):
        if query:
            names_by_query[query] = (*names_by_query.get(query, ()), name)
    return names_by_query


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
    has_properties = bool(page.goal.phrases("property"))
    rows: dict[str, Features] = {}
    for product, row in zip(page.products, entries.rows(), strict=True):
        asin = product.asin
        if not has_properties:
            row["title properties"] = row["met properties"] = 0.0
        rows[product.action] = {
            **row,
            "product": 1.0,
            "title property words": page.goal.share(product.title, "property"),
            "was read": float(asin in page.trail.read),
            "was rejected": float(asin in page.trail.rejected),
            "was left": float(asin in page.trail.skipped),
            "was kept": float(asin in page.trail.skipped and asin in page.trail.read),
        }
    return rows


def _options(page: ShopPage) -> dict[str, Features]:
    """Return the features of each readable option value, by its click."""
    groups = dict(page.options)
    return {
        action: {
            **value_features(choice, i, now, one_line(action) in page.trail.since),
            "option": 1.0,
        }
        for choice, now in zip(page.goal.choices, _values(page), strict=True)
        for i, (_, action) in enumerate(groups[choice.name])
    }


def _values(page: ShopPage) -> list[str | None]:
    """Return each group's current value, by the page's mark or else by the visible clicks."""
    current: list[str | None] = []
    for choice in page.goal.choices:
        now = page.chosen.get(choice.name)
        if now is None:
            values = {one_line(a): value for value, a in dict(page.options)[choice.name]}
            now = next((values[a] for a in reversed(page.trail.since) if a in values), None)
        spellings = {one_line(value): value for value in choice.values}
        current.append(now if now is None else spellings.get(one_line(now), now))
    return current


def _facts(page: ShopPage, entries: Entries, step: int) -> Features:
    """Return the page's own features."""
    goal = page.goal
    facts = {
        page.kind: 1.0,
        f"after {_last(page.trail.history)}": 1.0,
        **step_features(goal, step, page.trail.opened),
        "best met": best_match(goal, page.trail.notes),
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
        "left": min(len(set(page.trail.skipped)), 6) / 3,
        "since the search": min(_since_search(page.trail.history), 6) / 3,
    }
    if page.kind == "item":
        facts |= _item(page)
    elif page.kind == "results":
        were_read = [p.asin in page.trail.read for p in page.products]
        scores = (s for s, is_read in zip(entries.scores, were_read, strict=True) if is_read)
        facts |= {**entries.page, "best known": max(scores, default=0.0)}
    elif page.kind == "detail":
        facts |= note_features(goal, page.detail, page.trail.notes, page.trail.item)
        facts["unsaid"] = min(goal.unsaid(page.detail), 6) / 3
        if page.detail:
            facts |= {"has text": 1.0, **agreement("text", goal, page.detail)}
    return facts


def _item(page: ShopPage) -> Features:
    goal, item = page.goal, page.trail.item
    facts = {
        **subject_features(goal, page.title, page.price, _values(page)),
        **note_features(goal, page.title, page.trail.notes, item),
        "returned": float(PREV in page.trail.since),
        "since opening": min(len(page.trail.since), 6) / 3,
        "times this one": min(page.trail.opened.count(item) - 1, 3) / 2 if item else 0.0,
        "read here": float(item in page.trail.read),
        "clicked here": min(len([a for a in page.trail.since if a not in {*DETAILS, PREV}]), 4) / 2,
        "was rejected": float(item in page.trail.rejected),
        "was left": float(item in page.trail.skipped),
        "unsaid": min(goal.unsaid(page.title), 6) / 3,
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
    names = {NEXT: "next", PREV: "prev", BACK: "back"}
    return names.get(last, "tab" if last in DETAILS else "other")
