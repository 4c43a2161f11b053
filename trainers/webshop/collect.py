"""Episodes to learn from, as JSON lines.

``collect`` is for what reads a page's state: several shoppers (an expert with three sets of detours,
``rule`` and, where asked for, ``policy``) in many wordings. ``train.jsonl`` says its goals in wordings
to train on; a part of its products is marked as validation and said in wordings to develop with, so
neither product nor family stands on both sides. ``heldout.jsonl`` is goals 500 to 1499 in wordings to
develop with. ``collect_practice`` plays practice goals for ``policy``; in half of those episodes the
expert opens the best-looking wrong product first: the pages that a learner must learn to leave.
``collect.json`` says how often the expert made which detour.
"""

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from envs.webshop import WebShop
from envs.webshop.expert import Rates, play
from envs.webshop.wordings import reworded
from nodes.observe.webshop import WebShopEnv
from nodes.registry import registry
from stores.files import write_json
from stores.traces import Event
from stores.traces.trajectories import Trajectory, file_hash, write_trajectories
from trainers.episodes import Readers, make_resources
from trainers.webshop.goals import MODES, draw, load_shop, practice, splits

_STEPS = 20
_TEMPERATURE = 0.7
#: Sets of detours of the expert that shop side by side.
SHOPPERS: Mapping[str, Rates] = {
    "steady": Rates(),
    "careful": Rates(short_search=0.1, wrong_product=0.5, wrong_option=0.0, careful=1.0),
    "hasty": Rates(short_search=0.6, wrong_product=0.1, wrong_option=0.1),
}
PRACTICE = SHOPPERS["careful"]
#: A split's name, its goals, how many episodes, and whether products (else goals) come evenly.
Part = tuple[str, Sequence[int], int, bool]


def collect(
    data: str, out: Path, n: int = 1000, heldout: int = 100, seed: int = 0,
    modes: Sequence[str] = MODES, others: Sequence[str] = ("rule",),
) -> dict[str, Any]:  # fmt: skip
    """Let every shopper play; the observation modes take turns. Returns what ``collect.json`` says.

    ``others`` are kinds of actors that play a third of the goals each, beside the expert; only their
    successes are kept. A tenth of ``n`` more is for validation.
    """
    plans = {mode: practice(load_shop(data, mode), seed, "train", "develop") for mode in modes}
    plan = plans[modes[0]]
    tested = splits(plan.world)["heldout"]
    parts = [
        ("train", plan.training, n, False),
        ("validation", plan.heldout + plan.made_heldout, max(n // 10, 1), False),
        ("heldout", tested, heldout, True),
    ]
    worlds = {mode: p.world for mode, p in plans.items()}
    for world in worlds.values():  # practice leaves the goals of tests as the template says them
        said = reworded([world.goals[i] for i in tested], world.products, "develop", seed)
        for i, goal in zip(tested, said, strict=True):
            world.goals[i] = goal
    played = {part[0]: _shopped(worlds, part, seed + i, others) for i, part in enumerate(parts)}
    validation = [_marked(t, "validation") for t in played.pop("validation")]
    played["train"] += validation
    return _written(out, played, seed, plan.world, {name: vars(r) for name, r in SHOPPERS.items()})


def _marked(trajectory: Trajectory, side: str) -> Trajectory:
    return replace(trajectory, agent={**trajectory.agent, "side": side})


def _shopped(
    worlds: Mapping[str, WebShop], part: Part, seed: int, others: Sequence[str]
) -> list[Trajectory]:
    """Play a part: the expert's shoppers take turns, then each other actor plays a third of it."""
    name, goals, count, by_product = part
    shop = next(iter(worlds.values()))
    drawn = draw(goals, count, seed, shop, by="asin" if by_product else "index")
    played: list[Trajectory] = []
    for i, (shopper, rates) in enumerate(SHOPPERS.items()):
        own = drawn[i :: len(SHOPPERS)]
        for one in episodes(worlds, own, 10_000 * (i + 1) + seed, f"{name}/{shopper}", rates):
            played.append(replace(one, agent={**one.agent, "shopper": shopper}))
    for i, kind in enumerate(others):
        played += acted(worlds, drawn[i % 3 :: 3], name, kind)
    return played


def collect_practice(
    data: str, out: Path, n: int = 1800, heldout: int = 300, seed: int = 0,
    modes: Sequence[str] = MODES,
) -> dict[str, Any]:  # fmt: skip
    """Play practice goals in many wordings, the observation modes in turn.

    Two experts take turns: one that knows the goal, and the rule actor, which knows what it reads; of
    its episodes only those are kept that succeed. Returns what ``collect.json`` says.
    """
    plans = {mode: practice(load_shop(data, mode), seed, "train", "develop") for mode in modes}
    plan = plans[modes[0]]
    parts = [
        ("train", plan.training, n, False),
        ("heldout", plan.heldout + plan.made_heldout, heldout, False),
    ]
    worlds = {mode: p.world for mode, p in plans.items()}
    return _write(out, worlds, parts, seed, PRACTICE)


def _write(
    out: Path, worlds: Mapping[str, WebShop], parts: Iterable[Part], seed: int, rates: Rates
) -> dict[str, Any]:
    """Let the expert and the rule actor play each part, write them and ``collect.json``."""
    shop = next(iter(worlds.values()))
    played: dict[str, list[Trajectory]] = {}
    for i, (name, goals, count, by_product) in enumerate(parts):
        drawn = draw(goals, count, seed + i, shop, by="asin" if by_product else "index")
        own = list(episodes(worlds, drawn, 10_000 * (i + 1) + seed, name, rates))
        played[name] = own + acted(worlds, drawn, name, "rule")
    return _written(out, played, seed, shop, vars(rates))


def _written(
    out: Path, played: Mapping[str, Sequence[Trajectory]], seed: int, shop: WebShop, rates: Any
) -> dict[str, Any]:
    summary: dict[str, Any] = {"seed": seed, "rates": rates, "splits": {}}
    summary["data"] = {"sha256": shop.catalogue.fingerprint}
    for name, own in played.items():
        write_trajectories(out / f"{name}.jsonl", own)
        sha256 = file_hash(out / f"{name}.jsonl")
        summary["splits"][name] = {**_counted(own), "sha256": sha256}
    write_json(out / "collect.json", summary, indent=1)
    return summary


def episodes(
    worlds: Mapping[str, WebShop], goals: Sequence[int], seed: int, name: str, rates: Rates
) -> Iterator[Trajectory]:
    """Play ``goals``; the observation modes in ``worlds`` take turns."""
    modes = sorted(worlds)
    for i, goal in enumerate(tqdm(goals, desc=name, unit="episode", disable=None)):
        mode = modes[i % len(modes)]
        episode = play(worlds[mode], goal, seed + i, rates)
        agent = {"kind": "expert", "detours": episode.detours, "asin": episode.asin, "mode": mode}
        yield Trajectory(
            f"{name}/{i}/{goal}", tuple(episode.events), episode.reward, episode.instruction,
            {"env": "webshop", "goal": goal}, agent, tuple(episode.actions),
        )  # fmt: skip


def acted(
    worlds: Mapping[str, WebShop], goals: Sequence[int], name: str, kind: str
) -> list[Trajectory]:
    """Let an actor of ``kind`` play ``goals`` on whole pages; return what succeeded.

    An actor that can be drawn from is, so that it does not play alike all the time.
    """
    readers = Readers({"full": 1.0}, make_resources("hashing", "none", WebShopEnv()), 2000)
    reader = readers.draw(random.Random(0))
    params = registry().parse("actor", kind)
    if "temperature" in type(params).model_fields:
        params = params.model_copy(update={"temperature": _TEMPERATURE})
    actor = readers.resources.get(params)
    modes = sorted(worlds)
    won: list[Trajectory] = []
    for i, goal in enumerate(tqdm(goals, desc=f"{name}, {kind}", unit="episode", disable=None)):
        world = worlds[modes[i % len(modes)]]
        session, page = world.reset(goal=goal)
        walk = readers.start(reader, world.instruction(session))
        events: list[Event] = []
        actions: list[tuple[str, ...]] = []
        while not page.done and walk.step < _STEPS:
            action = actor(walk.look(page), walk.step).action
            events += [Event("OBS", page.text, walk.step), Event("ACT", action, walk.step)]
            actions.append(page.actions)
            session, outcome = world.step(session, action)
            walk.took(page, action, outcome)
            page = outcome
        if page.done and page.reward == 1.0:
            last = walk.step - 1
            events += [
                Event("REWARD", "1.0", last),
                Event("OBS", page.text, last),
                Event("DONE", "", last),
            ]
            told = {
                "kind": kind,
                "mode": world.observation,
                "asin": world.goals[goal]["asin"],
                "detours": [],
            }
            won.append(
                Trajectory(
                    f"{name}-{kind}/{i}/{goal}",
                    tuple(events),
                    1.0,
                    walk.instruction,
                    {"env": "webshop", "goal": goal},
                    told,
                    (*actions, page.actions),
                )
            )
    return won


def _counted(played: Sequence[Trajectory]) -> dict[str, Any]:
    """Return how often the expert succeeded and made which detour."""
    detours = Counter(d for t in played for d in dict.fromkeys(t.agent["detours"]))
    kinds = Counter(str(t.agent.get("shopper", t.agent["kind"])) for t in played)
    n = len(played)
    return {
        "episodes": n,
        "agents": dict(kinds.most_common()),
        "goals": len({t.task["goal"] for t in played}),
        "products": len({t.agent["asin"] for t in played}),
        "success": sum(t.reward == 1.0 for t in played) / n,
        "steps": sum(1 + max(e.t for e in t.events) for t in played) / n,
        "with_detour": sum(bool(t.agent["detours"]) for t in played) / n,
        "detours": {name: count / n for name, count in detours.most_common()},
    }
