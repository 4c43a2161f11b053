"""Reflect and retry: up to three trials of a task, each told what the failed ones found out.

    stategate eval retry --agent window2=context.kind=window,context.events=2 --out runs/r

After Reflexion (Shinn et al. 2023), but what a trial tells the next is no model's essay: it is what
the world's view knows of the trial's last steps (``View.known``), as far as it says something that
is asked, without names that mean nothing elsewhere. ``NAME, no notes`` is the control: as many
trials, told nothing. A row is an episode: all trials of a task by one agent; ``success@k`` is
success within k trials, ``steps`` and ``tokens`` count all trials played.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from stategate.envs.protocols import Observation, View
from stategate.evals.core.statistics import paired_tests, summary_row, units_of
from stategate.evals.core.task import Attempt, Row, Sample, Solver, Summary, Task, run_task
from stategate.evals.worlds.live import chosen_tasks
from stategate.graph.build import Graph, build_graph
from stategate.graph.config import Config, load_config
from stategate.nodes.build_context.notes import VAIN
from stategate.nodes.registry import registry
from stategate.stores.runs import public_config
from stategate.stores.text import words_of
from stategate.stores.traces import Event

CONTROL = ", no notes"
_NOTES, _VAIN = 8, 24  # findings, and places without one, that a trial tells


def reflect(
    view: View, instruction: str, events: Sequence[Event], observation: Observation, steps: int
) -> str:
    """Return what a failed trial tells the next one, on one line."""
    asked = {word for clause in view.clauses(instruction) for word in words_of(clause.text)}
    acted = " ".join(event.text for event in events if event.kind == "ACT")
    counts: dict[str, int] = {}
    vain: list[str] = []
    for of, what in view.known(events, observation):
        names = [name for name in what.split(", ") if asked.intersection(words_of(name))]
        for name in names:
            told = f"{view.actions.general(name)} at {view.actions.general(of)}"
            counts[told] = counts.get(told, 0) + 1
        if not names and of in acted:
            vain.append(of)
    found = ", ".join(f"{told} ({n})" for told, n in list(counts.items())[:_NOTES])
    told = f"A trial failed after {steps} steps. It saw: {found or 'nothing that is asked'}."
    return told + (f" {VAIN}{', '.join(vain[:_VAIN])}." if vain else "")


def run_retry(
    config: str | Mapping[str, Any],
    agents: Mapping[str, Sequence[str]],
    goals: Sequence[int] | str,
    out: str,
    trials: int = 3,
    overrides: Sequence[str] = (),
    seed: int = 0,
) -> dict[str, Any]:
    """Play ``goals`` with each agent, with and without notes; resumes what ``out`` holds."""
    configs = {name: load_config(config, [*overrides, *own]) for name, own in agents.items()}
    graphs = {name: build_graph(one, checkpointer=False) for name, one in configs.items()}
    world = next(iter(graphs.values())).agent.bound().world  # type: ignore[attr-defined]
    tasks = chosen_tasks(world, goals)
    names = [f"{name}{end}" for name in configs for end in ("", CONTROL)]
    args = {
        "seed": seed,
        "trials": trials,
        "goals": list(tasks),
        "data": {"sha256": str(getattr(world, "fingerprint", ""))},
        "agents": {n: public_config(c.model_dump(mode="json")) for n, c in configs.items()},
    }
    failure = {f"success@{k + 1}": 0.0 for k in range(trials)}
    samples = [Sample({"goal": number}, task, (failure,)) for number, task in tasks.items()]

    def solver(name: str) -> Solver:
        own = name.removesuffix(CONTROL)

        def solve(sample: Sample, attempt: Attempt) -> None:
            _trials(graphs[own], configs[own], sample, attempt, trials, name == own)

        return solve

    def scored(rows: Sequence[Row]) -> Summary:
        metrics = (*failure, "steps", "tokens", "trials")
        values = units_of(rows, names, ("goal",), metrics, 0.0)
        pairs = [(f"{name}{CONTROL}", name) for name in configs]
        tests = paired_tests(values, pairs, (f"success@{trials}", "steps"), seed)
        return [summary_row(name, units, metrics) for name, units in values.items()], tests

    return run_task(Task(names, lambda _: samples, solver, scored), out, args)


def _trials(
    graph: Graph, config: Config, sample: Sample, attempt: Attempt, trials: int, is_told: bool
) -> None:
    """Play a task until it succeeds, or as often as allowed."""
    row = attempt.rows[0]
    bound = graph.agent.bound()  # type: ignore[attr-defined]
    view = bound.resources.view
    notes: list[str] = []
    row |= {
        "steps": 0,
        "tokens": 0,
        "trials": 0,
        **{f"success@{k + 1}": 0.0 for k in range(trials)},
    }
    for trial in range(trials):
        told = {"kind": "experience_notes", "inner": config.context, "notes": tuple(notes)}
        told["budget"] = config.context.budget
        context = {"context": registry().parse("context", told)} if notes and is_told else None
        out: dict[str, Any] = {}
        start = {"task": dict(sample.data)}
        for update in graph.stream(start, context=context, stream_mode="updates"):
            for change in update.values():
                out |= change
        row["steps"] += out["steps"]
        row["tokens"] += out["tokens"]
        row["trials"] += 1
        if out["reward"] == 1.0:
            row |= {f"success@{k + 1}": 1.0 for k in range(trial, trials)}
            return
        events = tuple(Event.from_list(e) for e in out["events"])
        page = bound.world.observe(out["session"])
        asked = bound.world.instruction(out["session"])
        notes.append(reflect(view, asked, events, page, out["steps"]))
