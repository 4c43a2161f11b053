"""Play goals with the rule actor in several styles, mistakes included, to fill a trace store."""

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from stategate.envs.webshop import WebShop
from stategate.graph.build import Graph, build_graph
from stategate.graph.config import load_config
from stategate.nodes.resources import Resources
from stategate.stores.errors import UserError
from stategate.stores.progress import Progress
from stategate.stores.traces.store import TraceStore
from stategate.stores.workers import Crew, work
from stategate.trainers.webshop.goals import goals_of

STYLES: Mapping[str, Sequence[str]] = {
    "careful": ["actor.kind=rule"],
    "hasty": ["actor.kind=rule", "actor.threshold=0"],
    "picky": ["actor.kind=rule", "actor.threshold=1.0", "actor.pages=4"],
    "no_options": ["actor.kind=rule", "actor.search=search_no_options"],
    "kind_options": ["actor.kind=rule", "actor.search=search_kind_options"],
    "kind": ["actor.kind=rule", "actor.search=search_kind"],
    "slips": ["actor.kind=noisy"],
}


def practise(
    config: str,
    split: str,
    out: str | Path,
    overrides: Sequence[str] = (),
    styles: Sequence[str] = tuple(STYLES),
    crew: Crew | None = None,
) -> int:
    """Play the goals of ``split`` in each style; returns the episodes played now.

    A ``crew`` shares them; on other machines its workers need the store ``out`` on a shared disk.

    Episodes that the store has already are not played again, so a killed run goes on.
    """
    unknown = sorted(set(styles) - set(STYLES))
    if unknown:
        raise UserError(f"no style '{unknown[0]}': the styles are {', '.join(STYLES)}")
    how = (config, str(Path(out).absolute()), tuple(overrides), tuple(styles))
    graphs = _graphs(*how)
    agent = next(iter(graphs.values())).agent if graphs else None
    world = agent.world if agent is not None else None
    if not isinstance(world, WebShop):
        raise UserError("practice plays WebShop, in a style or more: name a config of that world")
    there = {row["episode_id"] for row in TraceStore(out).episodes(done=True)}
    names = [(style, goal) for goal in goals_of(split, world) for style in styles]
    todo = [(style, goal) for style, goal in names if f"{style}/{goal}" not in there]
    failed = 0
    every = work(partial(_serve, *how), todo, crew)
    for (style, goal), _, problem in Progress(every, "play", len(todo), unit="episode"):
        if problem is not None:
            failed += 1
            Progress.write(f"{style}/{goal}: {problem}", file=sys.stderr)
    return len(todo) - failed


@lru_cache(maxsize=1)
def _graphs(
    config: str, out: str, overrides: tuple[str, ...], styles: tuple[str, ...]
) -> dict[str, Graph]:
    memory = f"memory=[{{kind: short_term}}, {{kind: trace, path: '{out}'}}]"
    graphs: dict[str, Graph] = {}
    resources: Resources | None = None
    for style in styles:
        settled = load_config(config, ["updater.kind=none", *overrides, *STYLES[style], memory])
        graphs[style] = build_graph(settled, False, resources)
        resources = graphs[style].agent.resources
    return graphs


def _serve(
    config: str,
    out: str,
    overrides: tuple[str, ...],
    styles: tuple[str, ...],
    serve: Callable[[Any], None],
) -> None:
    # The store keeps an episode that is played again once.
    serve(partial(_play, _graphs(config, out, overrides, styles)))


def _play(graphs: Mapping[str, Graph], job: tuple[str, int]) -> None:
    style, goal = job
    thread: Any = {"configurable": {"episode_id": f"{style}/{goal}"}}
    graphs[style].invoke({"task": {"goal": goal}}, thread)
