"""Live evaluation: agents play the same tasks; success, score, steps, tokens, seconds, paired tests.

For any world that has numbered goals or lists its tasks (``envs.protocols.World``).
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from stategate.envs.protocols import World, numbered
from stategate.evals.core.statistics import compared
from stategate.evals.core.task import Row, Sample, Solver, Summary, Task
from stategate.evals.settings import Worlds
from stategate.graph.build import Graph, build_graph
from stategate.graph.config import Config, load_config
from stategate.nodes.build_context.experience import AdvisedContext
from stategate.stores.assets.weights import read_meta
from stategate.stores.bank import Bank, bank_place
from stategate.stores.errors import UserError, user_error_context
from stategate.stores.files import parse_json
from stategate.stores.runs import parse_numbers, public_config, public_path

METRICS: tuple[str, ...] = ("success", "score", "finished", "steps", "tokens_per_step")
METRICS += ("lost_per_step", "model_tokens", "cost", "seconds", "cpu_seconds", "fallbacks")
_TESTED = ("success", "score", "tokens_per_step")
_COUNTED = ("tokens", "model_tokens", "cost", "fallbacks")
_ZERO = dict.fromkeys((*_COUNTED, "steps", "lost"), 0)
_FAILURE = {"reward": 0.0, "done": False}


def worlds_task(settings: Worlds) -> Task:
    """Return the task to play the goals with each agent.

    An episode that fails is counted in ``errors`` and in ``n`` (as no success, score 0), never dropped.
    Episodes are named after the run directory. Sentences in the place of goals are a cluster where
    they are of one goal.
    """
    agents = parse_agents(settings.agents, settings.agent)
    configs = {
        name: load_config(settings.config, [*settings.overrides, *own])
        for name, own in agents.items()
    }
    if not configs:
        raise UserError("name at least one agent")
    names, first = list(configs), next(iter(configs.values()))
    for field in ("data", "goals"):
        if len({str(getattr(agent.env, field, "")) for agent in configs.values()}) > 1:
            raise UserError(
                f"agents are compared on the same goals: give them all the same env.{field}"
            )
    # Unknown kinds and missing checkpoints fail here, before anything is written.
    graphs = {name: build_graph(agent, checkpointer=False) for name, agent in configs.items()}
    world = next(iter(graphs.values())).agent.world
    if settings.say is None:
        tasks = chosen_tasks(world, settings.goals)
        groups = {number: world.group_of(number) for number in tasks}
    else:
        tasks = spoken_tasks(world, settings.say)
        groups = {
            number: json.dumps({k: v for k, v in task.items() if k != "say"}, sort_keys=True)
            for number, task in tasks.items()
        }
    args = {
        "data": {
            "name": public_path(str(getattr(first.env, "data", "") or first.env.kind)),
            "sha256": world.fingerprint,
        },
        "seed": settings.seed,
        "goals": list(tasks),
        "max_steps": first.max_steps,
        "checkpoints": {**checkpoint_hashes(configs.values()), **bank_hashes(configs.values())},
        "agents": {n: public_config(c.model_dump(mode="json")) for n, c in configs.items()},
    }
    samples = [
        Sample({"goal": number, "group": groups[number]}, task, _FAILURE)
        for number, task in tasks.items()
    ]

    def solver(name: str) -> Solver:
        return partial(_play, graphs[name], f"{Path(settings.out).name}/{name}")

    def scorer(episodes: Sequence[Row]) -> Summary:
        """Return a row an agent, and paired tests with the first; goals of a group are a cluster."""
        rows, pairs = list(map(_measured, episodes)), product(names[:1], names[1:])
        return compared(rows, names, "goal", METRICS, _TESTED, pairs, settings.seed, "group")

    return Task(names, samples, solver, scorer, args)


def chosen_tasks(world: World, goals: str) -> dict[int, Mapping[str, Any]]:
    """Return number: task, for the numbers in ``goals`` ("all": every one that the world lists).

    Raises ``UserError`` for a number that the world has no task for.
    """
    listed = list(world.tasks())
    numbers = range(len(listed)) if goals == "all" else parse_numbers(goals, "tasks")
    return {number: task_at(listed, number) for number in numbers}


def task_at(listed: Sequence[Mapping[str, Any]], number: int) -> Mapping[str, Any]:
    """Return the task of a number in a world's list. Raises ``UserError`` where there is none."""
    return listed[numbered(number, len(listed), "task")]


def spoken_tasks(world: World, path: Path) -> dict[int, Mapping[str, Any]]:
    """Return row: task, for the rows ``{"goal": number, "say": sentence}`` of a JSON lines file.

    ``"task"`` names a task in the world's words where it has no number. Raises ``UserError``.
    """
    listed = list(world.tasks())
    tasks: dict[int, Mapping[str, Any]] = {}
    hint = 'each line is {"goal": 3, "say": "…"} or {"task": {…}, "say": "…"}'
    problems = (OSError, ValueError, KeyError, TypeError, UserError)
    what = f"cannot read the sentences in '{path}'"
    with user_error_context(what, hint):
        lines = path.read_text("utf-8").splitlines()
    for number, line in enumerate(lines):
        with user_error_context(f"{what}, line {number + 1}", hint, problems):
            row = parse_json(line)
            task = row["task"] if "task" in row else task_at(listed, row["goal"])
            tasks[number] = {**task, "say": row["say"]}
    return tasks


def _play(graph: Graph, name: str, sample: Sample, row: Row) -> None:
    row |= {**_ZERO, **_FAILURE}
    if set(sample.data) != {"goal"}:
        row["task"] = dict(sample.data)
    # Played again after a kill, it is the same episode: traces and banks hold it once.
    thread: Any = {"configurable": {"episode_id": f"{name}/{sample.key['goal']}"}}
    for update in graph.stream({"task": dict(sample.data)}, thread, stream_mode="updates"):
        if "build_context" in update:
            row["lost"] += len(update["build_context"]["context"].dropped_actions)
        if "act" in update:
            row |= {key: update["act"][key] for key in (*_COUNTED, *_FAILURE)}
            row["steps"] += 1


def checkpoint_hashes(configs: Iterable[Config]) -> dict[str, str]:
    """Return the SHA-256 of every checkpoint that the agents load. Raises ``UserError``."""
    names: set[str] = set()
    for config in configs:
        if config.context.checkpoints() and not config.updater.checkpoints():
            raise UserError(
                f"context.kind={config.context.kind} reads the recurrent state: set updater.kind=gru"
            )
        for params in (config.updater, config.context, config.actor):
            names.update(params.checkpoints())
    return {public_path(name): read_meta(name)["sha256"] for name in sorted(names)}


def bank_hashes(configs: Iterable[Config]) -> dict[str, str]:
    """Return the SHA-256 over the rows (id and worth) of every bank that the agents name."""
    contexts = [c.context for c in configs if isinstance(c.context, AdvisedContext)]
    hashes = {}
    for name in sorted({context.bank for context in contexts if context.bank}):
        rows = sorted((row.id, f"{row.q:.6f}") for row in Bank(bank_place(name)).rows())
        hashes[f"bank {public_path(name)}"] = hashlib.sha256(repr(rows).encode()).hexdigest()
    return hashes


def _measured(row: Row) -> Row:
    """Return an episode's row with its metrics; one whose worker died has counted nothing."""
    row = {**_ZERO, **row}
    steps = max(row["steps"], 1)
    return {
        **row,
        "success": row["reward"] == 1.0,
        "score": row["reward"],
        "finished": row["done"],
        "tokens_per_step": row["tokens"] / steps,
        "lost_per_step": row["lost"] / steps,
    }


def parse_agents(kinds: Sequence[str], named: Sequence[str]) -> dict[str, list[str]]:
    """Read context kinds, and agents such as "name=context.kind=full,context.budget=300"."""
    agents = {kind: [f"context.kind={kind}"] for kind in kinds}
    for item in named:
        name, equals, overrides = item.partition("=")
        if not equals or not overrides:
            raise UserError(f"write an agent as NAME=slot.field=value,…, not '{item}'")
        agents[name] = overrides.split(",")
    return agents
