"""A product line of a results page as numbers: how well its title and price fit the wish."""

from collections.abc import Iterable

from stategate.envs.asking.wanted import is_excluded
from stategate.envs.webshop.reading import Wanted
from stategate.nodes.act.shop.page import Product, ShopPage, Trail

_WHOLE = 0.95  # share of its words from which a phrase is said

PRODUCT = (
    "score",
    "against the best",
    "against the best fresh",
    "rank",
    "fresh rank",
    "words",
    "attributes",
    "whole attributes",
    "least attribute",
    "kind",
    "best kind phrase",
    "options",
    "properties",
    "affordable",
    "dear",
    "price known",
    "price share",
    "place",
    "first",
    "tried",
    "times opened",
    "was read",
    "was last",
    "was rejected",
    "title known",
    "row features",
    "ahead of the next fresh",
    "unsaid",
    "was left",
    "was kept",
    "is met",
    "met",
    "met attributes",
    "met values",
    "met least",
    "ahead of other met",
)


def product_features(page: ShopPage, trail: Trail) -> dict[str, list[float]]:
    """Return the features of each readable product, by the click that opens it."""
    if not page.products:
        return {}
    scores = page.title_scores
    tried = {*trail.opened, *(p.asin for p in page.products if p.is_seen)}
    fresh = [
        p for p in page.products if p.asin not in tried and not is_excluded(page.wanted, p.price)
    ]
    best = max(scores.values())
    best_fresh, second = best_two(scores[p.asin] for p in fresh)
    order = sorted(page.products, key=lambda p: -scores[p.asin])
    ranks = {p.asin: i for i, p in enumerate(order)}
    fresh_ranks = {p.asin: i for i, p in enumerate(p for p in order if p in fresh)}
    rows: dict[str, list[float]] = {}
    for place, product in enumerate(page.products):
        asin = product.asin
        rows[product.action] = [
            scores[asin],
            best - scores[asin],
            best_fresh - scores[asin],
            ranks[asin] / 5,
            fresh_ranks.get(asin, 10) / 5,
            *_fit(page, product),
            *_price(page, product.price),
            place / 5,
            float(place == 0),
            float(asin in tried),
            min(trail.opened.count(asin), 3) / 2,
            float(asin in trail.read),
            float(bool(trail.opened) and trail.opened[-1] == asin),
            float(asin in trail.rejected),
            float(bool(product.title)),
            1.0,
            scores[asin] - (second if scores[asin] >= best_fresh else best_fresh),
            min(page.wanted.unsaid(product.title), 6) / 3,
            float(asin in trail.left),
            float(asin in trail.left and asin in trail.read),
            *_met(page, trail, product),
        ]
    return rows


def _met(page: ShopPage, trail: Trail, product: Product) -> list[float]:
    """Return what the title and earlier pages of a product that was opened met; zeros for others."""
    if product.asin not in trail.met:
        return [0.0] * 6
    wanted, text = page.wanted, f"{product.title}; {trail.met[product.asin]}"
    shares = wanted.phrase_shares(text, "property")
    others = [met_share(wanted, own) for a, own in trail.met.items() if a != product.asin]
    own = met_share(wanted, text)
    return [
        1.0,
        own,
        sum(shares) / len(shares) if shares else 0.0,
        wanted.share(text, "value"),
        min(shares, default=0.0),
        own - max(others, default=0.0),
    ]


def met_share(wanted: Wanted, text: str) -> float:
    """Return how far ``text`` says the thing and its properties (half of it) and its values."""
    return 0.5 * wanted.share(text) + 0.5 * wanted.share(text, "value")


def _fit(page: ShopPage, product: Product) -> list[float]:
    wanted, title = page.wanted, product.title
    shares = wanted.phrase_shares(title, "property")
    things = wanted.phrase_shares(title, "thing")
    return [
        wanted.share(title),
        sum(shares) / len(shares) if shares else 0.0,
        sum(share > _WHOLE for share in shares) / max(len(shares), 1),
        min(shares, default=0.0),
        wanted.share(title, "thing"),
        max(things, default=0.0),
        wanted.share(title, "value"),
        wanted.share(title, "property"),
    ]


def _price(page: ShopPage, price: float | None) -> list[float]:
    limit = page.wanted.limit
    if price is None or limit is None:
        return [0.0, 0.0, float(price is not None), 0.0]
    dear = limit.excludes(price)
    return [float(not dear), float(dear), 1.0, min(price / (limit.high or price or 1.0), 2.0)]


def best_two(values: Iterable[float]) -> tuple[float, float]:
    """Return the largest and the second largest of ``values``, zeros where there are fewer."""
    first, second, *_ = (*sorted(values, reverse=True)[:2], 0.0, 0.0)
    return first, second
