"""One way to run every evaluation: a dataset, a solver and a scorer, into a run directory.

    summary = run_task(Task(agents, dataset, solver, scorer), "runs/mine", args)

A run that was stopped goes on: what is solved is not solved again, and what a kill left half-written
is. A sample whose solving fails is counted with the values of a failure, never dropped.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from tqdm import tqdm

from stores.runs import RunDirectory

Row = dict[str, Any]
Summary = tuple[Sequence[Row], Sequence[Row]]  # rows and tests of summary.json
#: The parts of a benchmark by name: what measures each and returns summary rows.
Parts = Mapping[str, Callable[[], list[Row]]]


@dataclass(frozen=True)
class Sample:
    """One thing to solve. ``key`` tells its rows from those of others (the same keys in all).

    ``failure`` is one mapping for each row that the sample leaves behind: what the row says where
    solving fails before the row is whole.
    """

    key: Mapping[str, Any]
    data: Any = None
    failure: Sequence[Mapping[str, Any]] = ({},)


@dataclass
class Attempt:
    """What solving leaves: a solver fills ``rows`` (there from the start) and adds ``steps``.

    Both are kept where an error ends it. A row is whole when it has every key of its ``failure``.
    """

    rows: list[Row]
    steps: list[Row] = field(default_factory=list)


Solver = Callable[[Sample, Attempt], None]


@dataclass(frozen=True)
class Task:
    """What the runner has to know of an evaluation.

    ``dataset`` gives an agent's samples. ``solver`` makes an agent's solver, once; what it raises ends
    the run (a model that is not there), what the solver itself raises is counted. ``scorer`` turns all
    rows of ``table`` into the rows and tests of ``summary.json``.
    """

    agents: Sequence[str]
    dataset: Callable[[str], Sequence[Sample]]
    solver: Callable[[str], Solver]
    scorer: Callable[[Sequence[Row]], Summary]
    table: str = "episodes"
    unit: str = "episode"


def run_task(task: Task, out: str, args: Mapping[str, Any]) -> dict[str, Any]:
    """Solve what ``out`` does not hold yet, all agents in turn; returns the summary.

    ``args`` are written to ``args.json``; raises ``UserError`` where ``out`` has others.
    """
    run = RunDirectory(out, args)
    samples = [[(agent, sample) for sample in task.dataset(agent)] for agent in task.agents]
    todo = [one for turn in zip_longest(*samples) for one in turn if one is not None]
    done = _clean(run, task.table, todo)
    left = [(agent, sample) for agent, sample in todo if _identity(agent, sample.key) not in done]
    if done and left:
        run.note_resumption(args)
    solvers: dict[str, Solver] = {}
    start = len(todo) - len(left)
    with tqdm(total=len(todo), initial=start, unit=task.unit, disable=None) as bar:
        for agent, sample in left:
            bar.set_description(" ".join([agent, *(f"{k} {v}" for k, v in sample.key.items())]))
            if agent not in solvers:
                solvers[agent] = task.solver(agent)
            _solve(run, task.table, solvers[agent], agent, sample)
            bar.update()
    return run.summarise(*task.scorer(run.rows(task.table)))


def run_bench(
    name: str,
    parts: Parts,
    out: str,
    args: Mapping[str, Any],
    finish: Callable[[Sequence[Row]], list[Row]] = list,
) -> dict[str, Any]:
    """Measure the parts of a benchmark that ``out`` does not hold yet, one after another.

    A part that fails is a row with its error. ``finish`` makes the summary's rows of all parts' rows.
    """
    samples = [Sample({"part": part}, measure, [{"rows": []}]) for part, measure in parts.items()]

    def solve(sample: Sample, attempt: Attempt) -> None:
        attempt.rows[0]["rows"] = sample.data()

    def scorer(rows: Sequence[Row]) -> Summary:
        measured = [
            one
            for row in rows
            for one in row["rows"] or [{"agent": row["part"], "n": 0, "error": row["error"]}]
        ]
        return finish(measured), []

    task = Task([name], lambda _: samples, lambda _: solve, scorer, "parts", "part")
    return run_task(task, out, args)


def _solve(run: RunDirectory, table: str, solver: Solver, agent: str, sample: Sample) -> None:
    head = {"agent": agent, **sample.key}
    attempt = Attempt([{"error": None} for _ in sample.failure])
    started, worked = time.perf_counter(), time.process_time()
    try:
        solver(sample, attempt)
    except Exception as error:  # one bad sample must not end a long run; it is counted
        problem = f"{type(error).__name__}: {' '.join(str(error).split())}"
        for row, failure in zip(attempt.rows, sample.failure, strict=True):
            if not failure.keys() <= row.keys():
                row |= {**failure, "error": problem}
        run.append("errors", {**head, "step": len(attempt.steps), "error": problem})
    count = len(attempt.rows)
    spent = {
        "seconds": round((time.perf_counter() - started) / count, 4),
        # A model server's own time is not counted.
        "cpu_seconds": round((time.process_time() - worked) / count, 4),
    }
    if attempt.steps:
        run.append("steps", *({**head, **step} for step in attempt.steps))
    run.append(table, *({**head, **spent, **row} for row in attempt.rows))


def _clean(run: RunDirectory, table: str, todo: Sequence[tuple[str, Sample]]) -> set[Any]:
    """Return the identities of what is solved; remove what a kill left of anything else."""
    names = list(todo[0][1].key) if todo else []

    def identity(row: Mapping[str, Any]) -> Any:
        return _identity(str(row.get("agent")), {name: row.get(name) for name in names})

    count = Counter(identity(row) for row in run.rows(table))
    wanted = {_identity(agent, sample.key): len(sample.failure) for agent, sample in todo}
    done = {one for one, rows in wanted.items() if count[one] == rows}
    for name in (table, "steps", "errors"):
        run.keep(name, lambda row: identity(row) in done)
    return done


def _identity(agent: str, key: Mapping[str, Any]) -> Any:
    return (agent, *key.values())
