"""Play goals with the rule actor in several styles, mistakes included, to fill a trace store.

stategate bank practice --goals train --set env.data=official --out runs/train.sqlite
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from envs.webshop import WebShop
from graph.agent import Agent
from graph.build import Graph, build_graph
from graph.config import load_config
from nodes.resources import Resources
from stores.errors import UserError
from stores.traces.store import TraceStore
from trainers.webshop.goals import goals_of

STYLES: Mapping[str, Sequence[str]] = {
    "careful": ["actor.kind=rule"],
    "hasty": ["actor.kind=rule", "actor.threshold=0"],
    "picky": ["actor.kind=rule", "actor.threshold=1.0", "actor.pages=4"],
    "no_options": ["actor.kind=rule", "actor.search=search_no_options"],
    "kind_options": ["actor.kind=rule", "actor.search=search_kind_options"],
    "kind": ["actor.kind=rule", "actor.search=search_kind"],
    "slips": ["actor.kind=slips"],
}


def practise(
    config: str,
    split: str,
    out: str | Path,
    overrides: Sequence[str] = (),
    styles: Sequence[str] = tuple(STYLES),
) -> int:
    """Play the goals of ``split`` in each style; returns the episodes played now.

    Episodes that the store has already are not played again, so a killed run goes on.
    """
    unknown = sorted(set(styles) - set(STYLES))
    if unknown:
        raise UserError(f"no style '{unknown[0]}': the styles are {', '.join(STYLES)}")
    memory = f"memory=[{{kind: short_term}}, {{kind: trace, path: '{out}'}}]"
    graphs: dict[str, Graph] = {}
    resources: Resources | None = None
    for style in styles:
        settled = load_config(config, ["updater.kind=none", *overrides, *STYLES[style], memory])
        graphs[style] = build_graph(settled, False, resources)
        agent: Agent = graphs[style].agent  # type: ignore[attr-defined]
        resources = agent.resources
    world = agent.bound().world if graphs else None
    if not isinstance(world, WebShop):
        raise UserError("practice plays WebShop, in a style or more: name a config of that world")
    there = {row["episode_id"] for row in TraceStore(out).episodes(done=True)}
    names = [(style, goal) for goal in goals_of(split, world) for style in styles]
    todo = [(style, goal) for style, goal in names if f"{style}/{goal}" not in there]
    for style, goal in tqdm(todo, unit="episode", disable=None):
        thread: Any = {"configurable": {"episode_id": f"{style}/{goal}"}}
        graphs[style].invoke({"task": {"goal": goal}}, thread)
    return len(todo)
