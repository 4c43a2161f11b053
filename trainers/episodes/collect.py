"""Collect expert episodes to learn from: the splits by product and by index, as JSON lines.

python -m trainers.episodes.collect --data ../shared/data/webshop --out runs/trajectories/real
python -m trainers.episodes.collect --data sample --out runs/trajectories/sample  (in seconds)

Writes ``train.jsonl`` (goals of products that no goal below 1500 uses), ``train-index.jsonl`` (the
looser split: any goal from 1500 on, so the same products as in the tests), ``heldout.jsonl`` (goals
500 to 1499) and ``collect.json`` (how often the expert made which detour). On a catalogue with fewer
goals the bounds shrink in proportion. Goals 0 to 499 are for live tests and never played here.
"""

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from envs.webshop import WebShop
from envs.webshop.expert import Rates, play
from stores.errors import UserError, mistakes_in_one_line
from stores.traces.trajectories import Trajectory, file_hash, write_trajectories

TEST_GOALS, FIRST_TRAINING_GOAL = 500, 1500


def splits(world: WebShop) -> dict[str, list[int]]:
    """Return the goals of each split. Test goals are 0 to 499 (in proportion, on fewer goals)."""
    total = len(world.goals)
    first = min(FIRST_TRAINING_GOAL, total // 2)
    test = min(TEST_GOALS, first // 3)
    seen = {goal["asin"] for goal in world.goals[:first]}
    unseen = [i for i, goal in enumerate(world.goals) if goal["asin"] not in seen]
    if not unseen:
        raise UserError("every product is used by a test goal: no product is left to train on")
    return {
        "train": unseen,
        "train-index": list(range(first, total)),
        "heldout": list(range(test, first)),
    }


def draw(goals: Sequence[int], n: int, seed: int, world: WebShop, by: str = "asin") -> list[int]:
    """Draw ``n`` goals evenly by product (``by="asin"``) or by goal (``by="index"``).

    Each product (goal) comes once before any comes twice.
    """
    rng = random.Random(seed)
    groups: dict[Any, list[int]] = {}
    for goal in goals:
        groups.setdefault(world.goals[goal]["asin"] if by == "asin" else goal, []).append(goal)
    for own in groups.values():
        rng.shuffle(own)
    keys = sorted(groups)
    drawn: list[int] = []
    lap = 0
    while len(drawn) < n:
        rng.shuffle(keys)
        drawn += [groups[key][lap % len(groups[key])] for key in keys]
        lap += 1
    return drawn[:n]


def episodes(
    world: dict[str, WebShop],
    goals: Sequence[int],
    seed: int,
    name: str,
    rates: Rates | None = None,
) -> Iterator[Trajectory]:
    """Play ``goals``; the modes in ``world`` take turns."""
    modes = sorted(world)
    for i, goal in enumerate(tqdm(goals, desc=name, unit="episode", disable=None)):
        mode = modes[i % len(modes)]
        shop = world[mode]
        episode = play(shop, goal, seed + i, rates)
        agent = {"kind": "expert", "detours": episode.detours, "asin": episode.asin, "mode": mode}
        yield Trajectory(
            f"{name}/{i}/{goal}", tuple(episode.events), episode.reward, episode.instruction,
            {"env": "webshop", "goal": goal}, agent, tuple(_affordances(shop, goal, episode.events)),
        )  # fmt: skip


def _affordances(world: WebShop, goal: int, events: Sequence[Any]) -> Iterator[tuple[str, ...]]:
    session, observation = world.reset(goal=goal)
    for event in events:
        if event.kind == "ACT":
            session, after = world.step(session, event.text)
        elif event.kind == "OBS":
            yield observation.actions
            continue
        else:
            continue
        observation = after


def collect(
    data: str, out: Path, n: int = 1000, heldout: int = 100, seed: int = 0, mode: str = "both"
) -> dict[str, Any]:
    """Play all splits and write them to ``out``; return what ``collect.json`` says."""
    modes = ("rich", "text") if mode == "both" else (mode,)
    worlds = {m: WebShop.load(data, observation=m) for m in modes}  # type: ignore[arg-type]
    shop = worlds[modes[0]]
    summary: dict[str, Any] = {"seed": seed, "rates": vars(Rates()), "splits": {}}
    summary["data"] = {"sha256": shop.catalogue.fingerprint}

    def played() -> Iterator[tuple[str, list[Trajectory]]]:
        for i, (name, goals) in enumerate(splits(shop).items()):
            count = heldout if name == "heldout" else n
            # Few products are left to train on, so their goals are used evenly; else products are.
            drawn = draw(goals, count, seed + i, shop, by="index" if name == "train" else "asin")
            yield name, list(episodes(worlds, drawn, 10_000 * (i + 1) + seed, name))

    return write_splits(out, summary, played())


def write_splits(
    out: Path, summary: dict[str, Any], splits: Iterable[tuple[str, Sequence[Trajectory]]]
) -> dict[str, Any]:
    """Write each split as JSON lines, and ``collect.json``: ``summary`` with what they hold."""
    for name, played in splits:
        path = out / f"{name}.jsonl"
        write_trajectories(path, played)
        summary["splits"][name] = {**told(played), "sha256": file_hash(path)}
    (out / "collect.json").write_text(json.dumps(summary, indent=1) + "\n", "utf-8")
    return summary


def told(played: Sequence[Trajectory]) -> dict[str, Any]:
    """Return how often the expert succeeded and made which detour."""
    detours = Counter(d for t in played for d in set(t.agent["detours"]))
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


def main(argv: Sequence[str] | None = None) -> None:
    """Run from the command line (see the module's docstring)."""
    parser = argparse.ArgumentParser(
        "trainers.episodes.collect",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", default="sample", help="'sample' or a folder of official files")
    parser.add_argument("--out", required=True, type=Path, help="folder for the JSON lines")
    parser.add_argument("-n", "--episodes", type=int, default=1000, help="training episodes")
    parser.add_argument("--heldout", type=int, default=100, help="held-out episodes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--observation", choices=["rich", "text", "both"], default="both")
    given = parser.parse_args(argv)
    with mistakes_in_one_line():
        made = collect(
            given.data, given.out, given.episodes, given.heldout, given.seed, given.observation
        )
    sys.stdout.write(json.dumps(made["splits"], indent=1) + "\n")


if __name__ == "__main__":
    main()
