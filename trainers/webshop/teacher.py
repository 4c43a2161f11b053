"""What a good shopper who also knows which products are right would do on any page of the policy's.

A product is *right* if no other that the searches show would be worth more. Two teach together. The
``rule`` actor, which reads the whole page and all that is noted, says how to go about it: what to
read, when to turn, what to settle for. Who knows the right products adds them where a list shows some,
and has the last word on a verdict: what ``rule`` would buy though it is wrong is left while there is
time, what it would leave though it is right is taken. So what is learned is how likely a product is
right by what can be read, and what is best done about it.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from envs.protocols import Observation, Session, View, World
from envs.webshop import WebShop
from envs.webshop.actions import BACK, BUY, FEATURES, NEXT, OPENED, PREV
from envs.webshop.pages import PER_PAGE, SEARCH
from envs.webshop.reward import score
from envs.webshop.wanted import Wanted
from nodes.act.shop.candidates import queries
from nodes.act.shop.rule import Rule, RuleActor
from nodes.build_context.baselines import Full
from nodes.observe.webshop import WebShopEnv
from nodes.protocols import BuiltContext, ContextRequest
from nodes.resources import Resources
from nodes.retrieval.page import PageSource
from stores.text import one_line
from stores.traces import Event

_PAGES = 3  # pages of a search that are looked at
_ROOM = 4000  # tokens of what the rule reads
_STEPS = 20  # an episode's
_TOLD = 0.95  # share of what is asked from which a title says it all


def good_actions(
    world: World, session: Session, past: Sequence[tuple[str, str]], page: Observation,
    events: Sequence[Event] = (),
) -> Sequence[str]:  # fmt: skip
    """Return the actions that are as good as any; none where nothing is."""
    assert isinstance(world, WebShop)  # noqa: S101 - the course's worlds are
    step = len(past) - 1
    known = _known(world, session, past, page)
    own = _rule()(_whole(world, session, page, events), step).action
    if session["page"] in ("search", "results"):
        return [own, *known]
    asin = str(session["asin"])
    is_right = _worth(world, int(session["goal"]), asin) >= _best_of(world, session)
    if session["page"] == "sub":
        return [PREV] if is_right else [own]
    return known if (own == PREV) == is_right else [own]


@lru_cache(maxsize=1)
def _rule() -> RuleActor:
    return RuleActor(Rule())


@lru_cache(maxsize=1)
def _reading() -> tuple[Any, View]:
    resources = Resources(env=WebShopEnv())
    return Full().build(resources), resources.view


def _whole(
    world: WebShop, session: Session, page: Observation, events: Sequence[Event]
) -> BuiltContext:
    build, view = _reading()
    source = PageSource(view, page, _no_embedder)
    context: BuiltContext = build(
        ContextRequest(world.instruction(session), page, source, tuple(events), _ROOM, None, view)
    )
    return context


def _no_embedder() -> Any:
    raise AssertionError("a whole page is not searched")


def _best_of(world: WebShop, session: Session) -> float:
    number = int(session["goal"])
    return _best(world, number, str(world.goals[number]["instruction_text"]))


def _known(
    world: WebShop, session: Session, past: Sequence[tuple[str, str]], page: Observation
) -> list[str]:
    """Return what who knows the right products would do."""
    number, step = int(session["goal"]), len(past) - 1
    goal = world.goals[number]
    text = str(goal["instruction_text"])
    if SEARCH in page.actions:
        ranks = {query: _first(world, number, text, query) for query in _searches(text)}
        best = min(ranks.values(), default=0)
        return [f"search[{query}]" for query, rank in ranks.items() if rank == best]
    if session["page"] == "results":
        return _on_results(world, number, text, session, step, page)
    asin = str(session["asin"])
    if session["page"] == "sub":
        return [PREV]
    is_right = _worth(world, number, asin) >= _best(world, number, text)
    left, finish = _STEPS - step, _finish(goal)
    actions = [action for action, _ in past]
    opened = max((i for i, a in enumerate(actions) if OPENED.fullmatch(a)), default=0)
    is_read = FEATURES in actions[opened:]
    if not is_right and left > finish:
        reads = _offers(world, goal, asin) and not is_read and left > finish + 2
        return [PREV, FEATURES] if reads else [PREV]
    choices = _choices(world, goal, asin, session, page)
    if is_read or left <= finish + 1 or any(session["options"]):
        return choices or [BUY]
    told = Wanted.of(text).share(world.products[asin].name) >= _TOLD
    return [FEATURES, *(choices or [BUY])] if told else [FEATURES]


def _on_results(
    world: WebShop, number: int, text: str, session: Session, step: int, page: Observation
) -> list[str]:
    listed = [found[1].upper() for a in page.actions if (found := OPENED.fullmatch(a))]
    worth = {asin: _worth(world, number, asin) for asin in listed}
    best = _best(world, number, text)
    right = [asin for asin in listed if worth[asin] >= best]
    if not right and _STEPS - step <= _finish(world.goals[number]) + 1 and worth:
        right = [asin for asin in listed if worth[asin] == max(worth.values())]
    if right:
        return [f"click[{asin.lower()}]" for asin in right]
    later = world.search(" ".join(session["keywords"]), PER_PAGE * _PAGES)
    if any(_worth(world, number, a) >= best for a in later[session["number"] * PER_PAGE :]):
        return [NEXT]
    return [BACK]


def _finish(goal: Mapping[str, Any]) -> int:
    """Return how many steps it takes to open a product, choose what is asked and buy."""
    return 2 + len(goal["goal_options"])


def _choices(
    world: WebShop, goal: Mapping[str, Any], asin: str, session: Session, page: Observation
) -> list[str]:
    """Return the clicks on asked values that are offered and not chosen."""
    wanted = {k.lower(): str(v).lower() for k, v in dict(goal["goal_options"]).items()}
    clicks = []
    for group in world.products[asin].options:
        value = wanted.get(group.lower())
        if value is None or session["options"].get(group) == value:
            continue
        clicks += [a for a in page.actions if one_line(a) == one_line(f"click[{value}]")]
    return clicks


def _offers(world: WebShop, goal: Mapping[str, Any], asin: str) -> bool:
    """Say whether a product offers every value that is asked."""
    offered = {
        name.lower(): {str(v).lower() for v in values}
        for name, values in world.products[asin].options.items()
    }
    wanted = dict(goal["goal_options"])
    return all(str(v).lower() in offered.get(k.lower(), ()) for k, v in wanted.items())


@lru_cache(maxsize=4096)
def _searches(text: str) -> tuple[str, ...]:
    return tuple(queries(Wanted.of(text)))


@lru_cache(maxsize=1 << 16)
def _worth(world: WebShop, number: int, asin: str) -> float:
    """Return the reward of buying a product with the asked values that it offers."""
    goal, product = world.goals[number], world.products[asin]
    wanted = {k.lower(): str(v).lower() for k, v in dict(goal["goal_options"]).items()}
    chosen = {
        name: wanted[name.lower()]
        for name, values in product.options.items()
        if wanted.get(name.lower()) in {str(v).lower() for v in values}
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
