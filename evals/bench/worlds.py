"""Speed of the worlds (load, random steps, search) and of a step of the graph without a model."""

import random
import subprocess
import sys
import time
from functools import partial
from typing import Any, TypedDict

import numpy as np

from stategate.envs.alfworld import AlfWorld
from stategate.envs.protocols import fill, takes_text
from stategate.envs.webshop import WebShop
from stategate.envs.webshop.expert import play
from stategate.envs.webshop.reward import nouns
from stategate.evals.core.task import Parts, Row
from stategate.evals.settings import BenchAlfworld, BenchStep, BenchWebshop
from stategate.graph.build import build_graph
from stategate.graph.config import load_config
from stategate.stores.errors import UserError
from stategate.stores.home import data_folder
from stategate.stores.runs import with_errors

#: Steps a second of the original environments on this class of machine, idle.
_ORIGINAL_WEBSHOP, _ORIGINAL_ALFWORLD = 34, 10
_GOALS, _GAMES, _STEPS = 10, 100, 50


def webshop_parts(settings: BenchWebshop) -> Parts:
    """Return the one part."""
    folder = data_folder(settings.data, "webshop")
    return {"world": partial(measure_webshop, folder, settings.seed)}


def alfworld_parts(settings: BenchAlfworld) -> Parts:
    """Return the one part: speed, or the walkthroughs."""
    folder = data_folder(settings.data, "alfworld")
    if settings.walkthroughs:
        return {"walkthroughs": partial(play_walkthroughs, folder)}
    return {"speed": partial(measure_alfworld, folder, settings.seed)}


def measure_webshop(data: str = "sample", seed: int = 0) -> list[Row]:
    """Return one row: load, steps/s (random walks, purchases included) and search p50/p95.

    ``start_s`` is a fresh interpreter from launch to a loaded world, ``load_s`` a load in a running
    one. The nouns of titles, parsed once per machine, are made ready before the walks.
    """
    code = f"from stategate.envs.webshop import WebShop; WebShop.load({data!r})"
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)  # noqa: S603 - our own code
    start, started = time.perf_counter() - started, time.perf_counter()
    shop = WebShop.load(data, observation="text")
    load = time.perf_counter() - started
    for product in shop.products.values():
        nouns(product.name)
    rng = random.Random(seed)
    rates = [_walk(shop, rng, 1.0) for _ in range(5)]
    times = []
    for goal in rng.sample(shop.goals, min(500, len(shop.goals))):
        began = time.perf_counter()
        shop.search(goal["instruction_text"])
        times.append(1000 * (time.perf_counter() - began))
    row = {"agent": f"webshop {len(shop.products)} products", "n": len(rates)}
    return [
        row
        | {"start_s": start, "load_s": load, **with_errors({"steps_per_s": rates})}
        | {"times_the_original": float(np.mean(rates)) / _ORIGINAL_WEBSHOP}
        | {f"search_p{p}_ms": float(np.percentile(times, p)) for p in (50, 95)}
    ]


def _walk(shop: WebShop, rng: random.Random, seconds: float) -> float:
    """Take random legal steps, a fresh goal after each purchase; return steps a second."""
    steps = 0
    session, seen = shop.reset(goal=rng.randrange(len(shop.goals)))
    started = time.perf_counter()
    while time.perf_counter() < started + seconds:
        if seen.done:
            session, seen = shop.reset(goal=rng.randrange(len(shop.goals)))
        action = rng.choice(seen.actions)
        if takes_text(action):
            words = shop.instruction(session).split()
            action = fill(action, " ".join(rng.sample(words, min(6, len(words)))))
        session, seen = shop.step(session, action)
        steps += 1
    return steps / (time.perf_counter() - started)


def measure_alfworld(data: str = "sample", seed: int = 0) -> list[Row]:
    """Return one row: ms to load a game (to its first page), and random steps a second in each.

    ``cpu`` figures are processor time, which other programs on the machine do not lengthen. Games are
    drawn from all splits; a random walk ends after fifty steps, or when it wins.
    """
    world = AlfWorld.load(data)
    rng = random.Random(seed)
    names = rng.sample(list(world.games), min(_GAMES, len(world.games)))
    world.reset({"game": names[0]})  # the domain, which all games share, is read once
    loads, rates = [], []
    for name in names:
        fresh = AlfWorld.load(data) if data == "sample" else world
        began = time.process_time()
        session, seen = fresh.reset({"game": name})
        loads.append(1000 * (time.process_time() - began))
        began, steps = time.process_time(), 0
        while steps < _STEPS and not seen.done:
            session, seen = fresh.step(session, rng.choice(seen.actions))
            steps += 1
        rates.append(steps / (time.process_time() - began))
    row = {"agent": f"alfworld {len(world.games)} games", "n": len(names)}
    row |= with_errors({"load_cpu_ms": loads, "steps_per_cpu_s": rates})
    return [row | {"times_the_original": float(np.mean(rates)) / _ORIGINAL_ALFWORLD}]


def play_walkthroughs(data: str = "sample") -> list[Row]:
    """Return a row a split: the share of games that their own walkthroughs win."""
    world = AlfWorld.load(data)
    rows = []
    for split, names in world.splits.items():
        won, steps = [], []
        for name in names:
            try:
                session, seen = world.reset({"game": name})
                commands = world.walkthrough(name)
                for command in commands:
                    session, seen = world.step(session, command)
                won.append(float(seen.done))
                steps.append(float(len(commands)))
            except UserError:
                won.append(0.0)
        row = {"agent": f"walkthrough {split}", "n": len(names)}
        rows.append(row | with_errors({"success": won, "steps": steps}))
    return rows


def step_parts(settings: BenchStep) -> Parts:
    """Return a part for each context kind, and one for a bare LangGraph loop of five empty nodes.

    The expert's moves are followed, so every context sees the same pages. Each goal is played twice
    and the second time is measured: texts are in the cache, models are loaded.
    """
    kinds = ("full", "retrieve", "compress")
    parts = {kind: partial(_steps, kind, settings.data, settings.seed) for kind in kinds}
    return {**parts, "bare loop": _bare_loop}


def _steps(kind: str, data: str, seed: int) -> list[Row]:
    shop = WebShop.load(data)
    times: dict[str, list[float]] = {"step_ms": [], "cpu_ms": [], "build_context_ms": []}
    for goal in range(_GOALS):
        moves = [event.text for event in play(shop, goal, seed).events if event.kind == "ACT"]
        actor = {"kind": "scripted", "actions": moves}
        overrides = [f"context.kind={kind}", "context.budget=300", f"env.data={data}"]
        config = load_config("webshop", [*overrides, "memory=[short_term]"])
        graph = build_graph(config.model_copy(update={"actor": _params(actor)}), False)
        for is_measured in (False, True):
            _play(graph, goal, times if is_measured else {})
    return [{"agent": f"{kind}, warm", "n": len(times["step_ms"]), **with_errors(times)}]


def _params(actor: dict[str, Any]) -> Any:
    from stategate.nodes.registry import registry

    return registry().parse("actor", actor)


def _play(graph: Any, goal: int, times: dict[str, list[float]]) -> None:
    """Play one episode; add the milliseconds of each step and of its ``build_context``."""
    before, busy = time.perf_counter(), time.process_time()
    last = before
    for update in graph.stream({"task": {"goal": goal}}, stream_mode="updates"):
        now = time.perf_counter()
        if "build_context" in update and times:
            times["build_context_ms"].append(1000 * (now - last))
        if "write_memory" in update and times:
            times["step_ms"].append(1000 * (now - before))
            times["cpu_ms"].append(1000 * (time.process_time() - busy))
            before, busy = now, time.process_time()
        last = now


class _Count(TypedDict):
    n: int


def _bare_loop() -> list[Row]:
    """Measure a loop of five nodes that do nothing, without checkpoints."""
    from langgraph.graph import START, StateGraph

    def nothing(state: _Count) -> _Count:
        return {"n": state["n"] + 1}

    names, steps = ("observe", "update_state", "build_context", "act", "write_memory"), 200
    builder: Any = StateGraph(_Count).add_sequence([(name, nothing) for name in names])
    builder.add_edge(START, names[0])
    builder.add_conditional_edges(
        names[-1], lambda state: "__end__" if state["n"] >= len(names) * steps else names[0]
    )
    graph = builder.compile()
    values = []
    for _ in range(5):
        started = time.perf_counter()
        graph.invoke({"n": 0}, {"recursion_limit": 10 * steps})
        values.append(1000 * (time.perf_counter() - started) / steps)
    row = with_errors({"step_ms": values})
    return [{"agent": "bare LangGraph loop", "n": len(values), **row}]
