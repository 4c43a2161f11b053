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
from stategate.envs.webshop.goals import NO_LIMIT
from stategate.language.words import CARDINALS
from stategate.stores.errors import UserError

TEMPLATE = "template"
SPLITS = (
    *("train", "develop", "held-out", "unseen", "strange", "fresh", "paraphrased", "untried"),
    *("distant", "blind", "blind-second", "blind-third", "blind-fourth", "blind-fifth"),
    "blind-sixth",
)
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
    by_name = families()
    if wording in SPLITS:
        return tuple(name for name, family in by_name.items() if family["split"] == wording)
    if wording not in by_name:
        raise UserError(
            f"no wording '{wording}': {TEMPLATE}, a split ({', '.join(SPLITS)}) or a family "
            f"({', '.join(by_name)})"
        )
    return (wording,)


def reworded(
    goals: Sequence[Mapping[str, Any]], products: Mapping[str, Product], wording: str, seed: int = 0
) -> list[dict[str, Any]]:
    """Return ``goals`` in the words of ``wording``; the families of a split take turns, shuffled."""
    names = names_of(wording)
    if not names:
        return [dict(goal) for goal in goals]
    rng = random.Random(f"{seed} {wording}")
    return [
        reword(goal, products[goal["asin"]], rng.choice(names), f"{seed} {i}")
        for i, goal in enumerate(goals)
    ]


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
    worded = {name: _value(rules, product, name, value, rng) for name, value in options.items()}
    limit = float(goal["price_upper"])
    slots = {
        "kind": goal["query"],
        "attributes": _joined(attributes, rng),
        "values": _joined([text for text, _ in worded.values()], rng),
        "limit": _limit(rng.choice(rules["limit"]), limit) if limit < NO_LIMIT else "",
    }
    text = _filled(rules["patterns"][number], slots)
    if "change" in rules:
        text = changed(text, rules["change"], rng)
    return {
        **goal,
        "instruction_text": text,
        "attributes": attributes,
        "goal_options": options,
        "excluded": {name: other for name, (_, other) in worded.items() if other},
    }


def _filled(pattern: str, slots: Mapping[str, str]) -> str:
    """Fill the slots; a bracket with an empty slot goes, punctuation that is left over is mended."""
    # Values may hold brackets and braces themselves, so slots are filled last, in one pass.
    filled = _PART.sub(
        lambda part: part[1] if all(slots[s] for s in _SLOT.findall(part[1])) else "", pattern
    )
    text = _SLOT.sub(lambda slot: slots[slot[1]], filled)
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
    words = {"value": str(value), "name": name, "other": other}
    text = _SLOT.sub(lambda slot: words[slot[1]], form)
    return text, other if "{other}" in form else ""


def _limit(form: str, limit: float) -> str:
    whole = round(limit)
    low = max(whole - _GAP, 1)
    ends = {"n": str(whole), "cents": f"{limit:.2f}", "words": _in_words(whole), "low": str(low)}
    return _SLOT.sub(lambda slot: ends[slot[1]], form)


# What families do to a whole text ------------------------------------------------------------

_WORDS = {0: "zero"} | {value: word for word, value in CARDINALS.items()}
_SLIPS = 0.22  # share of longer words that are mistyped
_KEYS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_PLAIN = re.compile(r"[A-Za-z]{4,}")


def _in_words(number: int) -> str:
    """Return ``number`` (0 to 999) in English words, larger ones in digits."""
    if number in _WORDS:
        return _WORDS[number]
    if number < 100:
        tens, ones = divmod(number, 10)
        return f"{_WORDS[10 * tens]}-{_WORDS[ones]}"
    if number < 1000:
        hundreds, remainder = divmod(number, 100)
        return f"{_WORDS[hundreds]} hundred" + (f" and {_in_words(remainder)}" if remainder else "")
    return str(number)


def mistyped(text: str, rng: random.Random) -> str:
    """Return ``text`` with slips in its longer words; words with digits stay."""

    def slip(match: re.Match[str]) -> str:
        word = match[0]
        if rng.random() >= _SLIPS:
            return word
        i = rng.randrange(1, len(word) - 1)
        kind = rng.randrange(4)
        if kind == 0:  # two letters change places
            return word[:i] + word[i + 1] + word[i] + word[i + 2 :]
        if kind == 1:  # one is left out
            return word[:i] + word[i + 1 :]
        if kind == 2:  # one is typed twice
            return word[:i] + word[i] + word[i:]
        return word[:i] + _neighbour_key(word[i], rng) + word[i + 1 :]

    return _PLAIN.sub(slip, text)


def _neighbour_key(letter: str, rng: random.Random) -> str:
    row = next((keys for keys in _KEYS if letter.lower() in keys), "")
    i = row.find(letter.lower())
    neighbours = [row[j] for j in (i - 1, i + 1) if 0 <= j < len(row)] or [letter]
    return rng.choice(neighbours)


@cache
def _tables() -> Mapping[str, Any]:
    """Return other spellings of units, and the synonyms of each family that uses some."""
    tables: Mapping[str, Any] = yaml.safe_load(
        Path(__file__).with_name("changes.yaml").read_text("utf-8")
    )
    return tables


def changed(text: str, change: str, rng: random.Random) -> str:
    """Return ``text`` with typing mistakes, other units, small letters or synonyms."""
    if change == "typos":
        return mistyped(text, rng)
    if change == "lower":
        return text.lower()
    if change == "units":
        for pattern, *others in _tables()["units"]:
            text = re.sub(pattern, lambda m, o=others: m.expand(rng.choice(o)), text, flags=re.I)  # type: ignore[misc]
        return text
    words = _tables()[change]
    longest = "|".join(sorted(map(re.escape, words), key=len, reverse=True))
    return re.sub(rf"\b({longest})(?![\w'])", lambda m: words[m[1].lower()], text, flags=re.I)
