"""Write the sample catalogue: ``python -m tests.envs.sample.make`` (from a checkout).

The three files in ``envs/webshop/sample`` have the names and the format of the official WebShop
data, but every product is invented: types, wording and makers come from ``recipe.yaml``.
Siblings of one type differ in attributes, options and price, and part of an attribute's mentions
stand only in later bullets or in the description, where search does not look; so finding the right
product takes searching and reading. The same recipe always gives the same bytes.
"""

import json
import random
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from stategate.envs.webshop.catalogue import SAMPLE
from tests.envs.sample import wording

SEED = 7
#: How many siblings a type has: from fewer than a results page shows to more.
SIBLINGS = (4, 4, 5, 6, 8, 22)
#: Every such product carries no goal; it is there to be mistaken for one that does.
DISTRACTOR_EVERY = 6

Recipe = dict[str, Any]
Product = dict[str, Any]
Tags = dict[str, Any]


def main() -> None:
    """Write the three files of the sample catalogue."""
    for name, text in render(build(read_recipe())).items():
        (SAMPLE / name).write_text(text, encoding="utf-8")


def read_recipe() -> Recipe:
    """Return ``recipe.yaml``."""
    recipe: Recipe = yaml.safe_load(
        Path(__file__).with_name("recipe.yaml").read_text(encoding="utf-8")
    )
    return recipe


def build(recipe: Recipe) -> tuple[list[Product], dict[str, Tags], dict[str, list[Tags]]]:
    """Return products in shop order, then attributes and human instructions by asin."""
    rng = random.Random(SEED)
    products: list[Product] = []
    tags: dict[str, Tags] = {}
    human: dict[str, list[Tags]] = {}
    for kind in recipe["types"]:
        wanted = _attribute_sets(kind["attributes"], recipe, rng)
        for attributes, goal in wanted:
            product = _product(kind, attributes, recipe, rng)
            while product["asin"] in tags:
                product["asin"] = _asin(rng)
            entry: Tags = {"attributes": attributes}
            if (len(products) + 1) % DISTRACTOR_EVERY:
                entry["instruction"] = wording.instruction(
                    kind["query"], goal, recipe["attributes"]
                )
                entry["instruction_attributes"] = goal
            if len(products) % 20 == 3:
                human[product["asin"]] = [wording.human(product, kind, goal, rng)]
            tags[product["asin"]] = entry
            products.append(product)
    rng.shuffle(products)
    for page, product in enumerate(products):
        product["page"] = page // 10 + 1
    return products, {p["asin"]: tags[p["asin"]] for p in products}, human


def render(
    catalogue: tuple[list[Product], dict[str, Tags], dict[str, list[Tags]]],
) -> dict[str, str]:
    """Return the text of each file by name, one product a line so that changes can be read."""
    products, tags, human = catalogue
    rows = ",\n".join(_dump(product) for product in products)
    return {
        "items_shuffle_1000.json": f"[\n{rows}\n]\n",
        "items_ins_v2_1000.json": _dump_mapping(tags),
        "items_human_ins.json": _dump_mapping(human),
    }


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _dump_mapping(values: Mapping[str, Any]) -> str:
    rows = ",\n".join(f"{_dump(key)}:{_dump(value)}" for key, value in values.items())
    return f"{{\n{rows}\n}}\n"


def _attribute_sets(
    pool: Sequence[str], recipe: Recipe, rng: random.Random
) -> list[tuple[list[str], list[str]]]:
    """Return (attributes, those the goal asks for) for each sibling of a type.

    A goal's attributes are never all offered by two siblings, unless 200 tries find no such set;
    otherwise the right product would be a matter of luck.
    """
    roles = recipe["attributes"]
    chosen: list[tuple[list[str], list[str]]] = []
    siblings = rng.choice(SIBLINGS)
    asked = (2, 2, 3) if siblings < 10 else (3, 3, 4)
    for number in range(siblings):
        for _ in range(200):
            attributes = rng.sample(pool, rng.randint(max(asked), 5))
            goal = rng.sample(attributes, rng.choice(asked))
            shared = any(
                set(goal) <= set(a) or set(g) <= set(attributes) for a, g in chosen[:number]
            )
            absurd = any(set(pair) <= set(attributes) for pair in recipe["opposites"])
            if not shared and not absurd:
                break
        order = {"pre": 0, "with": 1, "for": 2}
        chosen.append((attributes, sorted(goal, key=lambda a: order[roles[a]["role"]])))
    return chosen


def _product(
    kind: Mapping[str, Any], attributes: Sequence[str], recipe: Recipe, rng: random.Random
) -> Product:
    maker = rng.choice(recipe["makers"])
    noun = rng.choice(kind["nouns"])
    said = {
        a: rng.sample(recipe["attributes"][a]["says"], len(recipe["attributes"][a]["says"]))
        for a in attributes
    }
    told = rng.sample(attributes, len(attributes))
    # The first attributes get a bullet, the last one or two only a sentence of the description.
    in_bullets = told[: max(2, len(told) - rng.randint(1, 2))]
    bullets = [said[a].pop() for a in in_bullets]
    bullets += rng.sample(recipe["fillers"], 2)
    rng.shuffle(bullets)
    described = [a for a in told if a not in in_bullets or rng.random() < 0.3]
    description = [rng.choice(recipe["openings"]), *(f"{said[a].pop()}." for a in described)]
    description.append(f"{rng.choice(recipe['fillers'])}.")

    def fill(text: str) -> str:
        filled = text.replace("{n}", wording.countable(noun)).replace("{m}", maker)
        return re.sub(r"\b([Aa]) (?=[aeiou])", r"\1n ", filled)

    options = _options(kind["options"], rng)
    return {
        "name": wording.title(maker, noun, kind, attributes, options, recipe["attributes"], rng),
        "full_description": fill(" ".join(description)),
        "pricing": _pricing(kind["price"], rng),
        "images": [""],
        "product_category": kind["path"],
        "average_rating": rng.choice(["", round(rng.uniform(3.1, 5.0), 1)]),
        "small_description": [f"{fill(bullet)} " for bullet in bullets],
        "customization_options": options or "",
        "asin": _asin(rng),
        "category": kind["category"],
        "query": kind["query"],
    }


def _options(groups: Mapping[str, Sequence[Any]], rng: random.Random) -> dict[str, Any]:
    """Return official option groups; now and then a group, or every group, is missing."""
    chosen: dict[str, Any] = {}
    if rng.random() < 0.06:
        return chosen
    for name, (most, *pool) in groups.items():
        if len(groups) > 1 and rng.random() < 0.12:
            continue
        count = rng.randint(2, most)
        kept = set(rng.sample(pool, count))
        chosen[name.title()] = [
            {"is_selected": i == 0, "url": None, "value": wording.capitals(value), "image": None}
            for i, value in enumerate(v for v in pool if v in kept)
        ]
    return chosen


def _pricing(span: tuple[float, float], rng: random.Random) -> str:
    low, high = span
    price = round(low + (high - low) * rng.random() ** 1.7) - rng.choice((0.01, 0.05, 0.5, 0.01))
    draw = rng.random()
    if draw < 0.05:
        return ""
    if draw < 0.15:
        return f"${price:.2f} to ${price * rng.choice((1.2, 1.35, 1.6)):.2f}"
    return f"${round(price, 2)}"


def _asin(rng: random.Random) -> str:
    return "B0" + "".join(rng.choices("0123456789BCDFGHJKLMNPQRSTVWXYZ", k=8))


if __name__ == "__main__":
    main()
