"""One way to run every evaluation: samples, a solver and a scorer, into a run directory.

    def make() -> Task:
        return Task(agents, samples, solver, scorer, args)

    summary = run_task(make, "runs/mine")

A run that was stopped goes on: what is solved is not solved again, and what a kill left half-written
is. A sample whose solving fails is counted with the values of a failure, never dropped.
"""

import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

from stategate.stores.errors import ModelUnavailable, UserError, error_with_type, require_extra
from stategate.stores.progress import Progress
from stategate.stores.runs import RunDirectory, provenance
from stategate.stores.workers import Crew, work

Row = dict[str, Any]
Summary = tuple[Sequence[Row], Sequence[Row]]  # rows and tests of summary.json


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

    Both are kept where an error ends it. A row is whole when it has every key of its ``failure``. The
    runner notes an error, and that the model's server was away.
    """

    rows: list[Row]
    steps: list[Row] = field(default_factory=list)
    problem: str | None = None
    outage: str | None = None


Solver = Callable[[Sample, Attempt], None]
#: An agent, and the values of a sample's key.
Identity = tuple[Any, ...]


@dataclass(frozen=True)
class Task:
    """What the runner has to know of an evaluation.

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

    def by_identity(self) -> dict[Identity, Sample]:
        """Return what is to be solved, all agents in turn."""
        return {
            (agent, *sample.key.values()): sample
            for sample in self.samples
            for agent in self.agents
        }

    def identity_of(self, row: Mapping[str, Any]) -> Identity:
        """Return whose row it is."""
        return (row.get("agent"), *(row.get(name) for name in self.samples[0].key))


def run_task(make: Callable[[], Task], out: str, crew: Crew | None = None) -> dict[str, Any]:
    """Solve what ``out`` does not hold yet of the task that ``make`` makes; return the summary.

    Each worker of a ``crew`` makes the task anew: ``make`` must be picklable then. Raises ``UserError``
    where ``out`` has other arguments, or where a model's server is away.
    """
    with require_extra("eval"):  # before the work that they are to sum up
        import scipy  # noqa: F401
        import tabulate  # noqa: F401

    task = make()
    samples = task.by_identity()
    args = {**provenance(), **task.args}
    run = RunDirectory(out, args)
    with run.alone():
        done = _clean(run, task)
        remaining = [identity for identity in samples if identity not in done]
        if done and remaining:
            run.note_resumption(args)
        start = partial(_serve, make) if crew else (lambda serve: serve(_solve_with(task)))
        with Progress(total=len(samples), initial=len(done), unit=task.unit) as bar:
            for identity, attempt, problem in work(start, remaining, crew):
                sample = samples[identity]
                if attempt is None:
                    nothing = {"error": problem, "seconds": 0.0, "cpu_seconds": 0.0}
                    failed = [{**values, **nothing} for values in sample.failure]
                    attempt = Attempt(failed, problem=problem)
                if attempt.outage:
                    why = f"stopped: {attempt.outage}"
                    raise UserError(f"{why}; the same command goes on from here")
                if attempt.problem and crew:
                    Progress.write(f"{identity}: {attempt.problem}", file=sys.stderr)
                bar.set_description_str(" ".join(map(str, identity)))
                bar.update()
                _write(run, task.table, {"agent": identity[0], **sample.key}, attempt)
        # As one process after another writes them, whoever was quicker: same rows, same statistics.
        order = {identity: place for place, identity in enumerate(samples)}
        rows = sorted(run.rows(task.table), key=lambda row: order[task.identity_of(row)])
        return run.summarise(*task.scorer(rows))


def _serve(make: Callable[[], Task], serve: Callable[[Callable[[Any], Any]], None]) -> None:
    """Make the task, then solve the samples that are asked for (in a worker)."""
    serve(_solve_with(make()))


def _solve_with(task: Task) -> Callable[[Identity], Attempt]:
    """Return what solves a sample; an agent's solver is made when its first sample comes."""
    samples, solver_of = task.by_identity(), cache(task.solver)

    def solve(identity: Identity) -> Attempt:
        sample, solver = samples[identity], solver_of(identity[0])
        attempt = Attempt([{"error": None} for _ in sample.failure])
        started, worked = time.perf_counter(), time.process_time()
        try:
            solver(sample, attempt)
        except ModelUnavailable as error:  # nothing of the agent's doing: it is solved later
            attempt.outage = str(error)
        except Exception as error:  # one bad sample must not end a long run; it is counted
            attempt.problem = error_with_type(error, 1000)
            for row, failure in zip(attempt.rows, sample.failure, strict=True):
                if not failure.keys() <= row.keys():
                    row |= {**failure, "error": attempt.problem}
        count = len(attempt.rows)
        spent = {
            "seconds": round((time.perf_counter() - started) / count, 4),
            # A model server's own time is not counted.
            "cpu_seconds": round((time.process_time() - worked) / count, 4),
        }
        attempt.rows = [{**spent, **row} for row in attempt.rows]
        return attempt

    return solve


def _write(run: RunDirectory, table: str, head: Row, attempt: Attempt) -> None:
    if attempt.problem is not None:
        run.append("errors", {**head, "step": len(attempt.steps), "error": attempt.problem})
    if attempt.steps:
        run.append("steps", *({**head, **step} for step in attempt.steps))
    run.append(table, *({**head, **row} for row in attempt.rows))


def _clean(run: RunDirectory, task: Task) -> set[Identity]:
    """Return the identities of what is solved; remove what a kill left of anything else."""
    count = Counter(map(task.identity_of, run.rows(task.table)))
    samples = task.by_identity()
    done = {one for one, sample in samples.items() if count[one] == len(sample.failure)}
    for name in (task.table, "steps", "errors"):
        run.keep(name, lambda row: task.identity_of(row) in done)
    return done
