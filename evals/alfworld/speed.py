"""ALFWorld's games: how fast they load and step, and whether every walkthrough wins."""

import random
import time
from typing import Any

from tqdm import tqdm

from stategate.envs.alfworld import AlfWorld
from stategate.stores.errors import UserError
from stategate.stores.runs import with_errors

#: What TextWorld with its planner did on this class of machine, idle, over four games (7.7 to 12.3).
ORIGINAL_STEPS_PER_SECOND = 10
_GAMES = 100
_STEPS = 50


def measure_games(data: str = "sample", seed: int = 0) -> list[dict[str, Any]]:
    """Return one row: ms to load a game (to its first page), and random steps a second in each.

    ``cpu`` figures are processor time, which other programs on the machine do not lengthen. A world is
    opened first; ``open_s`` is how long that took. Games are drawn from all splits; a random walk ends
    after fifty steps, or when it wins.
    """
    started = time.perf_counter()
    world = AlfWorld.load(data)
    opened = time.perf_counter() - started
    rng = random.Random(seed)
    names = rng.sample(list(world.games), min(_GAMES, len(world.games)))
    world.reset({"game": names[0]})  # the domain, which all games share, is read once
    loads, rates, cpu_loads, cpu_rates = [], [], [], []
    for name in tqdm(names, "random walks"):
        fresh = AlfWorld.load(data) if data == "sample" else world
        began, cpu = time.perf_counter(), time.process_time()
        session, seen = fresh.reset({"game": name})
        loads.append(1000 * (time.perf_counter() - began))
        cpu_loads.append(1000 * (time.process_time() - cpu))
        began, cpu, steps = time.perf_counter(), time.process_time(), 0
        while steps < _STEPS and not seen.done:
            session, seen = fresh.step(session, rng.choice(seen.actions))
            steps += 1
        rates.append(steps / (time.perf_counter() - began))
        cpu_rates.append(steps / (time.process_time() - cpu))
    return [
        {
            "agent": f"alfworld {len(world.games)} games",
            "n": len(names),
            "open_s": opened,
            **with_errors(
                {
                    "load_ms": loads,
                    "steps_per_s": rates,
                    "load_cpu_ms": cpu_loads,
                    "steps_per_cpu_s": cpu_rates,
                }
            ),
            "times_the_original": sum(cpu_rates) / len(cpu_rates) / ORIGINAL_STEPS_PER_SECOND,
        }
    ]


def play_walkthroughs(data: str = "sample") -> list[dict[str, Any]]:
    """Return a row a split: the share of games that their own walkthroughs win."""
    world = AlfWorld.load(data)
    rows = []
    for split, names in world.splits.items():
        won, steps = [], []
        for name in tqdm(names, split):
            try:
                session, seen = world.reset({"game": name})
                commands = world.walkthrough(name)
                for command in commands:
                    session, seen = world.step(session, command)
                won.append(float(seen.done))
                steps.append(float(len(commands)))
            except UserError:
                won.append(0.0)
        rows.append(
            {
                "agent": f"walkthrough {split}",
                "n": len(names),
                **with_errors({"success": won, "steps": steps}),
            }
        )
    return rows
