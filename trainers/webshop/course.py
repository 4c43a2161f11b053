"""The WebShop course of the policy: training goals, lookalike products beside them, and a teacher.

**Teacher.** A product is *right* if no other that the searches show would be worth more. Two teach
together: the ``rule`` actor, which reads the whole page, says how to go about it; who knows the right
products adds what finds or opens them, and that they may be taken at first sight. (A verdict against a
product by who knows made the policy leave right ones: 27 of 154 held out, where ``rule`` leaves 7.)

**Lookalikes.** Real training products hold few that compete. One is made of a product and one of its
kin: some words of its title and some of its bullets go, some of the kin's come, values of options and
the price change. What it offers is then read off its own texts. No product of a test goal is used, and
what is made of products on one side of a split stays there.
"""

import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache

from stategate.envs.protocols import Observation, Session, World
from stategate.envs.webshop import WebShop
from stategate.envs.webshop.catalogue import Product
from stategate.envs.webshop.pages import PER_PAGE, SEARCH
from stategate.envs.webshop.reward import has_attribute, score, type_parts
from stategate.envs.webshop.view import OPENED
from stategate.language.instruction.aligned import AlignedInstruction
from stategate.nodes.act.page_features import texts_of
from stategate.nodes.act.shop.rule import Rule, RuleActor
from stategate.nodes.build_context.baselines import Full
from stategate.nodes.observe.webshop import WebShopEnv
from stategate.nodes.protocols import (
    BuiltContext,
    ContextBuilder,
    ContextRequest,
    Embedder,
    WorldProfile,
)
from stategate.nodes.resources import Resources
from stategate.nodes.retrieval.page import PageSource
from stategate.stores.traces import Event
from stategate.trainers.episodes import Course
from stategate.trainers.webshop.goals import (
    MODES,
    Practice,
    draw,
    load_shop,
    make_goal,
    practice,
    reword,
)

_PAGES = 3  # pages of a search that are looked at
_ROOM = 4000  # tokens of what the rule reads


def good_actions(
    world: World,
    session: Session,
    past: Sequence[tuple[str, str]],
    page: Observation,
    events: Sequence[Event] = (),
) -> Sequence[str]:
    """Return the optimal actions at this page; none where there is no good one."""
    assert isinstance(world, WebShop)  # noqa: S101 - the course's worlds are
    step = len(past) - 1
    whole = _whole(world, session, page, events)
    own = _rule(Rule())(whole, step).action
    if session["page"] in ("search", "results"):
        return [own, *_oracle_actions(world, session, page)]
    if session["page"] == "item" and _is_right(world, session):
        return [own, _rule(Rule(threshold=0))(whole, step).action]
    return [own]


@lru_cache(maxsize=2)
def _rule(params: Rule) -> RuleActor:
    return RuleActor(params)


def _is_right(world: WebShop, session: Session) -> bool:
    number = int(session["goal"])
    text = str(world.goals[number]["instruction_text"])
    return _worth(world, number, session["asin"]) >= _best(world, number, text)


@lru_cache(maxsize=1)
def _reading() -> tuple[ContextBuilder, WorldProfile]:
    resources = Resources(env=WebShopEnv())
    return Full().build(resources), resources.profile


def _whole(
    world: WebShop, session: Session, page: Observation, events: Sequence[Event]
) -> BuiltContext:
    build, profile = _reading()
    source = PageSource(profile.view, page, _no_embedder)
    context: BuiltContext = build(
        ContextRequest(
            world.instruction(session), page, source, tuple(events), _ROOM, None, profile
        )
    )
    return context


def _no_embedder() -> Embedder:
    raise AssertionError("a whole page is not searched")


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


_WORDS, _BULLETS, _VALUES = 0.75, 0.6, 0.6  # shares of a product's own that are kept
_TAKEN = 0.3  # of the kin's words and bullets
_GOALS = 4  # goals for an invented product
_PRICE = (0.6, 1.7)
_PAGE = 10


def with_lookalikes(plan: Practice, seed: int, wording: str, exam: str) -> Practice:
    """Return ``plan`` with one invented product for each that offers something to choose."""
    world = plan.world
    sides = {
        "train": {world.goals[i]["asin"] for i in plan.training},
        "held": {world.goals[i]["asin"] for i in (*plan.heldout, *plan.made_heldout)},
    }
    more: dict[str, list[Product]] = {}
    number = 0
    for side, asins in sides.items():
        own = [world.products[asin] for asin in sorted(asins) if world.products[asin].options]
        more[side] = []
        for base in own:
            rng = random.Random(f"{seed} {side} {base.asin}")
            number += 1
            if lookalike := invent(base, own, f"BX{number:08d}", rng):
                more[side].append(lookalike)
    shop = world.stocked([product for own in more.values() for product in own])
    added: dict[str, list[int]] = {"train": [], "held": []}
    for side, own in more.items():
        for product in own:
            rng = random.Random(f"{seed} goals {product.asin}")
            for _ in range(_GOALS):
                added[side].append(len(shop.goals))
                shop.goals.append(make_goal(product, shop.prices[product.asin], rng))
    for goals, words in ((added["train"], wording), (added["held"], exam)):
        reword(shop, goals, words, seed, random.Random(f"{seed} {words}"))
    return Practice(
        shop, (*plan.training, *added["train"]), plan.heldout, (*plan.made_heldout, *added["held"])
    )


def invent(
    base: Product, others: Sequence[Product], asin: str, rng: random.Random
) -> Product | None:
    """Return a variant of ``base`` with a trait of a similar product; None where none is valid."""
    kin = [p for p in others if p.asin != base.asin and set(p.options) & set(base.options)]
    relatives = [p for p in kin if p.query == base.query] or [
        p for p in kin if p.category == base.category
    ]
    other = rng.choice(relatives) if relatives else base
    words = [w for w in base.name.split() if rng.random() < _WORDS]
    words += [w for w in other.name.split() if rng.random() < _TAKEN / 2]
    bullets = tuple(b for b in base.bullets if rng.random() < _BULLETS)
    bullets += tuple(b for b in other.bullets if rng.random() < _TAKEN)
    options: dict[str, tuple[str, ...]] = {}
    for name, values in base.options.items():
        own = _some(values, _VALUES, rng)
        theirs = _some(other.options.get(name, ()), _TAKEN, rng)
        pool = dict.fromkeys((*own, *theirs))
        options[name] = tuple(pool)
    price = round(max(base.prices[0] * rng.uniform(*_PRICE), 1.0), 2)
    product = replace(
        base,
        asin=asin,
        name=" ".join(dict.fromkeys(words)) or base.name,
        bullets=bullets,
        description=base.description if rng.random() < _BULLETS else "",
        attributes=(),
        prices=(price,),
        price_tag=f"${price}",
        options=options,
    )
    had = dict.fromkeys((*base.attributes, *other.attributes))
    attributes = tuple(a for a in had if a != "DUMMY_ATTR" and has_attribute(product, a))
    return replace(product, attributes=attributes) if attributes else None


def _some(values: Iterable[str], share: float, rng: random.Random) -> list[str]:
    own = list(values)
    count = sum(rng.random() < share for _ in own)
    picked = set(rng.sample(own, max(count, 1))) if own else set()
    return [value for value in own if value in picked]


def weight(world: WebShop, number: int) -> int:
    """Return how often to practise a goal: the more options and the more look-alikes, the oftener.

    A look-alike is a product of its type on the first page of a search for its kind and properties.
    """
    goal = world.goals[number]
    query = re.sub(r"[\[\]<>]", " ", " ".join((goal["query"], *goal["attributes"])))
    rivals = sum(
        type_parts(world.products[asin], goal)["r_type"] == 1
        for asin in world.search(query, _PAGE)
        if asin != goal["asin"]
    )
    options = len(goal["goal_options"])
    return 1 + options * (1 + int(rivals) // 3)


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
        mode: with_lookalikes(
            practice(load_shop(data, mode), seed, "train", "develop"), seed, "train", "develop"
        )
        for mode in sorted(MODES)
    }
    plan = plans[MODES[0]]
    developing = plan.world.ranges["developing"]
    shown_goals = draw(developing, min(_SHOWN, len(developing)), seed, plan.world)
    for one in plans.values():
        reword(one.world, shown_goals, "develop", seed)
    return Course(
        WebShopEnv(),
        plan.world.catalogue.fingerprint,
        {mode: one.world for mode, one in plans.items()},
        [
            {"goal": goal}
            for goal in plan.training
            for _ in range(weight(plan.world, goal))  # the harder, the oftener
        ],
        [{"goal": goal} for goal in (*plan.heldout, *plan.made_heldout, *shown_goals)],
        good_actions,
        _ACTORS,
        lambda task: plan.world.group_of(task["goal"]),
    )
