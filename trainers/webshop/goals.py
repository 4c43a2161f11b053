"""Which goals are for what, and goals to practise on.

Goals 0 to 499 are for live tests and are never played to learn from; training uses only products that
no goal below 1500 uses. On a catalogue with fewer goals the bounds shrink in proportion.

The real training goals sit on products with few goals, because those have few options. So goals with
options are made, in the shop's own form, for all products that no goal below the first training goal
names, the more the more options they have: some of the product's attributes, further properties that
its texts say, its kind, a value of each option and a price limit.
"""

import copy
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from stategate.envs.webshop import WebShop
from stategate.envs.webshop.catalogue import Product
from stategate.envs.webshop.goals import goal_of
from stategate.envs.webshop.wordings import TEMPLATE, reworded
from stategate.nodes.observe.webshop import WebShopEnv
from stategate.stores.errors import UserError

MODES: tuple[str, ...] = ("rich", "text")
_PLAIN = 0.15  # share of goals that keep the template's words
_HELD_OUT = 0.4  # share of the training goals' products
_GOAL_COUNTS = (1, 4, 12)  # goals that are made for a product without options, with one, with more
_FURTHER = 4  # properties at most that are asked beside a product's listed ones
_JOINTS = (("", " with ", " for "), ("", " with "), ("", " for "), (" with ",), (" for ",), ("",))


@dataclass(frozen=True)
class Practice:
    """``world`` has the made goals after its own; the lists hold goal numbers, by product apart."""

    world: WebShop
    training: tuple[int, ...]
    heldout: tuple[int, ...]
    made_heldout: tuple[int, ...]


def practice(
    shop: WebShop, seed: int = 0, wording: str = TEMPLATE, exam: str = TEMPLATE
) -> Practice:
    """Split the training goals of ``shop`` by product, two fifths held out; add made goals.

    A product gets up to twelve of them (one where it has no options). Training goals are said in
    ``wording``, those held out in ``exam``; some of them stay as the template says them.
    """
    rng = random.Random(seed)
    real = shop.ranges["training"]
    if not real:
        raise UserError("every product is used by a test goal: no product is left to train on")
    products = sorted({shop.goals[i]["asin"] for i in real})
    rng.shuffle(products)
    held_out = set(products[: max(1, round(_HELD_OUT * len(products)))])
    training = [i for i in real if shop.goals[i]["asin"] not in held_out]
    heldout = [i for i in real if shop.goals[i]["asin"] in held_out]
    world = copy.copy(shop)
    world.goals = list(shop.goals)
    made_heldout: list[int] = []
    tested = {goal["asin"] for goal in shop.goals} - set(products)
    further = _properties(shop, tested)
    for product in shop.products.values():
        is_bare = not product.query or product.attributes in ((), ("DUMMY_ATTR",))
        if product.asin in tested or is_bare:
            continue
        is_held = (
            rng.random() < _HELD_OUT / 2
            if product.asin not in products
            else product.asin in held_out
        )
        side = made_heldout if is_held else training
        more = [text for text in further if text not in product.attributes and _says(product, text)]
        for lap in range(_GOAL_COUNTS[min(len(product.options), 2)]):
            own = random.Random(f"{seed} {product.asin} {lap}")
            also = own.sample(more, min(len(more), own.randint(0, _FURTHER)))
            side.append(len(world.goals))
            world.goals.append(make_goal(product, shop.prices[product.asin], rng, also))
    for words, goals in ((wording, training), (exam, (*heldout, *made_heldout))):
        reword(world, goals, words, seed, rng)
    return Practice(world, tuple(training), tuple(heldout), tuple(made_heldout))


def reword(
    world: WebShop, goals: Sequence[int], words: str, seed: int, rng: random.Random | None = None
) -> None:
    """Say ``goals`` of ``world`` in the wordings of split ``words``, in place.

    With ``rng`` some of them stay as the template says them.
    """
    goals = [i for i in goals if rng is None or rng.random() >= _PLAIN]
    reworded_goals = reworded([world.goals[i] for i in goals], world.products, words, seed)
    for i, goal in zip(goals, reworded_goals, strict=True):
        world.goals[i] = goal


def load_shop(data: str, mode: str) -> WebShop:
    """Load the world of ``data`` ('sample', 'official', a folder) in observation mode ``mode``."""
    return WebShop.load(WebShopEnv(data=data).folder(), "text" if mode == "text" else "rich")


def _properties(shop: WebShop, tested: set[str]) -> list[str]:
    """Return the attributes that several products list, those ``tested`` left out."""
    listed = Counter(
        text for p in shop.products.values() if p.asin not in tested for text in p.attributes
    )
    return sorted(text for text, n in listed.items() if n > 1 and text != "DUMMY_ATTR")


def _says(product: Product, text: str) -> bool:
    return any(
        text in part.lower() for part in (product.name, *product.bullets, product.description)
    )


def make_goal(
    product: Product, price: float, rng: random.Random, also: Sequence[str] = ()
) -> dict[str, Any]:
    """Return a goal for ``product`` in the form of ``envs.webshop.goals``, which asks ``also``, too."""
    attributes = rng.sample(product.attributes, min(len(product.attributes), rng.randint(1, 5)))
    joints = rng.choice(_JOINTS)
    parts: dict[str, list[str]] = {joint: [] for joint in joints}
    for attribute in attributes:
        parts[rng.choice(joints)].append(attribute)
    for i, attribute in enumerate(also):
        parts[joints[i % len(joints)]].append(attribute)
    attributes = [*attributes, *also]
    text = "Find me " + " ".join([", ".join(parts.get("", [])), product.query]).strip()
    text += "".join(j + ", ".join(parts[j]) for j in (" with ", " for ") if parts.get(j))
    options = {
        name: rng.choice(values) for name, values in sorted(product.options.items()) if values
    }
    described = ", and ".join(f"{name}: {value}" for name, value in options.items())
    limits = [10.0 * i for i in range(1, 100) if 10.0 * i > price][:4]
    limit = max(rng.sample(limits, 2)) if len(limits) > 1 else 1_000_000.0
    text += f" with {described}" if described else ""
    text += f", and price lower than {limit:.2f} dollars" if limit < 1_000_000.0 else ""
    return goal_of(product, text, attributes, limit, options)
