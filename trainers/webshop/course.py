"""The WebShop course: practice goals, and a teacher.

**Teacher.** A product is *right* if no other that the searches show would be worth more. Two teach
together: the ``rule`` actor, which reads the whole page, says how to go about it; who knows the right
products adds what finds or opens them, and that they may be taken at first sight. (A verdict against a
product by who knows made the policy leave right ones: 27 of 154 held out, where ``rule`` leaves 7.)
"""

import random
from collections.abc import Sequence
from functools import lru_cache

from stategate.envs.protocols import Observation, Session
from stategate.envs.webshop import WebShop
from stategate.envs.webshop.pages import PER_PAGE, SEARCH
from stategate.envs.webshop.reward import score
from stategate.envs.webshop.view import OPENED
from stategate.language.instruction.aligned import AlignedInstruction
from stategate.nodes.act.page_features import texts_of
from stategate.nodes.act.shop.rule import Rule, RuleActor
from stategate.nodes.build_context.baselines import Full
from stategate.nodes.observe.webshop import WebShopEnv
from stategate.trainers.episodes import Course, Reader, Walk
from stategate.trainers.webshop.goals import MODES, load_shop, practice, reword

_PAGES = 3  # pages of a search that are looked at
_WHOLE = Reader(Full(), 4000)  # what the rule reads
_RULE, _EAGER = RuleActor(Rule()), RuleActor(Rule(threshold=0))


def good_actions(walk: Walk) -> Sequence[str]:
    """Return the optimal actions where ``walk`` stands."""
    world, session = walk.world, walk.session
    assert isinstance(world, WebShop)  # noqa: S101 - the course's worlds are
    step, whole = walk.step, walk.look(_WHOLE)
    own = _RULE(whole, step).action
    if session["page"] in ("search", "results"):
        return [own, *_oracle_actions(world, session, walk.page)]
    if session["page"] == "item" and _is_right(world, session):
        return [own, _EAGER(whole, step).action]
    return [own]


def _is_right(world: WebShop, session: Session) -> bool:
    number = int(session["goal"])
    text = str(world.goals[number]["instruction_text"])
    return _worth(world, number, session["asin"]) >= _best(world, number, text)


def _oracle_actions(world: WebShop, session: Session, page: Observation) -> list[str]:
    """Return the searches and products that an oracle of the right products would choose."""
    number = int(session["goal"])
    text = str(world.goals[number]["instruction_text"])
    if SEARCH in page.actions:
        ranks = {query: _first(world, number, text, query) for query in _searches(text)}
        first = min(ranks.values(), default=0)
        return [f"search[{query}]" for query, rank in ranks.items() if rank == first]
    best = _best(world, number, text)
    return [
        action
        for action in page.actions
        if (match := OPENED.fullmatch(action)) and _worth(world, number, match[1].upper()) >= best
    ]


@lru_cache(maxsize=4096)
def _searches(text: str) -> tuple[str, ...]:
    return tuple(texts_of(AlignedInstruction.of(text)))


@lru_cache(maxsize=1 << 16)
def _worth(world: WebShop, number: int, asin: str) -> float:
    """Return the reward of buying a product with the asked values that it offers."""
    goal, product = world.goals[number], world.products[asin]
    target_values = {k.lower(): str(v).lower() for k, v in dict(goal["goal_options"]).items()}
    chosen = {
        name: target_values[name.lower()]
        for name, values in product.options.items()
        if target_values.get(name.lower()) in {str(v).lower() for v in values}
    }
    return score(product, goal, world.prices[asin], chosen)[0]


@lru_cache(maxsize=4096)
def _best(world: WebShop, number: int, text: str) -> float:
    """Return the most that any product is worth which the first pages of the searches show."""
    hits = {a for query in _searches(text)[:3] for a in world.search(query, PER_PAGE * _PAGES)}
    return max((_worth(world, number, asin) for asin in hits), default=0.0)


@lru_cache(maxsize=1 << 14)
def _first(world: WebShop, number: int, text: str, query: str) -> int:
    """Return the page on which a search first shows a right product, counted from 0."""
    best = _best(world, number, text)
    hits = world.search(query, PER_PAGE * _PAGES)
    places = (i for i, asin in enumerate(hits) if _worth(world, number, asin) >= best)
    return next(places, PER_PAGE * _PAGES) // PER_PAGE


_SHOWN = 110  # goals to develop with
_ACTORS = (
    "rule",
    "rule:threshold=0",
    "rule:threshold=1.0,pages=4",
    "rule:search=search_kind",
    "noisy",
)


def course(data: str, seed: int) -> Course:
    """Return the goals of training products.

    Held out are real and made ones of other products, and goals to develop with, whose products have
    many look-alikes.
    """
    plans = {
        mode: practice(load_shop(data, mode), seed, "train", "develop") for mode in sorted(MODES)
    }
    plan = plans[MODES[0]]
    developing = plan.world.ranges["developing"]
    shown_goals = random.Random(seed).sample(developing, min(_SHOWN, len(developing)))
    for one in plans.values():
        reword(one.world, shown_goals, "develop", seed)
    return Course(
        WebShopEnv(),
        {mode: one.world for mode, one in plans.items()},
        [{"goal": goal} for goal in plan.training],
        [{"goal": goal} for goal in (*plan.heldout, *plan.made_heldout, *shown_goals)],
        good_actions,
        _ACTORS,
        lambda task: plan.world.group_of(task["goal"]),
    )
