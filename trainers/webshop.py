"""The WebShop course: its split of goals, goals made for training, and a teacher.

**Goals.** Those from 0 to 499 are for live tests and are never played to learn from; training uses only
products that no goal below 1500 uses. On a catalogue with fewer goals the bounds shrink in proportion.
The real training goals sit on products with few goals, because those have few options. So goals with
options are made, in the shop's own form, for all products that no goal below the first training goal
names, the more the more options they have: some of the product's attributes, further properties that
its texts say, its kind, a value of each option and a price limit.

**Teacher.** A product is *right* if no other that the searches show would be worth more. Two teach
together: the ``rule`` actor, which reads the whole page, says how to go about it; who knows the right
products adds what finds or opens them, and that they may be taken at first sight. (A verdict against a
product by who knows made the policy leave right ones: 27 of 154 held out, where ``rule`` leaves 7.)
"""

import copy
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from stategate.envs.webshop import WebShop
from stategate.envs.webshop.catalogue import Product
from stategate.envs.webshop.goals import draw_limit, goal_of
from stategate.envs.webshop.pages import PER_PAGE
from stategate.envs.webshop.reward import score
from stategate.envs.webshop.view import OPENED
from stategate.envs.webshop.wordings import TEMPLATE, reworded
from stategate.language.instruction.aligned import AlignedInstruction
from stategate.nodes.act.page_features import texts_of
from stategate.nodes.act.shop.rule import Rule
from stategate.nodes.build_context.baselines import Full
from stategate.nodes.observe.webshop import WebShopEnv
from stategate.nodes.resources import Resources
from stategate.stores.errors import UserError
from stategate.trainers.episodes import Course, Walk

_PLAIN = 0.15  # share of goals that keep the template's words
_HELD_OUT = 0.4  # share of the training goals' products
_GOAL_COUNTS = (1, 4, 12)  # goals that are made for a product without options, with one, with more
_FURTHER = 4  # properties at most that are asked beside a product's listed ones
_JOINTS = (("", " with ", " for "), ("", " with "), ("", " for "), (" with ",), (" for ",), ("",))


@dataclass(frozen=True)
class Practice:
    """``world`` has the made goals after its own; the lists hold goal numbers, by product apart."""

    world: WebShop
    training: Sequence[int]
    heldout: Sequence[int]


def practice(
    shop: WebShop, seed: int = 0, wording: str = TEMPLATE, exam: str = TEMPLATE
) -> Practice:
    """Split the training goals of ``shop`` by product, two fifths held out; add made goals.

    A product gets up to twelve of them (one where it has no options). Training goals are said in the
    wordings ``wording``, those held out in ``exam``; some stay as the template says them.
    """
    rng = random.Random(seed)
    real = shop.training
    if not real:
        raise UserError("every product is used by a test goal: no product is left to train on")
    products = sorted({shop.goals[i]["asin"] for i in real})
    rng.shuffle(products)
    held_out = set(products[: max(1, round(_HELD_OUT * len(products)))])
    training = [i for i in real if shop.goals[i]["asin"] not in held_out]
    heldout = [i for i in real if shop.goals[i]["asin"] in held_out]
    world = copy.copy(shop)
    world.goals = list(shop.goals)
    tested = {goal["asin"] for goal in shop.goals} - set(products)
    untested = [p for p in shop.products.values() if p.asin not in tested]
    listed = Counter(text for product in untested for text in product.attributes)
    properties = sorted(text for text, n in listed.items() if n > 1 and text != "DUMMY_ATTR")
    for product in untested:
        if not product.query or product.attributes in ((), ("DUMMY_ATTR",)):
            continue
        is_held = (
            rng.random() < _HELD_OUT / 2
            if product.asin not in products
            else product.asin in held_out
        )
        side = heldout if is_held else training
        texts = [text.lower() for text in (product.name, *product.bullets, product.description)]
        stated = [
            text
            for text in properties
            if text not in product.attributes and any(text in part for part in texts)
        ]
        for number in range(_GOAL_COUNTS[min(len(product.options), 2)]):
            goal_rng = random.Random(f"{seed} {product.asin} {number}")
            also = goal_rng.sample(stated, min(len(stated), goal_rng.randint(0, _FURTHER)))
            side.append(len(world.goals))
            world.goals.append(make_goal(product, shop.prices[product.asin], rng, also))
    for words, goals in ((wording, training), (exam, heldout)):
        worded = [i for i in goals if rng.random() >= _PLAIN]
        said = reworded([world.goals[i] for i in worded], world.products, words, seed)
        for i, goal in zip(worded, said, strict=True):
            world.goals[i] = goal
    return Practice(world, training, heldout)


def make_goal(
    product: Product, price: float, rng: random.Random, also: Sequence[str] = ()
) -> dict[str, Any]:
    """Return a goal for ``product`` as ``envs.webshop.goals`` forms it, with attributes ``also``."""
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
    limit, limit_text = draw_limit(price, rng)
    text += f"{' with ' + described if described else ''}{limit_text}"
    return goal_of(product, text, attributes, limit, options)


# The teacher

_PAGES = 3  # pages of a search that the teacher knows
_WHOLE = Full(budget=4000)  # what the rule reads
_RULE, _EAGER = Rule(), Rule(threshold=0)


def good_actions(walk: Walk) -> Sequence[str]:
    """Return the optimal actions where ``walk`` stands."""
    world, session = walk.world, walk.session
    assert isinstance(world, WebShop)  # noqa: S101 - the course's worlds are
    context, goal = walk.look(_WHOLE), int(session["goal"])
    rule_action = _RULE(context, walk.step).action
    best = _best_reward(world, goal, walk.instruction)
    if session["page"] == "search":
        queries = _queries(walk.instruction)
        pages = {query: _first_page(world, goal, walk.instruction, query) for query in queries}
        first = min(pages.values(), default=0)
        return [rule_action, *(f"search[{query}]" for query in queries if pages[query] == first)]
    if session["page"] == "results":
        opened = {action: OPENED.fullmatch(action) for action in walk.page.actions}
        asins = {action: match[1].upper() for action, match in opened.items() if match}
        right = (a for a, asin in asins.items() if _reward(world, goal, asin) >= best)
        return [rule_action, *right]
    if session["page"] == "item" and _reward(world, goal, session["asin"]) >= best:
        return [rule_action, _EAGER(context, walk.step).action]
    return [rule_action]


@lru_cache(maxsize=4096)
def _queries(instruction: str) -> tuple[str, ...]:
    return tuple(texts_of(AlignedInstruction.of(instruction)))


@lru_cache(maxsize=1 << 16)
def _reward(world: WebShop, goal_number: int, asin: str) -> float:
    """Return the reward of buying a product with the asked values that it offers."""
    goal, product = world.goals[goal_number], world.products[asin]
    target_values = {k.lower(): str(v).lower() for k, v in dict(goal["goal_options"]).items()}
    chosen = {
        name: target_values[name.lower()]
        for name, values in product.options.items()
        if target_values.get(name.lower()) in {str(v).lower() for v in values}
    }
    return score(product, goal, world.prices[asin], chosen)[0]


@lru_cache(maxsize=4096)
def _best_reward(world: WebShop, goal: int, instruction: str) -> float:
    """Return the highest reward among the products on the first pages of the searches."""
    queries = _queries(instruction)[:3]
    hits = {asin for query in queries for asin in world.search(query, PER_PAGE * _PAGES)}
    return max((_reward(world, goal, asin) for asin in hits), default=0.0)


@lru_cache(maxsize=1 << 14)
def _first_page(world: WebShop, goal: int, instruction: str, query: str) -> int:
    """Return the page, counted from 0, on which a search first shows a right product."""
    best = _best_reward(world, goal, instruction)
    hits = world.search(query, PER_PAGE * _PAGES)
    ranks = (rank for rank, asin in enumerate(hits) if _reward(world, goal, asin) >= best)
    return next(ranks, PER_PAGE * _PAGES) // PER_PAGE


_ACTORS = (
    "rule",
    "rule:threshold=0",
    "rule:threshold=1.0,pages=4",
    "rule:search=search_kind",
    "noisy",
)


def course(data: str, seed: int) -> Course:
    """Return the goals of training products; held out are real and made ones of other products."""
    shop = WebShopEnv(data=data, observation="rich").build(Resources())
    plan = practice(shop, seed, "train", "develop")
    rich, text = plan.world, copy.copy(plan.world)
    text.observation = "text"
    return Course(
        WebShopEnv(),
        {"rich": rich, "text": text},
        [{"goal": goal} for goal in plan.training],
        [{"goal": goal} for goal in plan.heldout],
        good_actions,
        _ACTORS,
        lambda task: rich.group_of(task["goal"]),
    )
