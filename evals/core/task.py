"""One way to run every evaluation: a dataset, a solver and a scorer, into a run directory.

    summary = run_task(Task(agents, dataset, solver, scorer), "runs/mine", args)

A run that was stopped goes on: what is solved is not solved again, and what a kill left half-written
is. A sample whose solving fails is counted with the values of a failure, never dropped.
"""

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest
from typing import Any, TypeVar

from stategate.stores.errors import ModelUnavailable, UserError, error_with_type, require_extra
from stategate.stores.progress import Progress
from stategate.stores.runs import RunDirectory, provenance
from stategate.stores.workers import Crew, work

T = TypeVar("T")
Row = dict[str, Any]
Summary = tuple[Sequence[Row], Sequence[Row]]  # rows and tests of summary.json
#: The parts of a benchmark: each measures, and returns summary rows.
Parts = Sequence[Callable[[], list[Row]]]


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
    #: What the runner notes: an error, that the model's server was away, the seconds.
    problem: str | None = None
    outage: str | None = None
    spent: Row = field(default_factory=lambda: {"seconds": 0.0, "cpu_seconds": 0.0})


Solver = Callable[[Sample, Attempt], None]
#: Identity: agent and sample.
Todo = Mapping[Any, tuple[str, Sample]]
_crew: ContextVar[tuple[Crew, Callable[[], Any]] | None] = ContextVar("crew", default=None)
_serving: ContextVar[Callable[[Callable[[Any], Any]], None] | None] = ContextVar(
    "serving", default=None
)


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

    ``args`` are written to ``args.json``, with what identifies the code; raises ``UserError`` where
    ``out`` has others, or where a model's server is away.
    """
    with require_extra("eval"):  # before the work that they are to sum up
        import scipy  # noqa: F401
        import tabulate  # noqa: F401

    samples = [[(agent, sample) for sample in task.dataset(agent)] for agent in task.agents]
    turns = [one for turn in zip_longest(*samples) for one in turn if one is not None]
    todo = {(agent, *sample.key.values()): (agent, sample) for agent, sample in turns}
    players = _Players(task)
    if (serve := _serving.get()) is not None:
        serve(lambda identity: players.solve(*todo[identity]))
        raise SystemExit  # the driver has all that it wants
    args = {**provenance(), **args}
    run = RunDirectory(out, args)
    with run.alone():
        done = _clean(run, task.table, todo)
        remaining = {identity: one for identity, one in todo.items() if identity not in done}
        if done and remaining:
            run.note_resumption(args)
        with Progress(total=len(todo), initial=len(done), unit=task.unit) as bar:
            for identity, attempt in _attempts(players, remaining):
                if attempt.outage:
                    why = f"stopped: {attempt.outage}"
                    raise UserError(f"{why}; the same command goes on from here")
                bar.set_description(" ".join(map(str, identity)))
                bar.update()
                _write(run, task.table, *remaining[identity], attempt)
        # As one process after another writes them, whoever was quicker: same rows, same statistics.
        order = {identity: place for place, identity in enumerate(todo)}
        rows = sorted(run.rows(task.table), key=lambda row: order[_identity(row, todo)])
        return run.summarise(*task.scorer(rows))


def spread(run: Callable[[], T], crew: Crew | None = None) -> T:
    """Return what ``run`` returns, an evaluation whose samples the ``crew`` solves.

    ``run`` goes to the workers, which run it up to its samples: it must be picklable (a module's
    function, or ``functools.partial`` of one), and do nothing before its samples that two could not do
    at once.
    """
    if crew is None or (crew.workers == 1 and crew.ray is None):
        return run()
    token = _crew.set((crew, run))
    try:
        return run()
    finally:
        _crew.reset(token)


def _attempts(players: "_Players", remaining: Todo) -> Iterator[tuple[Any, "Attempt"]]:
    """Yield what comes of each sample, solved here or by the crew."""
    if (spreading := _crew.get()) is None:
        for identity, one in remaining.items():
            yield identity, players.solve(*one)
        return
    crew, run = spreading
    for identity, attempt, problem in work(partial(_serve, run), list(remaining), crew):
        if attempt is None:
            failure = remaining[identity][1].failure
            attempt = Attempt([{**values, "error": problem} for values in failure])
            attempt.problem = problem
        if attempt.problem:
            Progress.write(f"{identity}: {attempt.problem}", file=sys.stderr)
        yield identity, attempt


def _serve(run: Callable[[], Any], serve: Callable[[Callable[[Any], Any]], None]) -> None:
    """Run an evaluation up to its samples, then solve those that are asked for (in a worker)."""
    _crew.set(None)
    _serving.set(serve)
    run()
    raise UserError("this evaluation has no samples to give to workers: leave --workers out")


def run_bench(parts: Parts, out: str, args: Mapping[str, Any]) -> dict[str, Any]:
    """Measure the parts of a benchmark one after another into the run directory ``out``."""
    run = RunDirectory(out, {**provenance(), **args})
    with run.alone():
        return run.summarise([row for measure in parts for row in measure()], [])


class _Players:
    """The solvers of a task, each made once, when its agent's first sample comes."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._solvers: dict[str, Solver] = {}

    def solve(self, agent: str, sample: Sample) -> Attempt:
        """Solve one sample; what goes wrong is in the attempt."""
        if agent not in self._solvers:
            self._solvers[agent] = self._task.solver(agent)
        attempt = Attempt([{"error": None} for _ in sample.failure])
        started, worked = time.perf_counter(), time.process_time()
        try:
            self._solvers[agent](sample, attempt)
        except ModelUnavailable as error:  # nothing of the agent's doing: it is solved later
            attempt.outage = str(error)
        except Exception as error:  # one bad sample must not end a long run; it is counted
            attempt.problem = error_with_type(error, 1000)
            for row, failure in zip(attempt.rows, sample.failure, strict=True):
                if not failure.keys() <= row.keys():
                    row |= {**failure, "error": attempt.problem}
        count = len(attempt.rows)
        attempt.spent = {
            "seconds": round((time.perf_counter() - started) / count, 4),
            # A model server's own time is not counted.
            "cpu_seconds": round((time.process_time() - worked) / count, 4),
        }
        return attempt


def _write(run: RunDirectory, table: str, agent: str, sample: Sample, attempt: Attempt) -> None:
    head = {"agent": agent, **sample.key}
    if attempt.problem is not None:
        run.append("errors", {**head, "step": len(attempt.steps), "error": attempt.problem})
    if attempt.steps:
        run.append("steps", *({**head, **step} for step in attempt.steps))
    run.append(table, *({**head, **attempt.spent, **row} for row in attempt.rows))


def _clean(run: RunDirectory, table: str, todo: Todo) -> set[Any]:
    """Return the identities of what is solved; remove what a kill left of anything else."""
    count = Counter(_identity(row, todo) for row in run.rows(table))
    done = {one for one, (_, sample) in todo.items() if count[one] == len(sample.failure)}
    for name in (table, "steps", "errors"):
        run.keep(name, lambda row: _identity(row, todo) in done)
    return done


def _identity(row: Mapping[str, Any], todo: Todo) -> Any:
    """Return whose row it is: the agent, and the values of its sample's key."""
    _, sample = next(iter(todo.values()))
    return (row.get("agent"), *(row.get(name) for name in sample.key))
