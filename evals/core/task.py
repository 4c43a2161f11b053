"""One way to run every evaluation: samples, a solver and a scorer, into a run directory.

    def make() -> Task:
        return Task(agents, samples, solver, scorer, args)

    summary = run_task(make, "runs/mine")

A run that was stopped goes on: what is solved is not solved again. A sample whose solving fails is
counted with the values of a failure, never dropped.
"""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import groupby
from typing import Any

from stategate.stores.errors import ModelUnavailable, UserError, error_with_type
from stategate.stores.progress import Progress
from stategate.stores.runs import RunDirectory, provenance
from stategate.stores.settings import Shared
from stategate.stores.workers import work

Row = dict[str, Any]
Summary = tuple[Sequence[Row], Sequence[Row]]  # rows and tests of summary.json


@dataclass(frozen=True)
class Sample:
    """One input. ``key`` identifies its row (the same fields in all samples).

    ``failure`` are the row's values where solving fails.
    """

    key: Mapping[str, Any]
    data: Any = None
    failure: Mapping[str, Any] = field(default_factory=dict)


#: Fills the row of a sample; what it has filled in stays where an error ends it.
Solver = Callable[[Sample, Row], None]
#: An agent, and the values of a sample's key.
Identity = tuple[Any, ...]


@dataclass(frozen=True)
class Task:
    """An evaluation: each agent solves each sample.

    ``solver`` makes an agent's solver, once; what it raises ends the run (a model that is not there),
    what the solver itself raises is counted. ``scorer`` turns all rows of ``table`` into the rows and
    tests of ``summary.json``. ``args`` go to ``args.json``, with what identifies the code.
    """

    agents: Sequence[str]
    samples: Sequence[Sample]
    solver: Callable[[str], Solver]
    scorer: Callable[[Sequence[Row]], Summary]
    args: Mapping[str, Any]
    table: str = "episodes"
    unit: str = "episode"
    #: A field of the samples' key: an agent solves a run of samples that share its value before the
    #: next agent does.
    together: str = ""

    def by_identity(self) -> dict[Identity, Sample]:
        """Return what is to be solved, in the order of solving: by sample, then by agent."""
        groups = groupby(self.samples, lambda sample: sample.key.get(self.together, sample.key))
        return {
            (agent, *sample.key.values()): sample
            for group in [list(samples) for _, samples in groups]
            for agent in self.agents
            for sample in group
        }

    def identity_of(self, row: Mapping[str, Any]) -> Identity:
        """Return the agent and the key of a row."""
        return (row.get("agent"), *(row.get(name) for name in self.samples[0].key))


def run_task(make: Callable[[], Task], out: str, shared: Shared | None = None) -> dict[str, Any]:
    """Solve what ``out`` does not hold yet of the task that ``make`` makes; return the summary.

    Each worker makes the task anew where the work is ``shared``: ``make`` must be picklable then.
    Raises ``UserError`` where ``out`` has other arguments, or where a model's server is away.
    """
    import scipy  # noqa: F401
    import tabulate  # noqa: F401

    task, is_shared = make(), shared is not None and shared.is_shared
    if not (samples := task.by_identity()):
        raise UserError(f"nothing to measure: no agent, or no {task.unit} that fits the flags")
    args = {**provenance(), **task.args}
    run = RunDirectory(out, args)
    with run.alone():
        done = set(map(task.identity_of, run.rows(task.table)))
        remaining = [identity for identity in samples if identity not in done]
        if done and remaining:
            run.note_resumption(args)
        start = partial(_solver_of, make if is_shared else lambda: task)
        with Progress(total=len(samples), initial=len(done), unit=task.unit) as bar:
            for identity, solved, problem in work(start, remaining, shared):
                sample = samples[identity]
                lost = {**sample.failure, "error": problem, "seconds": 0.0, "cpu_seconds": 0.0}
                row = lost if solved is None else solved
                if "outage" in row:
                    why = f"stopped: {row['outage']}"
                    raise UserError(f"{why}; the same command goes on from here")
                if row["error"] and is_shared:
                    Progress.write(f"{identity}: {row['error']}", file=sys.stderr)
                bar.set_description_str(
                    " ".join(str(part) for part in identity if part is not None)
                )
                bar.update()
                run.append(task.table, {"agent": identity[0], **sample.key, **row})
        # Workers finish in any order, and random draws depend on it: sorted, statistics are the same.
        order = {identity: i for i, identity in enumerate(samples)}
        rows = sorted(run.rows(task.table), key=lambda row: order[task.identity_of(row)])
        named = ("agent", *task.samples[0].key, "error")
        run.replace("errors", [{name: r[name] for name in named} for r in rows if r["error"]])
        return run.summarise(*task.scorer(rows))


def _solver_of(make: Callable[[], Task]) -> Callable[[Identity], Row]:
    """Return the function that solves a sample; an agent's solver is made at its first sample."""
    task = make()
    samples, solver_of = task.by_identity(), cache(task.solver)

    def solve(identity: Identity) -> Row:
        sample, solver = samples[identity], solver_of(identity[0])
        row: Row = {"error": None}
        started, worked = time.perf_counter(), time.process_time()
        try:
            solver(sample, row)
        except ModelUnavailable as error:  # not the agent's failure: the sample is solved later
            return {"outage": str(error)}
        except Exception as error:  # one bad sample must not end a long run; it is counted
            row |= {**sample.failure, "error": error_with_type(error, 1000)}
        spent = {
            "seconds": round(time.perf_counter() - started, 4),
            # A model server's own time is not counted.
            "cpu_seconds": round(time.process_time() - worked, 4),
        }
        return {**spent, **row}

    return solve
