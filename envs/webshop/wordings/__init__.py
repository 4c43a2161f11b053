"""Wordings: a goal's structured parts said in other words than the shop's own template.

A *family* is a way of asking (a question, keywords, a story, with typos, by what is not wanted …) with
twenty patterns or more; ``families`` holds a file for each split: to train on, to develop with, and to
play once (the rest, in the order of ``SPLITS``; no pattern or limit stands in two of them). Who wrote
those that are called blind had read neither the other families nor what reads them.

A pattern's slots are filled from a goal's parts: ``{kind}`` of product, ``{attributes}``, ``{values}``
of its options, ``{limit}`` of its price; what stands in [brackets] goes where its slot is empty.
A family has

- ``values``: how a value is said; ``{name}`` is the option's name, ``{other}`` another value of it. A
  mapping goes by name.
- ``limit``: ``{n}`` 40, ``{cents}`` 40.00, ``{words}`` forty, ``{low}`` a lower end.
- ``change``: what is done to the whole text. ``drop``: options, of which some are not asked for.

The same goal, family and seed give the same words. Everything that the goal asks for stays in its
text; a family that *drops* some of it returns a goal that asks for less, as people's do.
"""

import random
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from stategate.envs.webshop.catalogue import Product
from stategate.envs.webshop.wordings.changes import CHANGES, in_words
from stategate.stores.errors import UserError

TEMPLATE = "template"
SPLITS = (
    "train",
    "develop",
    "held-out",
    "unseen",
    "strange",
    "fresh",
    "paraphrased",
    "untried",
    "distant",
    "blind",
    "blind-second",
    "blind-third",
    "blind-fourth",
    "blind-fifth",
)
_NO_LIMIT = 1_000_000.0
_GAP = 40  # dollars from a range's lower end to its upper: no goal's price lies below
_KEPT = 0.6  # share of the options that a family with ``drop`` keeps
_PART = re.compile(r"\[([^\[\]]*)\]")
_SLOT = re.compile(r"\{(\w+)\}")


@cache
def families() -> Mapping[str, Mapping[str, Any]]:
    """Return each family by name, with its ``split``."""
    folder = Path(__file__).with_name("families")
    return {
        name: {**family, "split": split}
        for split in SPLITS
        for name, family in yaml.safe_load((folder / f"{split}.yaml").read_text("utf-8")).items()
    }


def names_of(wording: str) -> tuple[str, ...]:
    """Return the families of ``wording``: its own name, or all of a split. Raises ``UserError``."""
    if wording == TEMPLATE:
        return ()
    known = families()
    if wording in SPLITS:
        return tuple(name for name, family in known.items() if family["split"] == wording)
    if wording not in known:
        raise UserError(
            f"no wording '{wording}': {TEMPLATE}, a split ({', '.join(SPLITS)}) or a family "
            f"({', '.join(known)})"
        )
    return (wording,)


def reworded(
    goals: Sequence[Mapping[str, Any]], products: Mapping[str, Product], wording: str, seed: int = 0
) -> list[dict[str, Any]]:
    """Return ``goals`` in the words of ``wording``; the families of a split take turns, shuffled."""
    names = names_of(wording)
    if not names:
        return [dict(goal) for goal in goals]
    shuffled = random.Random(f"{seed} {wording}")
    said = []
    for i, goal in enumerate(goals):
        name = names[0] if len(names) == 1 else shuffled.choice(names)
        said.append(reword(goal, products[goal["asin"]], name, f"{seed} {i}"))
    return said


def reword(
    goal: Mapping[str, Any],
    product: Product,
    family: str,
    seed: str = "",
    pattern: int | None = None,
) -> dict[str, Any]:
    """Return ``goal`` said in a pattern of ``family`` (drawn by ``seed`` unless given)."""
    rules = families()[family]
    rng = random.Random(f"{seed} {family} {goal['asin']}")
    number = rng.randrange(len(rules["patterns"])) if pattern is None else pattern
    attributes, options = list(goal["attributes"]), dict(goal["goal_options"])
    if rules.get("drop") == "options":
        options = {name: value for name, value in options.items() if rng.random() < _KEPT}
        attributes = rng.sample(attributes, rng.randint(1, len(attributes)))
    said = {name: _value(rules, product, name, value, rng) for name, value in options.items()}
    limit = float(goal["price_upper"])
    slots = {
        "kind": goal["query"],
        "attributes": _joined(attributes, rng),
        "values": _joined([text for text, _ in said.values()], rng),
        "limit": _limit(rng.choice(rules["limit"]), limit) if limit < _NO_LIMIT else "",
    }
    text = _filled(rules["patterns"][number], slots)
    change = CHANGES.get(rules.get("change", ""))
    if change is not None:
        text = change(text, rng)
    return {
        **goal,
        "instruction_text": text,
        "attributes": attributes,
        "goal_options": options,
        "wording": family,
        "pattern": number,
        "excluded": {name: other for name, (_, other) in said.items() if other},
    }


def _filled(pattern: str, slots: Mapping[str, str]) -> str:
    """Fill the slots; a bracket with an empty slot goes, punctuation that is left over is mended."""
    # Values may hold brackets and braces themselves, so slots are filled last, in one pass.
    kept = _PART.sub(
        lambda part: part[1] if all(slots[s] for s in _SLOT.findall(part[1])) else "", pattern
    )
    text = _SLOT.sub(lambda slot: slots[slot[1]], kept)
    text = re.sub(r"[ \t]+", " ", text)
    text = re.sub(r" ([,.;?!])(?=\s|$)", r"\1", text)
    text = re.sub(r"(?:[,;]\s*)+([,.;?!])", r"\1", text)
    return " ".join(text.split()).strip(" ,;/|-")


def _joined(parts: Sequence[str], rng: random.Random) -> str:
    order = list(parts)
    rng.shuffle(order)
    if len(order) < 2:
        return "".join(order)
    last = rng.choice((", ", " and ", ", and "))
    return ", ".join(order[:-1]) + last + order[-1]


def _value(
    rules: Mapping[str, Any], product: Product, name: str, value: Any, rng: random.Random
) -> tuple[str, str]:
    """Return how a value is said, and the other value that is said not to be wanted ("" if none)."""
    forms = rules["values"]
    if isinstance(forms, Mapping):
        forms = forms.get(name, forms[""])
    others = [str(v) for v in product.options.get(name, ()) if str(v) != str(value)]
    if not others:  # nothing that it could be told from
        forms = [form for form in forms if "{other}" not in form] or ["{value}"]
    form = rng.choice(list(forms))
    other = rng.choice(others) if others else ""
    if "but {other}" in form and len(others) == 1 and rng.random() < 0.5:
        form = "anything but {other}"  # of two, that says it
    text = _SLOT.sub(lambda s: {"value": str(value), "name": name, "other": other}[s[1]], form)
    return text, other if "{other}" in form else ""


def _limit(form: str, limit: float) -> str:
    whole = round(limit)
    low = max(whole - _GAP, 1)
    words = {"n": str(whole), "cents": f"{limit:.2f}", "words": in_words(whole), "low": str(low)}
    return _SLOT.sub(lambda slot: words[slot[1]], form)
