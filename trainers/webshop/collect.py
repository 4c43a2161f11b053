"""The expert's episodes to learn from, as JSON lines.

``collect`` plays the real goals of each split: ``train.jsonl`` (goals of products that no goal below
1500 uses), ``train-index.jsonl`` (the looser split: any goal from 1500 on, so the same products as in
the tests) and ``heldout.jsonl``. ``collect_practice`` plays practice goals; in half of those episodes
it opens the best-looking wrong product first: the pages that a learner must learn to leave.
``collect.json`` says how often the expert made which detour.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from envs.webshop import WebShop
from envs.webshop.expert import Rates, play
from nodes.act.shop.rule import Rule
from nodes.observe.webshop import WebShopEnv
from nodes.protocols import Actor
from stores.files import write_json
from stores.traces import Event
from stores.traces.trajectories import Trajectory, file_hash, write_trajectories
from stores.workers import Crew, Start, in_order
from trainers.episodes import Reader, Readers, make_resources
from trainers.webshop.goals import MODES, draw, load_shop, practice, splits

_STEPS = 20
PRACTICE = Rates(short_search=0.1, wrong_product=0.5, wrong_option=0.0, careful=1.0)
#: A split's name, its goals, how many episodes, and whether products (else goals) come evenly.
Part = tuple[str, Sequence[int], int, bool]
#: An episode to play: its part, its place in it, its goal, the expert's seed (None: the rule actor).
Job = tuple[str, int, int, int | None, Rates]


def collect(
    data: str, out: Path, n: int = 1000, heldout: int = 100, seed: int = 0,
    modes: Sequence[str] = MODES, crew: Crew | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Play all splits, the observation modes in turn; return what ``collect.json`` says.

    A ``crew`` shares the episodes; who plays one makes no difference to it.
    """
    worlds = {mode: load_shop(data, mode) for mode in modes}
    # Few products are left to train on, so their goals are used evenly; elsewhere products are.
    parts = [
        (name, goals, heldout if name == "heldout" else n, name != "train")
        for name, goals in splits(worlds[modes[0]]).items()
    ]
    start = partial(_serve_plain, data, tuple(modes))
    return _write(out, worlds, parts, seed, Rates(), start, crew)


def collect_practice(
    data: str, out: Path, n: int = 1800, heldout: int = 300, seed: int = 0,
    modes: Sequence[str] = MODES, crew: Crew | None = None,
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
    start = partial(_serve_practice, data, tuple(modes), seed)
    return _write(out, worlds, parts, seed, PRACTICE, start, crew, by_rule=True)


def _serve_plain(data: str, modes: Sequence[str], serve: Callable[[Any], None]) -> None:
    serve(partial(_play, {mode: load_shop(data, mode) for mode in modes}))


def _serve_practice(
    data: str, modes: Sequence[str], seed: int, serve: Callable[[Any], None]
) -> None:
    plans = {mode: practice(load_shop(data, mode), seed, "train", "develop") for mode in modes}
    serve(partial(_play, {mode: plan.world for mode, plan in plans.items()}))


def _write(
    out: Path, worlds: Mapping[str, WebShop], parts: Iterable[Part], seed: int, rates: Rates,
    start: Start, crew: Crew | None, by_rule: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """Play and write each part as JSON lines, then ``collect.json``."""
    shop = next(iter(worlds.values()))
    summary: dict[str, Any] = {"seed": seed, "rates": vars(rates), "splits": {}}
    summary["data"] = {"sha256": shop.catalogue.fingerprint}
    jobs: list[Job] = []
    for i, (name, goals, count, by_product) in enumerate(parts):
        drawn = draw(goals, count, seed + i, shop, by="asin" if by_product else "index")
        first = 10_000 * (i + 1) + seed
        jobs += [(name, j, goal, first + j, rates) for j, goal in enumerate(drawn)]
        if by_rule:
            jobs += [(name, j, goal, None, rates) for j, goal in enumerate(drawn)]

    def here(serve: Callable[[Any], None]) -> None:
        serve(partial(_play, worlds))

    found = in_order(here if crew is None else start, jobs, crew, "record")
    for name in dict.fromkeys(job[0] for job in jobs):
        played = [t for job, t in zip(jobs, found, strict=True) if job[0] == name and t is not None]
        write_trajectories(out / f"{name}.jsonl", played)
        sha256 = file_hash(out / f"{name}.jsonl")
        summary["splits"][name] = {**_counted(played), "sha256": sha256}
    write_json(out / "collect.json", summary, indent=1)
    return summary


def _play(worlds: Mapping[str, WebShop], job: Job) -> Trajectory | None:
    """Play one goal, by the expert with a seed of its own, else by the rule actor."""
    name, place, goal, seed, rates = job
    mode = sorted(worlds)[place % len(worlds)]
    if seed is None:
        return _ruled(worlds[mode], goal, f"{name}-rule/{place}/{goal}")
    episode = play(worlds[mode], goal, seed, rates)
    agent = {"kind": "expert", "detours": episode.detours, "asin": episode.asin, "mode": mode}
    return Trajectory(
        f"{name}/{place}/{goal}", tuple(episode.events), episode.reward, episode.instruction,
        {"env": "webshop", "goal": goal}, agent, tuple(episode.actions),
    )  # fmt: skip


@lru_cache(maxsize=1)
def _rule() -> tuple[Readers, Reader, Actor]:
    readers = Readers({"full": 1.0}, make_resources("hashing", "none", WebShopEnv()), 2000)
    return readers, readers.draw(random.Random(0)), Rule().build(readers.resources)


def _ruled(world: WebShop, goal: int, name: str) -> Trajectory | None:
    """Let the rule actor play ``goal`` on whole pages; return the episode if it succeeded."""
    readers, reader, actor = _rule()
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
    if not (page.done and page.reward == 1.0):
        return None
    last = walk.step - 1
    events += [Event("REWARD", "1.0", last), Event("OBS", page.text, last), Event("DONE", "", last)]
    mode, asin = world.observation, world.goals[goal]["asin"]
    agent = {"kind": "rule", "mode": mode, "asin": asin, "detours": []}
    return Trajectory(
        name, tuple(events), 1.0, walk.instruction, {"env": "webshop", "goal": goal}, agent,
        (*actions, page.actions),
    )  # fmt: skip


def _counted(played: Sequence[Trajectory]) -> dict[str, Any]:
    """Return how often the expert succeeded and made which detour."""
    detours = Counter(d for t in played for d in dict.fromkeys(t.agent["detours"]))
    n = len(played)
    return {
        "episodes": n,
        "goals": len({t.task["goal"] for t in played}),
        "products": len({t.agent["asin"] for t in played}),
        "success": sum(t.reward == 1.0 for t in played) / n,
        "steps": sum(1 + max(e.t for e in t.events) for t in played) / n,
        "with_detour": sum(bool(t.agent["detours"]) for t in played) / n,
        "detours": {name: count / n for name, count in detours.most_common()},
    }
