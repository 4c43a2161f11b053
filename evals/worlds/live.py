"""Live evaluation: agents play the same goals; success, score, steps, tokens, seconds, paired tests.

python -m evals.live --goals 0-499 --agents full,window,query_rag --out runs/rule
python -m evals.live --goals 0-1 --agents full --out runs/tiny --set actor.kind=rule
"""

import argparse
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tqdm import tqdm

from evals.live_summary import summarise
from evals.run_directory import RunDirectory, provenance, shown_config, shown_path
from graph.build import Graph, build_graph
from graph.config import Config, load_config
from nodes.protocols import BuiltContext
from stores.errors import UserError, mistakes_in_one_line


def run_live(
    config: str | Mapping[str, Any],
    agents: Mapping[str, Sequence[str]],
    goals: Sequence[int],
    out: str,
    overrides: Sequence[str] = (),
    seed: int = 0,
    command: Sequence[str] = ("run_live",),
    checkpoints: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Play ``goals`` with each agent and return the summary; resumes what ``out`` holds.

    ``agents`` maps a name to config overrides on top of ``overrides``. An episode that fails is
    counted in ``errors`` and in ``n`` (as no success, score 0), never dropped. ``checkpoints`` are
    hashes of what the agents load, by name, for ``args.json``.
    """
    configs = {name: load_config(config, [*overrides, *extra]) for name, extra in agents.items()}
    if not configs or not goals:
        raise UserError("name at least one agent and one goal")
    first = next(iter(configs.values()))
    if len({str(getattr(agent.env, "data", "")) for agent in configs.values()}) > 1:
        raise UserError("agents are compared on the same goals: give them all the same env.data")
    world = build_graph(first, checkpointer=False).agent.bound().world  # type: ignore[attr-defined]
    for goal in (min(goals), max(goals)):
        world.reset({"goal": goal})
    args = {
        **provenance(command),
        "data": {
            "name": shown_path(str(getattr(first.env, "data", ""))),
            "sha256": _data_hash(world),
        },
        "seed": seed,
        "goals": list(goals),
        "max_steps": first.max_steps,
        "checkpoints": {**checkpoint_hashes(configs.values()), **(checkpoints or {})},
        "agents": {n: shown_config(c.model_dump(mode="json")) for n, c in configs.items()},
    }
    run = RunDirectory(out, args)
    done = {(row["agent"], row["goal"]) for row in run.rows("episodes")}
    for name in ("steps", "errors"):  # an episode that a kill cut short is played again
        run.keep(name, lambda row: (row["agent"], row["goal"]) in done)
    todo = [(name, goal) for goal in goals for name in configs if (name, goal) not in done]
    if done and todo:
        run.note_resumption(args)
    graphs = {name: build_graph(agent, checkpointer=False) for name, agent in configs.items()}
    with tqdm(todo, unit="episode", disable=None) as bar:
        for name, goal in bar:
            bar.set_description(f"{name} goal {goal}")
            _play(run, graphs[name], name, goal)
    return summarise(run, list(configs), world, seed)


def _play(run: RunDirectory, graph: Graph, name: str, goal: int) -> None:
    started = before = time.perf_counter()
    worked = time.process_time()
    steps: list[dict[str, Any]] = []
    advice: dict[str, Any] = {}
    row: dict[str, Any] = {"agent": name, "goal": goal, "reward": 0.0, "done": False, "error": None}
    lost: dict[str, int] = {}
    counted = {"tokens": 0, "model_tokens": 0, "cost": 0.0, "fallbacks": 0}
    thread: Any = {"configurable": {"thread_id": f"{run.folder.name}/{name}/{goal}"}}
    try:
        for update in graph.stream({"task": {"goal": goal}}, thread, stream_mode="updates"):
            for node, change in update.items():
                if node == "build_context":
                    advice = _advice(change["context"])
                    lost = lost_affordances(change["context"])
                if node == "act":
                    now = time.perf_counter()
                    tokens = change["tokens"] - counted["tokens"]
                    made = {"agent": name, "goal": goal, "step": len(steps), "tokens": tokens}
                    took = {"lost": lost, "seconds": round(now - before, 4)}
                    steps.append({**made, **_chosen(change), **took, **advice})
                    before = now
                    row |= {"reward": change["reward"], "done": change["done"]}
                    counted = {key: change[key] for key in counted}
    except KeyboardInterrupt:
        raise
    except Exception as error:  # one bad episode must not end a long run; it is counted
        problem = f"{type(error).__name__}: {' '.join(str(error).split())}"
        row |= {"reward": 0.0, "done": False, "error": problem}
        run.append("errors", {"agent": name, "goal": goal, "step": len(steps), "error": problem})
    seconds = time.perf_counter() - started
    if steps:
        run.append("steps", *steps)
    total = sum(sum(step["lost"].values()) for step in steps)
    made = {**counted, "steps": len(steps), "lost": total, "seconds": round(seconds, 4)}
    made["cpu_seconds"] = round(time.process_time() - worked, 4)  # a model server's own not counted
    run.append("episodes", {**row, **made})


def lost_affordances(context: BuiltContext) -> dict[str, int]:
    """Count the page's affordances that the prompt lost, by the kind of chunk that held them."""
    gone = set(context.dropped_actions)
    counts: dict[str, int] = {}
    for piece in context.pieces:
        here = len(gone.intersection(piece.dropped_actions))
        if here:
            counts[piece.kind] = counts.get(piece.kind, 0) + here
    return counts


def checkpoint_hashes(configs: Iterable[Config]) -> dict[str, str]:
    """Return the SHA-256 of every checkpoint that the agents load."""
    from stores.assets.weights import read_meta

    names = {
        name
        for config in configs
        for params in (config.updater, config.context, config.actor)
        for name in params.checkpoints(config.updater.kind)
    }
    return {shown_path(name): read_meta(name)["sha256"] for name in sorted(names)}


def _advice(context: Any) -> dict[str, Any]:
    """Return what the context advised and which of its parts fell back, if anything."""
    told: dict[str, Any] = {}
    given = [piece for piece in context.pieces if piece.kind == "experience" and piece.text]
    lost = [piece.id for piece in context.pieces if piece.kind == "fallback"]
    if given:
        told = {"advice": given[0].text.strip(), "advice_row": given[0].id}
        told["likeness"] = given[0].score
    if lost:
        told["context_fallbacks"] = lost
    return told


def _chosen(change: Mapping[str, Any]) -> dict[str, Any]:
    chance = change["decision"]["probabilities"].get(change["action"])
    return {
        "action": change["action"],
        **({} if chance is None else {"probability": round(chance, 4)}),
        "fallback": change["decision"]["fallback"],
        "reason": change["decision"]["reason"],
        "attempts": change["decision"]["attempts"],
        "reward": change["reward"],
    }


def _data_hash(world: Any) -> str:
    return str(getattr(getattr(world, "catalogue", None), "fingerprint", ""))


def parse_goals(text: str) -> list[int]:
    """Read "0-499", "3,5,8" or a mixture. Raises ``UserError``."""
    goals: list[int] = []
    for part in text.split(","):
        low, dash, high = part.strip().partition("-")
        try:
            goals.extend(range(int(low), int(high if dash else low) + 1))
        except ValueError:
            raise UserError(f"write goals as 0-499 or 3,5,8, not '{text}'") from None
    return list(dict.fromkeys(goals))


def parse_agents(kinds: str, named: Sequence[str]) -> dict[str, list[str]]:
    """Read "full,window" (context kinds) and "name=context.kind=full,context.budget=300"."""
    agents = {
        kind.strip(): [f"context.kind={kind.strip()}"] for kind in kinds.split(",") if kind.strip()
    }
    for item in named:
        name, equals, rest = item.partition("=")
        if not equals or not rest:
            raise UserError(f"write an agent as NAME=slot.field=value,…, not '{item}'")
        agents[name] = rest.split(",")
    return agents


def main(argv: Sequence[str] | None = None) -> None:
    """Run from the command line (see the module's docstring)."""
    parser = argparse.ArgumentParser(
        "evals.live", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--config", default="webshop", help="preset or YAML file")
    parser.add_argument("--agents", default="", help="context kinds, such as full,window")
    parser.add_argument("--agent", action="append", default=[], help="NAME=slot.field=value,…")
    parser.add_argument("--goals", default="0-9", help="0-499 or 3,5,8")
    parser.add_argument("--set", action="append", default=[], help="override for every agent")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", required=True, help="run directory; resumed if it exists")
    words = list(sys.argv[1:] if argv is None else argv)
    given = parser.parse_args(words)
    with mistakes_in_one_line():
        agents = parse_agents(given.agents, given.agent)
        command = ["python", "-m", "evals.live", *words]
        summary = run_live(
            given.config,
            agents,
            parse_goals(given.goals),
            given.out,
            given.set,
            given.seed,
            command,
        )
    from evals.report import table

    sys.stdout.write(table(summary["rows"]) + "\n")


if __name__ == "__main__":
    main()
