"""Recombined goals (data augmentation): kinds, properties and values of many goals in one instruction.

They teach to read, nobody can play them. Training goals name some hundred kinds, properties and values,
always the same together, so a model would learn the combinations. Here any kind stands beside any
properties and values; some of each are any English words; colors, sizes, numbers and codes are made up
in their usual forms.
"""

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from stategate.envs.webshop.catalogue import Product
from stategate.envs.webshop.goals import NO_LIMIT
from stategate.envs.webshop.reward import COLORS
from stategate.envs.webshop.wordings import reword
from stategate.stores.files import read_yaml
from stategate.stores.tokens import encoding
from stategate.trainers.instruction.marked import mark

_STRANGE = 0.15  # share of kinds and properties that are any words
_OFFERED = 0.45  # share of values that some product offers, and of kinds that some goal names
_UNLIMITED = 0.2  # share of goals
_CENTS = 0.15  # share of amounts with cents
_OTHER_LIMITS = 0.45  # share of limits that no family writes
_USUAL = (("color",), ("size",), ("color", "size"), ("color", "size"), ("for", "color", "size"))
_USUALLY = 0.6  # share of goals whose choices are one of these
_COUNTS = (0, 1, 1, 1, 2, 2, 2, 3)  # of choices of the other goals, drawn evenly
_PROPERTIES = (1, 1, 2, 2, 3, 3, 4, 5, 6, 7)  # counts, drawn evenly
#: Words, frames, ways to say a limit and to name another number, by name.
PARTS: dict[str, list[Any]] = read_yaml(Path(__file__).with_name("parts.yaml").read_text("utf-8"))


@dataclass(frozen=True)
class ShopParts:
    """What a shop's texts are made of: goals, products, and the families of wordings that say them."""

    goals: Sequence[Mapping[str, Any]]
    products: Sequence[Product]
    families: Sequence[str]


def recombined(shop: ShopParts, count: int, seed: int) -> Iterator[str]:
    """Yield ``count`` marked texts: parts of goals and products, said in the shop's families.

    Some say their limit as no family does (``parts.yaml``): also lower ends, and refusals.
    """
    rng = random.Random(f"recombined {seed}")
    goals, products = shop.goals, shop.products
    kinds = sorted({goal["query"] for goal in goals})
    properties = sorted({text for goal in goals for text in goal["attributes"]})
    offered: dict[str, list[str]] = {}
    for product in products:
        for name, values in product.options.items():
            offered.setdefault(name, []).extend(map(str, values))
    for i in range(count):
        if rng.random() < _USUALLY:
            names: Sequence[str] = rng.choice(_USUAL)
        else:
            names = rng.sample(sorted({*offered, "material", "length"}), rng.choice(_COUNTS))
        limit = NO_LIMIT if rng.random() < _UNLIMITED else 10.0 * rng.randint(1, 40)
        chosen = rng.sample(properties, min(len(properties), rng.choice(_PROPERTIES)))
        goal = {
            **rng.choice(goals),
            "query": _or_words(rng.choice(kinds), rng),
            "price_upper": limit,
            "attributes": [_or_words(text, rng) for text in chosen],
            "goal_options": {name: _value(name, offered, rng) for name in names},
        }
        others = {
            name: (value, _value(name, offered, rng))
            for name, value in goal["goal_options"].items()
        }
        shown = replace(products[0], options=others)
        limits = PARTS["limits"] if rng.random() < _OTHER_LIMITS else ()
        family = rng.choice(shop.families)
        reworded = reword(goal, shown, family, f"{seed} {i}", mark=mark, limits=limits)
        yield str(reworded["instruction_text"])


def short_texts(shop: ShopParts, count: int, seed: int) -> Iterator[str]:
    """Yield ``count`` marked texts of a thing and a limit, some after talk, some beside a number."""
    rng = random.Random(f"short {seed}")
    kinds = sorted({str(goal["query"]) for goal in shop.goals})
    properties = sorted({text for goal in shop.goals for text in goal["attributes"]})
    for _ in range(count):
        form = rng.choice(PARTS["limits"]) if rng.random() < _OTHER_LIMITS else _plain_limit(rng)
        form = form.replace("dollars", rng.choice(PARTS["money"]))
        low = rng.randint(2, 300)
        high = low + rng.randint(1, 200)
        amounts = [
            f"{n}.{rng.choice('59')}0" if rng.random() < _CENTS else str(n) for n in (low, high)
        ]
        ends = {"low": mark("low", amounts[0]), "n": mark("high", amounts[1])}
        ends["words"] = ends["n"]
        thing = rng.choice(kinds) if rng.random() < _OFFERED else _words(rng)
        number, part = rng.randint(2, 60), rng.choice(english_words())
        yield rng.choice(PARTS["frames"]).format(
            kind=mark("thing", thing),
            limit=mark("limit", form.format(**ends)),
            count=mark("property", str(number)),
            part=mark("property", part),
            property=mark("property", _or_words(rng.choice(properties), rng)),
            value=mark("value", _value(rng.choice(("color", "size")), {}, rng)),
        )


def _plain_limit(rng: random.Random) -> str:
    """Return a plain limit with or without its currency: upper ends mostly, lower ends, ranges."""
    upper, lower = (rng.choice(PARTS[end]) for end in ("upper", "lower"))
    before, after = rng.choice((("", ""), ("", ""), ("$", ""), ("", " dollars")))
    low, high = f"{before}{{low}}{after}", f"{before}{{n}}{after}"
    range_ = rng.choice((f"{low} to {high}", f"between {low} and {high}", f"{low}-{high}"))
    forms = (f"{upper} {high}", f"{lower} {low}", range_)
    return rng.choices(forms, (6, 2, 1))[0]


@cache
def english_words() -> tuple[str, ...]:
    """Return the words that a byte-pair vocabulary has whole, the commonest left out."""
    texts = (encoding().decode([i]) for i in range(1000, 50_000))
    return tuple(text[1:] for text in texts if re.fullmatch(r" [a-z]{3,12}", text))


def _or_words(text: str, rng: random.Random) -> str:
    """Return ``text``, or any words in its place."""
    return text if rng.random() >= _STRANGE else _words(rng)


def _words(rng: random.Random) -> str:
    return " ".join(rng.choice(english_words()) for _ in range(rng.randint(1, 2)))


def _value(name: str, offered: Mapping[str, Sequence[str]], rng: random.Random) -> str:
    """Return a value of the choice ``name``: one that a product offers, or one in a usual form."""
    if name == "for":
        return str(rng.choice(PARTS["people"]))
    if name in offered and rng.random() < _OFFERED:
        return rng.choice(offered[name])
    if "color" in name:
        color, code = rng.choice(COLORS), rng.choice("abcdefgz")
        return rng.choice(
            (
                color,
                color,
                f"{rng.choice(PARTS['shades'])} {color}",
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
                rng.choice(PARTS["letters"]),
                rng.choice(PARTS["letters"]),
                number,
                f"{number} {rng.choice(PARTS['units'])}",
                f"{number} x {rng.randint(2, 90)}",
                f"pack of {rng.randint(2, 24)}",
            )
        )
    return _words(rng)
