"""Goals to practise on: those of training products, and new ones for products that have none.

The real training goals sit on products that no goal below 1500 uses; such products have few goals
because they have few options. So goals with options are made, in the shop's own form, for products
that no goal names at all: some of the product's attributes, its kind, a value of each option and a
price limit. No product of a test goal is ever the aim.

python -m trainers.episodes.goals --data ../shared/data/webshop --out runs/trajectories/practice

lets the expert play them. In half of the episodes it opens the best-looking wrong product first: the
pages that a learner must learn to leave.
"""

import argparse
import copy
import json
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envs.webshop import WebShop
from envs.webshop.catalogue import Product
from envs.webshop.expert import Rates
from stores.errors import mistakes_in_one_line
from stores.traces.trajectories import Trajectory
from trainers.episodes.collect import draw, episodes, splits, write_splits

MODES: tuple[str, ...] = ("rich", "text")
RATES = Rates(short_search=0.1, wrong_product=0.5, wrong_option=0.0, careful=1.0)

_JOINTS = (("", " with ", " for "), ("", " with "), ("", " for "), (" with ",), (" for ",), ("",))


@dataclass(frozen=True)
class Practice:
    """``world`` has the made goals after its own; the lists hold goal numbers, by product apart."""

    world: WebShop
    training: tuple[int, ...]
    heldout: tuple[int, ...]
    made_heldout: tuple[int, ...]


def practice(
    shop: WebShop, share: float = 0.4, seed: int = 0, each: int = 4, made: bool = True
) -> Practice:
    """Split the training goals of ``shop`` by product (``share`` is held out); add made goals.

    ``each`` is how many goals a product without any gets at most (one where it has no options).
    """
    rng = random.Random(seed)
    real = splits(shop)["train"]
    products = sorted({shop.goals[i]["asin"] for i in real})
    rng.shuffle(products)
    held = set(products[: max(1, round(share * len(products)))])
    training = [i for i in real if shop.goals[i]["asin"] not in held]
    heldout = [i for i in real if shop.goals[i]["asin"] in held]
    world = copy.copy(shop)
    world.goals = list(shop.goals)
    new_training: list[int] = []
    new_heldout: list[int] = []
    named = {goal["asin"] for goal in shop.goals}
    for product in shop.products.values() if made else ():
        if (
            product.asin in named
            or not product.query
            or product.attributes in ((), ("DUMMY_ATTR",))
        ):
            continue
        side = new_heldout if rng.random() < share / 2 else new_training
        for _ in range(each if product.options else 1):
            side.append(len(world.goals))
            world.goals.append(make_goal(product, shop.prices[product.asin], rng))
    return Practice(world, (*training, *new_training), tuple(heldout), tuple(new_heldout))


def load_shop(data: str, mode: str) -> WebShop:
    """Load the world of ``data`` in observation mode ``mode``."""
    return WebShop.load(data, observation="text" if mode == "text" else "rich")


def make_goal(product: Product, price: float, rng: random.Random) -> dict[str, Any]:
    """Return a goal for ``product`` in the form of ``envs.webshop.goals``."""
    wanted = rng.sample(product.attributes, min(len(product.attributes), rng.randint(1, 5)))
    joints = rng.choice(_JOINTS)
    parts: dict[str, list[str]] = {joint: [] for joint in joints}
    for attribute in wanted:
        parts[rng.choice(joints)].append(attribute)
    text = "Find me " + " ".join([", ".join(parts.get("", [])), product.query]).strip()
    text += "".join(j + ", ".join(parts[j]) for j in (" with ", " for ") if parts.get(j))
    options = {
        name: rng.choice(values) for name, values in sorted(product.options.items()) if values
    }
    spoken = ", and ".join(f"{name}: {value}" for name, value in options.items())
    limits = [10.0 * i for i in range(1, 100) if 10.0 * i > price][:4]
    limit = max(rng.sample(limits, 2)) if len(limits) > 1 else 1_000_000.0
    text += f" with {spoken}" if spoken else ""
    text += f", and price lower than {limit:.2f} dollars" if limit < 1_000_000.0 else ""
    return {
        "asin": product.asin, "category": product.category, "query": product.query,
        "name": product.name, "product_category": product.product_category,
        "instruction_text": text, "attributes": list(wanted), "price_upper": limit,
        "goal_options": options,
    }  # fmt: skip


def collect(data: str, out: Path, n: int, heldout: int, seed: int = 0) -> dict[str, Any]:
    """Let the expert play practice goals, in both observation modes in turn; write JSON lines."""
    worlds = {mode: practice(load_shop(data, mode), seed=seed) for mode in MODES}
    plan = worlds[MODES[0]]
    summary: dict[str, Any] = {"seed": seed, "rates": vars(RATES), "splits": {}}
    summary["data"] = {"sha256": plan.world.catalogue.fingerprint}
    shops = {mode: worlds[mode].world for mode in MODES}
    parts = (("train", plan.training, n), ("heldout", plan.heldout + plan.made_heldout, heldout))

    def played() -> Iterator[tuple[str, list[Trajectory]]]:
        for i, (name, goals, count) in enumerate(parts):
            drawn = draw(goals, count, seed + i, plan.world, by="index")
            yield name, list(episodes(shops, drawn, 10_000 * (i + 1) + seed, name, RATES))

    return write_splits(out, summary, played())


def main(argv: Sequence[str] | None = None) -> None:
    """Run from the command line (see the module's docstring)."""
    parser = argparse.ArgumentParser(
        "trainers.episodes.goals",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", default="sample", help="'sample' or a folder of official files")
    parser.add_argument("--out", required=True, type=Path, help="folder for the JSON lines")
    parser.add_argument("-n", "--episodes", type=int, default=1800, help="training episodes")
    parser.add_argument("--heldout", type=int, default=300, help="held-out episodes")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(argv)
    with mistakes_in_one_line():
        made = collect(given.data, given.out, given.episodes, given.heldout, given.seed)
    sys.stdout.write(json.dumps(made["splits"], indent=1) + "\n")


if __name__ == "__main__":
    main()
