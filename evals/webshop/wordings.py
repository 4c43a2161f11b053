"""Do agents understand what is asked, however it is said? The same goals in many wordings.

Each actor plays each family of wordings with ``full`` and with ``compress``. Rows are
``ACTOR/CONTEXT@FAMILY``; tests pair contexts within a family, and a family with the template's words.
Intervals draw products, since the goals of one product hang together.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from stategate.envs.webshop.wordings import TEMPLATE, names_of
from stategate.evals.core.statistics import paired_tests
from stategate.evals.core.task import Row, Summary
from stategate.evals.worlds.live import episode_values, groups_of, run_live, summarise
from stategate.stores.errors import UserError

CONTEXTS: Mapping[str, Sequence[str]] = {
    "full": ("context.kind=full", "updater.kind=ema"),
    "window": ("context.kind=window", "updater.kind=ema"),
    "compress": (
        "context.kind=compress",
        "context.ratio=0.35",
        "context.allocator=uniform",
        "updater.kind=ema",
    ),
}
_METRICS = ("success", "score", "tokens_per_step")


def wording_agents(
    actors: Sequence[str], wordings: Sequence[str], contexts: Sequence[str]
) -> dict[str, list[str]]:
    """Return the agents ``ACTOR/CONTEXT@WORDING``."""
    unknown = set(contexts) - set(CONTEXTS)
    if unknown:
        raise UserError(f"contexts are {', '.join(CONTEXTS)}, not '{unknown.pop()}'")
    return {
        f"{actor}/{context}@{wording}": [
            f"actor.kind={actor}",
            f"env.wording={wording}",
            *CONTEXTS[context],
        ]
        for wording in wordings
        for actor in actors
        for context in contexts
    }


def run_wordings(
    config: str | Mapping[str, Any],
    split: str,
    actors: Sequence[str],
    goals: str,
    out: str,
    contexts: Sequence[str] = ("full", "compress"),
    overrides: Sequence[str] = (),
    seed: int = 0,
    is_mixed: bool = False,
) -> dict[str, Any]:
    """Play the families of ``split`` (or families by name, comma-separated), and the template.

    ``is_mixed`` plays a split as one wording, its families in turn: for actors that are slow.
    """
    parts = [part.strip() for part in split.split(",")]
    named = parts if is_mixed else [name for part in parts for name in names_of(part)]
    wordings = list(dict.fromkeys((TEMPLATE, *named)))
    agents = wording_agents(actors, wordings, contexts)
    return run_live(config, agents, goals, out, overrides, seed, scorer=score)


def score(rows: Sequence[Row], agents: Sequence[str], world: Any, seed: int) -> Summary:
    """Return the rows of :func:`evals.worlds.live.summarise`, with tests within and across families."""
    shown, _ = summarise(rows, agents, world, seed, tested=())
    values = episode_values(rows, agents)
    groups = groups_of(world, values[agents[0]])
    pairs: list[tuple[str, str]] = []
    for agent in agents:
        who, _, wording = agent.partition("@")
        actor, _, context = who.partition("/")
        if context != "full" and f"{actor}/full@{wording}" in values:
            pairs.append((f"{actor}/full@{wording}", agent))
        if context == "full" and wording != TEMPLATE:
            pairs.append((f"{who}@{TEMPLATE}", agent))
    return shown, paired_tests(values, pairs, _METRICS, seed, groups)
