"""A product line of a results page as numbers: how well its title and price fit the wish."""

import itertools
from collections.abc import Sequence

from envs.webshop.actions import OPENED
from nodes.act.shop.reading import Product, Reading, Trail, word_weights
from stores.text import overlap, words_of

PRODUCT = (
    "score", "against the best", "against the best fresh", "rank", "fresh rank", "words",
    "attributes", "whole attributes", "least attribute", "kind", "kind's last word", "options",
    "affordable", "dear", "price known", "price share", "place", "first", "tried", "times opened",
    "was read", "was last", "was rejected", "title known", "attribute phrases", "row features",
)  # fmt: skip


def product_features(page: Reading, trail: Trail) -> dict[str, list[float]]:
    """Return the features of each readable product, by the click that opens it."""
    if not page.products:
        return {}
    scores = title_scores(page)
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
            *_fit(page, product), *_price(product.price, limit),
            place / 5, float(place == 0),
            float(asin in tried), min(trail.opened.count(asin), 3) / 2,
            float(asin in trail.read),
            float(bool(trail.opened) and trail.opened[-1] == asin),
            float(asin in rejected),
            float(bool(product.title)), _phrases(page, product), 1.0,
        ]  # fmt: skip
    return rows


def title_scores(page: Reading) -> dict[str, float]:
    """Return the weighted share (0 to 1) of the wish's words in each title, by ASIN."""
    weights = word_weights(page)
    whole = sum(weights.values()) or 1.0
    titles = {p.asin: set(words_of(p.title)) for p in page.products}
    return {
        asin: sum(weight for word, weight in weights.items() if word in title) / whole
        for asin, title in titles.items()
    }


def _fit(page: Reading, product: Product) -> list[float]:
    wish, title = page.wish, product.title
    shares = [overlap(words_of(phrase), title) for phrase in wish.attributes]
    kind = words_of(wish.kind)
    values = [overlap(words_of(value), title) for _, value in wish.options]
    return [
        overlap(wish.words, title),
        sum(shares) / len(shares) if shares else 0.0,
        sum(share == 1.0 for share in shares) / max(len(shares), 1),
        min(shares, default=0.0),
        overlap(kind, title),
        overlap(kind[-1:], title) if kind else 0.0,
        sum(values) / len(values) if values else 0.0,
    ]


def _phrases(page: Reading, product: Product) -> float:
    """Return the share of attributes that stand in the title letter for letter."""
    title = product.title.lower()
    wanted = page.wish.attributes
    return sum(phrase.lower() in title for phrase in wanted) / max(len(wanted), 1)


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
