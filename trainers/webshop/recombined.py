"""Recombined goals: parts of many goals, and invented ones, in one instruction.

Nobody can play them. They teach to read: training goals name some hundred kinds, properties and
values, always the same together, and what was seen together is taken for a rule. Here any kind stands
beside any properties and values; some of each are any English words; colors, sizes, numbers and codes
are made up in their usual forms.
"""

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from stategate.envs.webshop.catalogue import Product
from stategate.envs.webshop.reward import COLORS
from stategate.envs.webshop.wordings import reword
from stategate.stores.tokens import encoding

_STRANGE = 0.15  # share of kinds and properties that are any words
_OWN = 0.45  # share of values that some product offers
_UNLIMITED = 0.2
_USUAL = (("color",), ("size",), ("color", "size"), ("color", "size"), ("for", "color", "size"))
_USUALLY = 0.6  # share of goals that choose among these
_COUNTS = (0, 1, 1, 1, 2, 2, 2, 3)  # values of the others
_PROPERTIES = (1, 1, 2, 2, 3, 3, 4, 5, 6, 7)
_SHADES = "light dark pale deep bright soft matte pastel neon dusty".split()
_PEOPLE = "men women youth kids boys girls adults toddlers unisex".split()
_LETTERS = (
    "xs s m l xl xxl small medium large x-small x-large xx-large 3x-large 4x-large petite".split()
)
_UNITS = "inch inches cm mm ft oz ounce lb ml g pack count pieces pair".split()


def recombined(
    goals: Sequence[Mapping[str, Any]],
    products: Sequence[Product],
    families: Sequence[str],
    count: int,
    seed: int,
) -> list[dict[str, Any]]:
    """Return ``count`` goals of parts of ``goals`` and of what ``products`` offer, in ``families``."""
    rng = random.Random(f"recombined {seed}")
    kinds = sorted({goal["query"] for goal in goals})
    properties = sorted({text for goal in goals for text in goal["attributes"]})
    offered: dict[str, list[str]] = {}
    for product in products:
        for name, values in product.options.items():
            offered.setdefault(name, []).extend(map(str, values))
    made = []
    for i in range(count):
        if rng.random() < _USUALLY:
            names: Sequence[str] = rng.choice(_USUAL)
        else:
            names = rng.sample(sorted({*offered, "material", "length"}), rng.choice(_COUNTS))
        limit = 1_000_000.0 if rng.random() < _UNLIMITED else 10.0 * rng.randint(1, 40)
        wanted = rng.sample(properties, min(len(properties), rng.choice(_PROPERTIES)))
        goal = {
            **rng.choice(goals),
            "query": _any(rng.choice(kinds), rng),
            "price_upper": limit,
            "attributes": [_any(text, rng) for text in wanted],
            "goal_options": {name: _value(name, offered, rng) for name in names},
        }
        others = {
            name: (value, _value(name, offered, rng))
            for name, value in goal["goal_options"].items()
        }
        shown = replace(products[0], options=others)
        made.append(reword(goal, shown, rng.choice(families), f"{seed} {i}"))
    return made


@cache
def english_words() -> tuple[str, ...]:
    """Return the words that a byte-pair vocabulary has whole, the commonest left out."""
    texts = (encoding().decode([i]) for i in range(1000, 50_000))
    return tuple(text[1:] for text in texts if re.fullmatch(r" [a-z]{3,12}", text))


def _any(text: str, rng: random.Random) -> str:
    return text if rng.random() >= _STRANGE else _words(rng)


def _words(rng: random.Random) -> str:
    return " ".join(rng.choice(english_words()) for _ in range(rng.randint(1, 2)))


def _value(name: str, offered: Mapping[str, Sequence[str]], rng: random.Random) -> str:
    """Return a value of a choice: one that a product offers, or one made up in a usual form."""
    if name == "for":
        return rng.choice(_PEOPLE)
    if name in offered and rng.random() < _OWN:
        return rng.choice(offered[name])
    if "color" in name:
        color, code = rng.choice(COLORS), rng.choice("abcdefgz")
        return rng.choice(
            (
                color,
                color,
                f"{rng.choice(_SHADES)} {color}",
                f"{color} {rng.choice(COLORS)}",
                f"{code}-{color}",
                f"{code}{rng.randint(1, 40)}-{color}",
                f"{code}{rng.randint(1, 40)}",
            )
        )
    if "size" in name or name == "length":
        number = rng.choice((f"{rng.randint(1, 60)}", f"{rng.randint(1, 30)}.5"))
        return rng.choice(
            (
                rng.choice(_LETTERS),
                rng.choice(_LETTERS),
                number,
                f"{number} {rng.choice(_UNITS)}",
                f"{number} x {rng.randint(2, 90)}",
                f"pack of {rng.randint(2, 24)}",
            )
        )
    return _words(rng)
