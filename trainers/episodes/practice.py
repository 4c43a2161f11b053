"""Play goals with the rule actor in several styles, mistakes included, to fill a trace store.

    stategate bank practice --goals train --set env.data=official --out runs/train.sqlite

``train`` are the goals of products that no goal among the first 1500 uses; ``beside`` are as many
goals beyond the first 1500 of products that goals 0-499 use: same products, other options.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stores.errors import UserError
from stores.runs import parse_numbers
from stores.traces.store import TraceStore

TESTED = 1500
_STATELESS = "updater.kind=none"  # the rule actor reads no recurrent state
STYLES: Mapping[str, Sequence[str]] = {
    "careful": ["actor.kind=rule"],
    "hasty": ["actor.kind=rule", "actor.threshold=0"],
    "picky": ["actor.kind=rule", "actor.threshold=1.0", "actor.pages=4"],
    "no_options": ["actor.kind=rule", "actor.search=search_no_options"],
    "kind_options": ["actor.kind=rule", "actor.search=search_kind_options"],
    "kind": ["actor.kind=rule", "actor.search=search_kind"],
    "slips": ["actor.kind=slips"],
}


def goals_of(split: str, goals: Sequence[Mapping[str, Any]]) -> list[int]:
    """Return the goals of ``train`` or ``beside`` (see above), else those written as 0-9 or 3,5."""
    tested = {goal["asin"] for goal in goals[:TESTED]}
    train = [i for i in range(TESTED, len(goals)) if goals[i]["asin"] not in tested]
    if split == "train":
        found = train
    elif split == "beside":
        near = {goal["asin"] for goal in goals[:500]}
        found = [i for i in range(TESTED, len(goals)) if goals[i]["asin"] in near][: len(train)]
    else:
        found = parse_numbers(split)
    if not found:
        raise UserError(f"this catalogue has no '{split}' goals: name goals, such as 0-99")
    return found


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
    from tqdm import tqdm

    from graph.build import build_graph
    from graph.config import load_config

    unknown = sorted(set(styles) - set(STYLES))
    if unknown:
        raise UserError(f"no style '{unknown[0]}': the styles are {', '.join(STYLES)}")
    store = {"kind": "trace", "path": str(out)}
    memory = f"memory=[{{kind: short_term}}, {{kind: trace, path: '{store['path']}'}}]"
    graphs = {
        style: build_graph(
            load_config(config, ["updater.kind=none", *overrides, *STYLES[style], memory]),
            checkpointer=False,
        )
        for style in styles
    }
    world = next(iter(graphs.values())).agent.bound().world  # type: ignore[attr-defined]
    goals = goals_of(split, world.goals)
    there = {row["episode_id"] for row in TraceStore(out).episodes(done=True)}
    todo = [(s, goal) for goal in goals for s in styles if f"{s}/{goal}" not in there]
    for style, goal in tqdm(todo, unit="episode", disable=None):
        thread: Any = {"configurable": {"thread_id": f"{style}/{goal}"}}
        graphs[style].invoke({"task": {"goal": goal}}, thread)
    return len(todo)
