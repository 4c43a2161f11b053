"""Invented products that compete: real training products hold few look-alikes, other ranges many.

One is made of a product and one of its kin: some words of its title and some of its bullets go, some of
the kin's come, values of options and the price change. What it offers and has is then read off its own
texts, so that which of several look-alikes is asked for can be told from their pages. No product of a
test goal is used, and what is made of products on one side of a split stays there.
"""

import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from stategate.envs.webshop import WebShop
from stategate.envs.webshop.catalogue import Product
from stategate.envs.webshop.reward import has_attribute, type_parts
from stategate.trainers.webshop.goals import Practice, make_goal, reworded_mostly

_WORDS, _BULLETS, _VALUES = 0.75, 0.6, 0.6  # shares of a product's own that are kept
_TAKEN = 0.3  # of the kin's words and bullets
_GOALS = 4  # goals for an invented product
_PRICE = (0.6, 1.7)
_PAGE = 10


def with_lookalikes(plan: Practice, seed: int, wording: str, exam: str) -> Practice:
    """Return ``plan`` with one invented product for each that offers something to choose."""
    world = plan.world
    sides = {
        "train": {world.goals[i]["asin"] for i in plan.training},
        "held": {world.goals[i]["asin"] for i in (*plan.heldout, *plan.made_heldout)},
    }
    more: dict[str, list[Product]] = {}
    number = 0
    for side, asins in sides.items():
        own = [world.products[asin] for asin in sorted(asins) if world.products[asin].options]
        more[side] = []
        for base in own:
            rng = random.Random(f"{seed} {side} {base.asin}")
            number += 1
            if made := invent(base, own, f"BX{number:08d}", rng):
                more[side].append(made)
    shop = world.stocked([product for own in more.values() for product in own])
    added: dict[str, list[int]] = {"train": [], "held": []}
    for side, own in more.items():
        for product in own:
            rng = random.Random(f"{seed} goals {product.asin}")
            for _ in range(_GOALS):
                added[side].append(len(shop.goals))
                shop.goals.append(make_goal(product, shop.prices[product.asin], rng))
    for goals, words in ((added["train"], wording), (added["held"], exam)):
        reworded_mostly(shop, goals, words, seed)
    return Practice(
        shop, (*plan.training, *added["train"]), plan.heldout, (*plan.made_heldout, *added["held"])
    )


def invent(
    base: Product, others: Sequence[Product], asin: str, rng: random.Random
) -> Product | None:
    """Return a product like ``base`` with something of one of its kin; None where none came of it."""
    kin = [p for p in others if p.asin != base.asin and set(p.options) & set(base.options)]
    near = [p for p in kin if p.query == base.query] or [
        p for p in kin if p.category == base.category
    ]
    other = rng.choice(near) if near else base
    words = [w for w in base.name.split() if rng.random() < _WORDS]
    words += [w for w in other.name.split() if rng.random() < _TAKEN / 2]
    bullets = tuple(b for b in base.bullets if rng.random() < _BULLETS)
    bullets += tuple(b for b in other.bullets if rng.random() < _TAKEN)
    options: dict[str, tuple[str, ...]] = {}
    for name, values in base.options.items():
        own = _some(values, _VALUES, rng)
        theirs = _some(other.options.get(name, ()), _TAKEN, rng)
        pool = dict.fromkeys((*own, *theirs))
        options[name] = tuple(pool)
    price = round(max(base.prices[0] * rng.uniform(*_PRICE), 1.0), 2)
    made = replace(
        base,
        asin=asin,
        name=" ".join(dict.fromkeys(words)) or base.name,
        bullets=bullets,
        description=base.description if rng.random() < _BULLETS else "",
        attributes=(),
        prices=(price,),
        price_tag=f"${price}",
        options=options,
    )
    had = dict.fromkeys((*base.attributes, *other.attributes))
    said = tuple(a for a in had if a != "DUMMY_ATTR" and has_attribute(made, a))
    return replace(made, attributes=said) if said else None


def _some(values: Iterable[str], share: float, rng: random.Random) -> list[str]:
    own = list(values)
    count = sum(rng.random() < share for _ in own)
    picked = set(rng.sample(own, max(count, 1))) if own else set()
    return [value for value in own if value in picked]


def weight(world: WebShop, number: int) -> int:
    """Return how often to practise a goal: the more options and the more look-alikes, the oftener.

    A look-alike is a product of its type on the first page of a search for its kind and properties.
    """
    goal = world.goals[number]
    query = re.sub(r"[\[\]<>]", " ", " ".join((goal["query"], *goal["attributes"])))
    rivals = sum(
        type_parts(world.products[asin], goal)["r_type"] == 1
        for asin in world.search(query, _PAGE)
        if asin != goal["asin"]
    )
    options = len(goal["goal_options"])
    return 1 + options * (1 + int(rivals) // 3)
