"""Goals as the original makes them: the cartesian product of options, prices drawn, shuffled."""

import itertools
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from stategate.envs.webshop.catalogue import HUMAN_FILE, Catalogue, Product
from stategate.stores.errors import UserError, user_error_context

_LIMITS = [10.0 * i for i in range(1, 100)]
NO_LIMIT = 1_000_000.0  # price of a goal that states none


def draw_prices(products: Sequence[Product], rng: random.Random) -> dict[str, float]:
    """Return each product's price: its own, or a uniform draw from its range."""
    return {p.asin: p.prices[0] if len(p.prices) == 1 else rng.uniform(*p.prices) for p in products}


def synthetic_goals(
    catalogue: Catalogue, prices: Mapping[str, float], rng: random.Random
) -> list[dict[str, Any]]:
    """Return the synthetic goals, product by product.

    ``rng`` must be the one that drew ``prices``: the original shares one stream between them.
    """
    goals: list[dict[str, Any]] = []
    uses: Counter[str] = Counter()
    for product in catalogue.products.values():
        if product.instruction is None or not product.instruction_attributes:
            continue
        limit, text = draw_limit(prices[product.asin], rng)
        names = sorted(product.options)
        for values in itertools.product(*(product.options[name] for name in names)):
            options = dict(zip(names, values, strict=True))
            described = ", and ".join(f"{name}: {value}" for name, value in options.items())
            wish = f"{product.instruction}{' with ' + described if described else ''}{text}"
            goals.append(goal_of(product, wish, product.instruction_attributes, limit, options))
            uses.update(product.instruction_attributes)
    for goal in goals:
        shares = (1.0 / uses[attribute] for attribute in goal["attributes"])
        goal["weight"] = sum(shares) / len(goal["attributes"])
    return goals


def human_goals(
    catalogue: Catalogue, prices: Mapping[str, float], rng: random.Random
) -> list[dict[str, Any]]:
    """Return the goals that people wrote, for the products that have them.

    Raises ``UserError`` for malformed instructions.
    """
    goals = []
    for product in catalogue.products.values():
        for wish in catalogue.human.get(product.asin) or ():
            with user_error_context(
                f"{HUMAN_FILE}: the instructions of {product.asin} are malformed"
            ):
                attributes = tuple(wish["instruction_attributes"])
                wished, options = str(wish["instruction"]), wish["instruction_options"]
            if attributes:
                limit, text = draw_limit(prices[product.asin], rng)
                goal = goal_of(product, wished.strip(".") + text, attributes, limit, options)
                goals.append({**goal, "weight": 1})
    return goals


#: Goals that the shop can be loaded with.
Goals = Literal["synthetic", "human"]


def make_goals(
    kind: str, catalogue: Catalogue, prices: Mapping[str, float], rng: random.Random
) -> list[dict[str, Any]]:
    """Return the goals of ``kind`` in the original's order."""
    if kind not in get_args(Goals):
        raise UserError(f"goals must be {' or '.join(get_args(Goals))}, not '{kind}'")
    make = synthetic_goals if kind == "synthetic" else human_goals
    goals = make(catalogue, prices, rng)
    random.Random(233).shuffle(goals)  # the original's seed
    return [{"index": i, **goal} for i, goal in enumerate(goals)]


def training_goals(goals: Sequence[Mapping[str, Any]]) -> list[int]:
    """Return the numbers of the goals on products that no goal below 1500 uses.

    The first 500 are for live tests. On fewer than 3000 goals the bound is their half.
    """
    first = min(1500, len(goals) // 2)
    seen = {goal["asin"] for goal in goals[:first]}
    return [i for i, goal in enumerate(goals) if goal["asin"] not in seen]


def draw_limit(price: float, rng: random.Random) -> tuple[float, str]:
    """Return a price limit above ``price`` in dollars, and how a goal's text states it."""
    limits = [limit for limit in _LIMITS if limit > price][:4]
    if len(limits) < 2:
        return NO_LIMIT, ""
    _, upper = sorted(rng.sample(limits, 2))
    return upper, f", and price lower than {upper:.2f} dollars"


def goal_of(
    product: Product, text: str, attributes: Sequence[str], limit: float, options: Any
) -> dict[str, Any]:
    """Return a goal as the shop keeps it."""
    return {
        "asin": product.asin,
        "category": product.category,
        "query": product.query,
        "name": product.name,
        "product_category": product.product_category,
        "instruction_text": text,
        "attributes": list(attributes),
        "price_upper": limit,
        "goal_options": options,
    }
