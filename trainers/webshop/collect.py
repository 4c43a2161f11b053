"""The expert's episodes to learn from, as JSON lines.

``collect`` plays the real goals of each split: ``train.jsonl`` (goals of products that no goal below
1500 uses), ``train-index.jsonl`` (the looser split: any goal from 1500 on, so the same products as in
the tests) and ``heldout.jsonl``. ``collect_practice`` plays practice goals; in half of those episodes
it opens the best-looking wrong product first: the pages that a learner must learn to leave.
``collect.json`` says how often the expert made which detour.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from envs.webshop import WebShop
from envs.webshop.expert import Rates, play
from stores.files import write_json
from stores.traces.trajectories import Trajectory, file_hash, write_trajectories
from trainers.webshop.goals import MODES, draw, load_shop, practice, splits

PRACTICE = Rates(short_search=0.1, wrong_product=0.5, wrong_option=0.0, careful=1.0)
#: A split's name, its goals, how many episodes, and whether products (else goals) come evenly.
Part = tuple[str, Sequence[int], int, bool]


def collect(
    data: str, out: Path, n: int = 1000, heldout: int = 100, seed: int = 0,
    modes: Sequence[str] = MODES,
) -> dict[str, Any]:  # fmt: skip
    """Play all splits, the observation modes in turn; return what ``collect.json`` says."""
    worlds = {mode: load_shop(data, mode) for mode in modes}
    # Few products are left to train on, so their goals are used evenly; elsewhere products are.
    parts = [
        (name, goals, heldout if name == "heldout" else n, name != "train")
        for name, goals in splits(worlds[modes[0]]).items()
    ]
    return _write(out, worlds, parts, seed, Rates())


def collect_practice(
    data: str, out: Path, n: int = 1800, heldout: int = 300, seed: int = 0,
    modes: Sequence[str] = MODES,
) -> dict[str, Any]:  # fmt: skip
    """Play practice goals, the observation modes in turn; return what ``collect.json`` says."""
    plans = {mode: practice(load_shop(data, mode), seed=seed) for mode in modes}
    plan = plans[modes[0]]
    parts = [
        ("train", plan.training, n, False),
        ("heldout", plan.heldout + plan.made_heldout, heldout, False),
    ]
    return _write(out, {mode: p.world for mode, p in plans.items()}, parts, seed, PRACTICE)


def _write(
    out: Path, worlds: Mapping[str, WebShop], parts: Iterable[Part], seed: int, rates: Rates
) -> dict[str, Any]:
    """Play and write each part as JSON lines, then ``collect.json``."""
    shop = next(iter(worlds.values()))
    summary: dict[str, Any] = {"seed": seed, "rates": vars(rates), "splits": {}}
    summary["data"] = {"sha256": shop.catalogue.fingerprint}
    for i, (name, goals, count, by_product) in enumerate(parts):
        drawn = draw(goals, count, seed + i, shop, by="asin" if by_product else "index")
        played = list(episodes(worlds, drawn, 10_000 * (i + 1) + seed, name, rates))
        write_trajectories(out / f"{name}.jsonl", played)
        sha256 = file_hash(out / f"{name}.jsonl")
        summary["splits"][name] = {**_counted(played), "sha256": sha256}
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
