"""The reward of a purchase, part by part, as the WebShop paper defines and its code computes it.

Titles are compared by their nouns (NOUN and PROPN of en_core_web_sm 3.8.0). Parsing takes milliseconds
and importing spaCy seconds: the nouns of the sample's titles ship.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from stategate.envs.webshop.catalogue import SAMPLE, Product
from stategate.stores.assets.fetch import asset_path
from stategate.stores.files import parse_json


@lru_cache(maxsize=1 << 16)
def nouns(title: str) -> tuple[str, ...]:
    """Return the nouns of ``title`` in lower case, in order, with repeats."""
    shipped = _sample_nouns().get(title)
    tokens = _parser()(title) if shipped is None else ()
    parsed = (token.text.lower() for token in tokens if token.pos_ in ("NOUN", "PROPN"))
    return tuple(parsed if shipped is None else shipped)


@lru_cache(maxsize=1)
def _sample_nouns() -> dict[str, list[str]]:
    nouns_by_title: dict[str, list[str]] = parse_json((SAMPLE / "nouns.json").read_bytes())
    return nouns_by_title


@lru_cache(maxsize=1)
def _parser() -> Any:
    import spacy

    return spacy.load(asset_path("en_core_web_sm"))


#: The colour words of the original's normalisation, in its order (the first that occurs wins).
COLORS = Path(__file__).with_name("colors.txt").read_text("utf-8").split()
#: The original's comparison drops these characters, so that "café" is "caf".
_LATIN_1 = dict.fromkeys(range(128, 256))


def score(
    bought: Product, goal: Mapping[str, Any], price: float, options: Mapping[str, str]
) -> tuple[float, dict[str, Any]]:
    """Return the reward in [0, 1] and its parts (``r_type``, ``r_att``, …, with their weights)."""
    kind = type_parts(bought, goal)
    attributes: Sequence[str] = goal["attributes"]
    matched = sum(has_attribute(bought, attribute) for attribute in attributes)
    named = goal["goal_options"]
    pairs = named.items() if isinstance(named, Mapping) else named
    targets = [normal_color(tuple(o) if isinstance(o, list | tuple) else o) for o in pairs]
    chosen = [normal_color(value) for value in options.values()]
    matched_options = sum(
        any(_ratio(value, str(want)) > 85 for value in chosen) for want in targets
    )
    affordable = price <= goal["price_upper"]
    total = len(attributes) + len(named) + 1
    reward = (matched + matched_options + affordable) / total * kind["r_type"]
    parts = {**kind, "r_att": matched / len(attributes), "w_att": len(attributes) / total}
    if targets:
        parts |= {"r_option": matched_options / len(targets), "w_option": len(targets) / total}
    return reward, {**parts, "r_price": affordable, "w_price": 1 / total}


#: Why a purchase for somebody's own words has no reward.
UNSCORED = (
    "what was asked for in your own words is no task of the catalogue: no list says which product, "
    "options and price would have been right, so nobody can score it"
)


def outcome(
    bought: Product,
    options: Mapping[str, str],
    goal: Mapping[str, Any] | None,
    parts: Mapping[str, Any],
) -> dict[str, Any]:
    """Return a purchase for people's eyes: the reward's parts, and bought beside wanted.

    A part without a weight is a factor of the whole reward.
    """
    named = [("attributes", "att"), ("options", "option"), ("price", "price"), ("type", "type")]
    factors = [
        {"name": name, "value": parts[f"r_{key}"], "weight": parts.get(f"w_{key}")}
        for name, key in named
        if f"r_{key}" in parts
    ]
    own = {"name": "Bought", "title": bought.name, "amount": bought.price_tag}
    cards = [{**own, "facts": _pairs(options)}]
    if goal is not None:
        limit = f"below ${goal['price_upper']:.2f}"
        other = {"name": "Wanted", "title": goal["name"], "amount": limit}
        facts, tags = _pairs(goal["goal_options"]), list(goal["attributes"])
        cards.append({**other, "facts": facts, "tags": tags})
    whole: dict[str, Any] = {"parts": factors, "cards": cards}
    if goal is None:
        whole["unscored"] = UNSCORED
    return whole


def _pairs(options: Any) -> list[str]:
    is_named = isinstance(options, Mapping)
    return [f"{k}: {v}" for k, v in options.items()] if is_named else [str(o) for o in options]


def type_parts(bought: Product, goal: Mapping[str, Any]) -> dict[str, Any]:
    """Say how far the bought product is of the wanted type, by query, category and title nouns."""
    query_match = bought.query == goal["query"]
    shared = _categories(bought.product_category) & _categories(goal["product_category"])
    category_match = len(shared) >= 2
    goal_nouns = nouns(goal["name"])
    common = set(nouns(bought.name)) & set(goal_nouns)
    title_score = len(common) / len(goal_nouns) if goal_nouns else 0.2
    if title_score < 0.1:
        r_type = 0.1 if title_score else 0.0
    else:
        r_type = 1.0 if query_match or category_match or title_score > 0.2 else 0.5
    matches = {"query_match": query_match, "category_match": category_match}
    return {"r_type": r_type, **matches, "title_score": title_score}


def has_attribute(product: Product, attribute: str) -> bool:
    """Say whether ``product`` has ``attribute``: among its own, or in its words."""
    return (
        any(_ratio(own, attribute) > 85 for own in product.attributes)
        or attribute in product.name.lower()
        or attribute in " ".join(product.bullets).lower()
        or attribute in product.description.lower()
    )


def normal_color(value: Any) -> Any:
    """Return the first colour word in ``value``, or ``value``.

    In synthetic goals an option is a (name, value) pair, in which only an exact element counts as
    "in": the original has this quirk, and published scores contain it.
    """
    return next((color for color in COLORS if color in value), value)


@lru_cache(maxsize=1 << 16)
def _ratio(first: str, second: str) -> int:
    """Return what ``thefuzz.fuzz.token_set_ratio`` does: 0 to 100, letters of Latin-1 left out."""
    from rapidfuzz import fuzz, utils

    plain = (utils.default_process(text.translate(_LATIN_1)) for text in (first, second))
    return round(fuzz.token_set_ratio(*plain))


def _categories(path: str) -> set[str]:
    return {part.strip() for part in path.split("›")}
