"""What the ``policy`` actor may do on a page, and every candidate as numbers.

Candidates are the readable affordances; where there is a search bar, the queries that
:func:`queries` makes of the instruction stand in its place. Everything is computed from the built
context's text (``envs.webshop.prompt``) and the step number: words shared between the wish and
a title, an option value or the features, prices, places on the page, and the visible actions so far.
"""

import hashlib
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from envs.webshop.actions import BACK, DETAILS, NEXT, OPENED, PREV
from envs.webshop.pages import SEARCH
from envs.webshop.prompt import Reading, Trail, read, title_scores
from envs.webshop.wish import Wish
from nodes.protocols import BuiltContext, Vector
from stores.text import overlap, words_of

PAGES = ("search", "results", "item", "detail", "unknown")
TYPES = (
    "search", "product", "option", "buy now", "next >", "< prev", "back to search", "features",
    "description", "reviews", "other",
)  # fmt: skip
QUERIES = ("phrases", "with options", "kind", "kind and options", "whole wish")
_SEARCHED = ("tried", "times tried")
_PAGE_FACTS = (
    "step", "late", "very late", "page number", "opened", "read", "searches", "blind", "cut history",
    "returned", "since", "revisit", "read here", "clicked here", "dear", "affordable", "price known",
    "price share", "title words", "title attributes", "title whole attributes", "title kind", "told",
    "detail words", "detail attributes", "detail whole attributes", "detail least", "detail known",
    "wished options", "waiting", "waiting share", "not offered", "unlike", "named attributes",
    "named nothing", "is shown", "fresh", "fresh fits", "best fresh", "best known", "result rows",
    "instruction known", "buy readable", "prev readable", "back readable",
)  # fmt: skip
PRODUCT = (
    "score", "against the best", "against the best fresh", "rank", "fresh rank", "words",
    "attributes", "whole attributes", "least attribute", "kind", "kind's last word", "options",
    "affordable", "dear", "price known", "price share", "place", "first", "tried", "times opened",
    "was read", "was last", "was rejected", "title known", "attribute phrases", "row features",
)  # fmt: skip
OPTION = (
    "is wished", "same words", "wish covered", "value covered", "letters alike", "best of group",
    "group wished", "group chosen", "chosen now", "chosen rightly", "wish offered", "said",
    "said best", "group size", "clicked here before", "option row",
)  # fmt: skip
_LAST = tuple(f"after {name}" for name in "nothing search product next prev back tab other".split())
PAGE_FEATURES = (*PAGES, *_LAST, *_PAGE_FACTS)
CANDIDATE_FEATURES = (*TYPES, *QUERIES, *_SEARCHED, *PRODUCT, *OPTION)
#: Checkpoints hold this: a scorer of other features is refused.
ENCODER = (
    "lexical-"
    + hashlib.sha256("|".join((*PAGE_FEATURES, *CANDIDATE_FEATURES)).encode()).hexdigest()[:8]
)
_MOVES = {NEXT: "next", PREV: "prev", BACK: "back"}


@dataclass(frozen=True)
class Encoded:
    """``rows`` (n, candidate features) and ``page`` (page features,), float32; equally many actions."""

    actions: tuple[str, ...]
    rows: Vector
    page: Vector


def encode(context: BuiltContext, step: int) -> Encoded:
    """Read ``context`` and return its candidates as numbers (none where nothing is readable)."""
    page = read(context.text, context.actions, context.part)
    trail = Trail.of(page.history)
    searches = queries(page.wish, page.instruction) if SEARCH in page.actions else {}
    products, options = product_features(page, trail), option_features(page, trail)
    actions: list[str] = []
    rows: list[list[float]] = []
    for action in page.actions:
        if action == SEARCH:
            for query, names in searches.items():
                actions.append(f"search[{query}]")
                tried = page.history.count(actions[-1])
                asked = [*(float(name in names) for name in QUERIES), float(tried > 0), tried / 3]
                rows.append(_row("search", search=asked))
        else:
            actions.append(action)
            kind = _type(action, products, options)
            rows.append(_row(kind, product=products.get(action), option=options.get(action)))
    table = np.asarray(rows, dtype=np.float32).reshape(len(rows), len(CANDIDATE_FEATURES))
    facts = _page_facts(page, trail, step)
    numbers = np.asarray([facts.get(name, 0.0) for name in PAGE_FEATURES], dtype=np.float32)
    return Encoded(tuple(actions), table, numbers)


def queries(wish: Wish, instruction: str) -> dict[str, tuple[str, ...]]:
    """Return the candidate queries, each once, with the names of what it is made of."""
    phrases, kind = " ".join(wish.phrases), wish.kind
    values = " ".join(value for _, value in wish.options)
    whole = re.sub(r",? and price lower than .*$", "", instruction).removeprefix("Find me ")
    texts = (phrases, f"{phrases} {values}", kind, f"{kind} {values}", whole)
    found: dict[str, tuple[str, ...]] = {}
    for name, text in zip(QUERIES, texts, strict=True):
        query = " ".join(re.sub(r"[\[\]<>]", " ", text).lower().split())
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
    kind: str, search: list[float] | None = None, product: list[float] | None = None,
    option: list[float] | None = None,
) -> list[float]:  # fmt: skip
    return [
        *(float(kind == name) for name in TYPES),
        *(search or [0.0] * (len(QUERIES) + len(_SEARCHED))),
        *(product or [0.0] * len(PRODUCT)),
        *(option or [0.0] * len(OPTION)),
    ]


# Pages ---------------------------------------------------------------------------------------------


def _page_facts(page: Reading, trail: Trail, step: int) -> dict[str, float]:
    """Return the page's own numbers, by name; what does not apply is left out."""
    wish = page.wish
    facts = {
        page.page: 1.0, f"after {_last(page.history)}": 1.0,
        "step": min(step, 20) / 10, "late": float(step >= 9), "very late": float(step >= 13),
        "page number": min(page.number, 5) / 3, "opened": min(len(set(trail.opened)), 6) / 3,
        "read": min(len(set(trail.read)), 6) / 3, "searches": min(trail.searches, 4) / 2,
        "blind": float(step > 0 and not page.history),
        "cut history": float(len(page.history) < step),
        "instruction known": float(bool(page.instruction)),
        "named attributes": min(len(wish.attributes), 5) / 3,
        "named nothing": float(not wish.phrases), "is shown": float(bool(page.chosen)),
        "buy readable": float("click[buy now]" in page.actions),
        "prev readable": float("click[< prev]" in page.actions),
        "back readable": float("click[back to search]" in page.actions),
    }  # fmt: skip
    if page.page == "item":
        return facts | _item_facts(page, trail)
    if page.page == "results":
        return facts | _results_facts(page, trail)
    if page.page == "detail" and page.detail:
        told = {f"detail {name}": share for name, share in _agreement(wish, page.detail).items()}
        return facts | told | {"detail known": 1.0}
    return facts


def _item_facts(page: Reading, trail: Trail) -> dict[str, float]:
    wish, price, limit = page.wish, page.price, page.wish.limit
    waiting, missing, unlike = pending(page, trail)
    told = all(overlap(words_of(p), page.title) == 1.0 for p in wish.phrases)
    clicked = [a for a in trail.since if a not in (*DETAILS, PREV)]
    facts = {
        "returned": float(PREV in trail.since), "since": min(len(trail.since), 6) / 3,
        "revisit": min(trail.opened.count(trail.item or "") - 1, 3) / 2 if trail.item else 0.0,
        "read here": float(trail.item in trail.read), "clicked here": min(len(clicked), 4) / 2,
        "price known": float(price is not None),
        "told": float(told and bool(page.title)), "wished options": min(len(wish.options), 4) / 2,
        "waiting": min(waiting, 4) / 2, "waiting share": float(waiting > 0),
        "not offered": min(missing, 3) / 2, "unlike": min(unlike, 3) / 2,
        **{f"title {name}": share for name, share in _agreement(wish, page.title).items()},
    }  # fmt: skip
    if price is not None and limit:
        affordable, dear, _, share = _price(price, limit)
        facts |= {"dear": dear, "affordable": affordable, "price share": share}
    return facts


def _results_facts(page: Reading, trail: Trail) -> dict[str, float]:
    limit = page.wish.limit
    tried = {*trail.opened, *(p.asin for p in page.products if p.is_seen)}
    fresh = [p for p in page.products if p.asin not in tried]
    fits = [p for p in fresh if p.price is None or limit is None or p.price <= limit]
    shares = {p.asin: overlap(page.wish.words, p.title) for p in page.products}
    return {
        "fresh": len(fresh) / 10, "fresh fits": len(fits) / 10,
        "best fresh": max((shares[p.asin] for p in fits), default=0.0),
        "best known": max((shares[a] for a in trail.read if a in shares), default=0.0),
        "result rows": len(page.products) / 10,
    }  # fmt: skip


def _last(history: Sequence[str]) -> str:
    if not history:
        return "nothing"
    last = history[-1]
    if last.startswith("search["):
        return "search"
    if OPENED.fullmatch(last):
        return "product"
    return _MOVES.get(last, "tab" if last in DETAILS else "other")


# Products of a results page: how well title and price fit the wish -----------------------------------


def product_features(page: Reading, trail: Trail) -> dict[str, list[float]]:
    """Return the features of each readable product, by the click that opens it."""
    if not page.products:
        return {}
    raw, whole = title_scores(page)
    scores = {asin: score / whole for asin, score in raw.items()}
    tried = {*trail.opened, *(p.asin for p in page.products if p.is_seen)}
    rejected = _rejected(page.history)
    limit = page.wish.limit
    fresh = [
        p for p in page.products
        if p.asin not in tried and not (limit and p.price is not None and p.price > limit)
    ]  # fmt: skip
    best = max(scores.values())
    best_fresh = max((scores[p.asin] for p in fresh), default=0.0)
    order = sorted(page.products, key=lambda p: -scores[p.asin])
    ranks = {p.asin: i for i, p in enumerate(order)}
    fresh_ranks = {p.asin: i for i, p in enumerate(p for p in order if p in fresh)}
    rows: dict[str, list[float]] = {}
    for place, product in enumerate(page.products):
        asin = product.asin
        rows[product.action] = [
            scores[asin], best - scores[asin], best_fresh - scores[asin],
            ranks[asin] / 5, fresh_ranks.get(asin, 10) / 5,
            *_title_fit(page.wish, product.title), *_price(product.price, limit),
            place / 5, float(place == 0),
            float(asin in tried), min(trail.opened.count(asin), 3) / 2,
            float(asin in trail.read),
            float(bool(trail.opened) and trail.opened[-1] == asin),
            float(asin in rejected),
            float(bool(product.title)), _spelled(page.wish, product.title), 1.0,
        ]  # fmt: skip
    return rows


def _title_fit(wish: Wish, title: str) -> list[float]:
    told = _agreement(wish, title)
    kind = words_of(wish.kind)
    values = [overlap(words_of(value), title) for _, value in wish.options]
    return [
        told["words"],
        told["attributes"] if wish.attributes else 0.0,
        told["whole attributes"],
        told["least"],
        told["kind"],
        overlap(kind[-1:], title) if kind else 0.0,
        sum(values) / len(values) if values else 0.0,
    ]


def _agreement(wish: Wish, text: str) -> dict[str, float]:
    """Return how much of each part of the wish ``text`` holds, 0 to 1 each."""
    shares = [overlap(words_of(phrase), text) for phrase in wish.attributes]
    kind = overlap(words_of(wish.kind), text)
    return {
        "words": overlap(wish.words, text),
        "attributes": sum(shares) / len(shares) if shares else kind,
        "whole attributes": sum(s == 1.0 for s in shares) / max(len(shares), 1),
        "least": min(shares, default=0.0),
        "kind": kind,
    }


def _spelled(wish: Wish, title: str) -> float:
    """Return the share of attributes that stand in the title letter for letter."""
    wanted = wish.attributes
    return sum(phrase.lower() in title.lower() for phrase in wanted) / max(len(wanted), 1)


def _price(price: float | None, limit: float | None) -> list[float]:
    if price is None or not limit:
        return [0.0, 0.0, float(price is not None), 0.0]
    return [float(price <= limit), float(price > limit), 1.0, min(price / limit, 2.0)]


def _rejected(history: Sequence[str]) -> set[str]:
    """Return the products that were left for the search right after their features were read."""
    found: set[str] = set()
    opened = ""
    for last, action in itertools.pairwise(("", *history)):
        if product := OPENED.fullmatch(action):
            opened = product[1]
        elif last == "click[features]" and action == "click[back to search]":
            found.add(opened)
    return found


# Option values: whether one is wished, and what its group has chosen already -------------------------


def option_features(page: Reading, trail: Trail) -> dict[str, list[float]]:
    """Return the features of each readable option value, by its click."""
    wished = _wished(page)
    clicked = set(trail.since)
    rows: dict[str, list[float]] = {}
    for group, values in page.options:
        wish = wished.get(group)
        fits = [_option_fit(wish, value) for value, _ in values]
        best = max((sum(fit) for fit in fits), default=0.0)
        exact = any(fit[0] or fit[1] for fit in fits)
        now = chosen_value(page, trail, group)
        right = now is not None and wish is not None and _is_same(wish, now)
        said = [_said(value, page.instruction) for value, _ in values]
        for (value, action), fit, heard in zip(values, fits, said, strict=True):
            is_best = wish is not None and sum(fit) == best and best > 0
            rows[action] = [
                *fit, float(is_best), float(wish is not None), float(now is not None),
                float(value == now), float(right), float(exact), float(heard > 0),
                float(heard > 0 and heard == max(said)), min(len(values), 20) / 10,
                float(" ".join(action.split()) in clicked), 1.0,
            ]  # fmt: skip
    return rows


def pending(page: Reading, trail: Trail) -> tuple[int, int, int]:
    """Count the wished values that are offered but not chosen, not offered, and only offered alike."""
    groups = dict(page.options)
    waiting = missing = unlike = 0
    for group, wish in _wished(page).items():
        values = [value for value, _ in groups.get(group, ())]
        now = chosen_value(page, trail, group)
        if any(_is_same(wish, value) for value in values):
            waiting += now is None or not _is_same(wish, now)
        elif any(_option_fit(wish, value)[2] > 0 for value in values):
            unlike += 1
            waiting += now is None
        else:
            missing += 1
    if not page.wish.options:
        for group, values_ in page.options:
            is_said = any(_said(value, page.instruction) for value, _ in values_)
            waiting += is_said and chosen_value(page, trail, group) is None
    return waiting, missing, unlike


def chosen_value(page: Reading, trail: Trail, group: str) -> str | None:
    """Return the value that ``group`` has, by the page's own mark or by the visible clicks."""
    if group in page.chosen:
        return page.chosen[group]
    values = {
        " ".join(action.split()): value for value, action in dict(page.options).get(group, ())
    }
    return next((values[action] for action in reversed(trail.since) if action in values), None)


def _wished(page: Reading) -> dict[str, str]:
    """Return the wished value of each group, groups named as on the page where only case differs."""
    names = {name.lower().strip(): name for name, _ in page.options}
    return {names.get(g.lower().strip(), g): value for g, value in page.wish.options}


def _option_fit(wish: str | None, value: str) -> tuple[float, float, float, float, float]:
    return (0.0,) * 5 if wish is None else _compared(wish.lower(), value.lower())


@lru_cache(maxsize=65536)
def _compared(wish: str, value: str) -> tuple[float, float, float, float, float]:
    ours, theirs = words_of(wish), words_of(value)
    is_equal = " ".join(wish.split()) == " ".join(value.split())
    return (
        float(is_equal),
        float(bool(ours) and set(ours) == set(theirs)),
        overlap(ours, value) if ours else float(is_equal),
        overlap(theirs, wish) if theirs else float(is_equal),
        _alike(wish, value),
    )


def _is_same(wish: str, value: str) -> bool:
    fit = _option_fit(wish, value)
    return bool(fit[0] or fit[1])


def _alike(first: str, second: str) -> float:
    """Return the share of letter triples that two short texts have in common."""
    a, b = ({f"  {text} "[i : i + 3] for i in range(len(text) + 1)} for text in (first, second))
    return len(a & b) / len(a | b)


def _said(value: str, instruction: str) -> float:
    """Return how many words of ``value`` there are if the instruction says them all, else 0."""
    words = words_of(value)
    return len(words) / 4 if words and overlap(words, instruction) == 1.0 else 0.0
