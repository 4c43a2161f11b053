"""Jobs on several processes of this machine, or on a Ray cluster; each job's result is taken once.

    def start(serve):            # in each worker: load what is heavy, then serve jobs until the end
        tools = load()
        serve(lambda job: solve(tools, job))

    for job, result, problem in work(start, jobs, Crew(workers=4)):
        ...

The caller keeps the ledger. A worker, or the node that it runs on, may die or be stopped at its
deadline: its job is given to another worker, :data:`TRIES` times in all. No engine repeats anything by
itself (``max_task_retries=0``), and of two results of one job the first counts. A caller that dies
takes its workers with it.
"""

import contextlib
import logging
import os
import pickle
import queue
import secrets
import shutil
import socket
import stat
import sys
import tempfile
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple

from stategate.stores.errors import (
    UserError,
    describe_error,
    error_with_type,
    require_extra,
    user_error_context,
)

Solve = Callable[[Any], Any]
#: Called in a worker with ``serve``; it calls that with what solves a job.
Start = Callable[[Callable[[Solve], None]], Any]
TRIES = 3
#: Seconds that a worker may take to be ready: models and catalogues are loaded in them.
_START = 900.0
#: Each worker is one of several on the same cores.
_PINNED = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"), "1"
)
#: In a worker, the folder of its crew on its machine: where what serves all of them is written down.
_CREW = "STATEGATE_CREW"


def shared_folder() -> Path | None:
    """Return a private folder of this worker's crew on this machine; None outside of a crew."""
    named = os.environ.get(_CREW, "")
    if not named:
        return None
    folder = Path(named)
    folder.mkdir(mode=0o700, exist_ok=True)
    about = folder.lstat()
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.getuid() or about.st_mode & 0o077:
        return None  # somebody else's: nothing is shared through it
    return folder


@dataclass(frozen=True)
class Crew:
    """Who works: ``workers`` processes here, or actors of the Ray cluster at ``ray`` ("auto")."""

    workers: int = 1
    ray: str | None = None
    deadline: float = 3600.0

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise UserError("--workers is a number from 1 on")


class Done(NamedTuple):
    """A job and its result, or the problem that kept it from having one."""

    job: Any
    result: Any
    problem: str | None


class _Died(Exception):
    """A worker is gone, with what it was doing."""


def work(start: Start, jobs: Sequence[Any], crew: Crew | None) -> Iterator[Done]:
    """Yield each job once, as it is done. Raises ``UserError`` where a worker cannot start.

    Without a ``crew``, or with one of one, they are done here, one after another: ``start`` need not be
    picklable then, and what a job raises is raised.
    """
    if crew is None or (crew.workers == 1 and crew.ray is None):
        solvers: list[Solve] = []
        start(solvers.append)
        for job in jobs:
            yield Done(job, solvers[0](job), None)
        return
    place = Path(tempfile.gettempdir()) / f"stategate-crew-{secrets.token_hex(8)}"
    own = {**_PINNED, _CREW: str(place)}
    hire = _ray_hire(start, crew, own) if crew.ray else _process_hire(start, own)
    left = deque(range(len(jobs)))
    tries = [0] * len(jobs)
    done: set[int] = set()
    team: list[Any] = []
    try:
        while len(done) < len(jobs):
            while len(team) < min(crew.workers, len(jobs) - len(done)):
                team.append(hire())
            for worker in team:
                if left and worker.is_idle():
                    number = left.popleft()
                    tries[number] += 1
                    worker.take(number, jobs[number])
            for worker in _ready(team, crew.deadline):
                number = worker.number
                try:
                    result = worker.result()
                except _Died as death:
                    worker.end()
                    team.remove(worker)
                    if number is None or number in done:
                        continue
                    if tries[number] < TRIES:
                        left.append(number)
                        continue
                    done.add(number)
                    yield Done(jobs[number], None, f"{death} ({tries[number]} times)")
                    continue
                if number is not None and number not in done:
                    done.add(number)
                    yield Done(jobs[number], *result)
    finally:
        for worker in team:
            worker.end()
        shutil.rmtree(place, ignore_errors=True)


def _ready(team: Sequence[Any], deadline: float) -> list[Any]:
    """Return the workers that have something to say; one past its deadline is stopped."""
    told: list[Any] = type(team[0]).waiting(team, 0.5)
    for worker in team:
        late = worker.seconds() > (deadline if worker.is_known else _START)
        if worker not in told and late:
            worker.end()
            worker.is_late = True
            told.append(worker)
    return told


class _Member:
    """What a worker owes: the job's number, whether it has started up, and since when it is at it."""

    def __init__(self) -> None:
        self.number: int | None = None
        self.is_known = self.is_late = False
        self._since = time.monotonic()

    def is_idle(self) -> bool:
        return self.is_known and self.number is None

    def seconds(self) -> float:
        return 0.0 if self.is_idle() else time.monotonic() - self._since


# Processes of this machine ----------------------------------------------------------------------------


class _Process(_Member):
    """One worker process behind a pipe."""

    def __init__(self, start: bytes, own: dict[str, str]) -> None:
        context = get_context("spawn")
        self._pipe, theirs = context.Pipe()
        with _environment(own):
            self._process = context.Process(
                target=_work_in_process, args=(start, theirs), daemon=True
            )
            self._process.start()
        theirs.close()
        super().__init__()

    def take(self, number: int, job: Any) -> None:
        self.number, self._since = number, time.monotonic()
        with contextlib.suppress(OSError):  # a dead one is seen where its result is asked
            self._pipe.send(job)

    def result(self) -> tuple[Any, str | None] | None:
        if self.is_late:
            raise _Died("it took longer than its deadline")
        try:
            kind, value, problem = self._pipe.recv()
        except (EOFError, OSError):
            raise _Died("its worker died") from None
        if kind == "broken":
            raise UserError(problem)
        if kind == "ready":
            self.is_known = True
            return None
        self.number = None
        return value, problem

    def end(self) -> None:
        self._process.kill()
        self._process.join(10)
        self._pipe.close()

    @staticmethod
    def waiting(team: Sequence["_Process"], seconds: float) -> list["_Process"]:
        by_pipe = {worker._pipe: worker for worker in team}
        return [
            by_pipe[pipe] for pipe in wait(list(by_pipe), seconds) if isinstance(pipe, Connection)
        ]


def _process_hire(start: Start, own: dict[str, str]) -> Callable[[], _Process]:
    packed = _packed(start)
    return lambda: _Process(packed, own)


def _work_in_process(packed: bytes, pipe: Connection) -> None:
    def serve(solve: Solve) -> None:
        pipe.send(("ready", None, None))
        while True:
            try:
                job = pipe.recv()
            except (EOFError, OSError):
                os._exit(0)  # the caller is gone
            pipe.send(("done", *_solved(solve, job)))

    threading.Thread(target=_die_with_parent, daemon=True).start()
    try:
        pickle.loads(packed)(serve)  # noqa: S301 - from this very program's other process
    except UserError as error:
        pipe.send(("broken", None, str(error)))
    except Exception:
        last = traceback.format_exc().strip().splitlines()[-1]
        pipe.send(("broken", None, f"a worker cannot start: {last}"))


def _die_with_parent() -> None:
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(0)


def _solved(solve: Solve, job: Any) -> tuple[Any, str | None]:
    try:
        return solve(job), None
    except Exception as error:
        return None, error_with_type(error, 1000)


# Ray --------------------------------------------------------------------------------------------------


class _Actor(_Member):
    """One Ray actor and the answer that it owes."""

    def __init__(self, handle: Any, ray: Any) -> None:
        self._handle, self._ray = handle, ray
        self._owed: Any = handle.wait_until_ready.remote()
        super().__init__()

    def take(self, number: int, job: Any) -> None:
        self.number, self._since = number, time.monotonic()
        self._owed = self._handle.solve.remote(pickle.dumps(job))

    def result(self) -> tuple[Any, str | None] | None:
        if self.is_late:
            raise _Died("it took longer than its deadline")
        try:
            packed = self._ray.get(self._owed)
        except self._ray.exceptions.RayError as error:
            raise _Died(f"its worker died ({type(error).__name__})") from None
        value, problem = pickle.loads(packed)  # noqa: S301 - from this very program's actor
        self._owed = None
        if not self.is_known:
            if problem:
                raise UserError(problem)
            self.is_known = True
            return None
        self.number = None
        return value, problem

    def end(self) -> None:
        with contextlib.suppress(Exception):
            self._ray.kill(self._handle, no_restart=True)

    @staticmethod
    def waiting(team: Sequence["_Actor"], seconds: float) -> list["_Actor"]:
        owed = {worker._owed: worker for worker in team if worker._owed is not None}
        if not owed:
            return []
        ready, _ = team[0]._ray.wait(list(owed), num_returns=1, timeout=seconds)
        return [owed[reference] for reference in ready]


class Behind:
    """What runs inside a Ray actor: ``start`` in a thread of its own, fed one job at a time."""

    def __init__(self, packed: bytes, folder: str) -> None:
        with contextlib.suppress(OSError):  # another machine may not have it
            os.chdir(folder)  # jobs name files as the command's user did
        self._jobs: queue.Queue[Any] = queue.Queue()
        self._results: queue.Queue[tuple[Any, str | None]] = queue.Queue()
        threading.Thread(target=self._run, args=(packed,), daemon=True).start()

    def _run(self, packed: bytes) -> None:
        def serve(solve: Solve) -> None:
            self._results.put((None, None))
            while True:
                self._results.put(_solved(solve, pickle.loads(self._jobs.get())))  # noqa: S301

        try:
            pickle.loads(packed)(serve)  # noqa: S301 - from this very program's driver
        except BaseException as error:
            told = describe_error(error, 1000)
            is_user = isinstance(error, UserError)
            self._results.put((None, told if is_user else f"a worker cannot start: {told}"))

    def wait_until_ready(self) -> bytes:
        """Return when ``start`` serves, or what kept it from that."""
        return pickle.dumps(self._results.get())

    def solve(self, job: bytes) -> bytes:
        """Solve one job."""
        self._jobs.put(job)
        return pickle.dumps(self._results.get())


def _ray_hire(start: Start, crew: Crew, own: dict[str, str]) -> Callable[[], _Actor]:
    with require_extra("ray"):
        import ray
    packed = _packed(start)
    if not ray.is_initialized():
        try:
            _require_there(str(crew.ray))
            ray.init(address=crew.ray, log_to_driver=False, logging_level=logging.ERROR)
        except (OSError, ValueError, RuntimeError) as error:
            raise UserError(
                f"no Ray cluster at '{crew.ray}' ({describe_error(error)}): "
                "start one with `ray start --head`"
            ) from None
    paths = os.pathsep.join(path or os.getcwd() for path in sys.path)  # noqa: PTH109 - as it is
    environment = {"env_vars": {**own, "PYTHONPATH": paths}}
    hired = ray.remote(
        num_cpus=1,
        max_restarts=0,
        max_task_retries=0,
        runtime_env=environment,
        scheduling_strategy="SPREAD",
    )(Behind)
    return lambda: _Actor(hired.remote(packed, str(Path.cwd())), ray)


def _require_there(address: str) -> None:
    """Try a cluster's address: Ray itself waits for minutes. Raises ``OSError``."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()


def _packed(start: Start) -> bytes:
    with user_error_context(
        "this cannot be given to workers", "leave --workers out", kinds=Exception
    ):
        return pickle.dumps(start)


@contextlib.contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def in_order(start: Start, jobs: Sequence[Any], crew: Crew | None, what: str) -> list[Any]:
    """Return what comes of each job, in the order of the jobs, whoever was quicker (see :func:`work`).

    Raises ``UserError`` for a job that fails in a worker.
    """
    from tqdm import tqdm

    results: dict[int, Any] = {}
    every = work(partial(_numbered, start), list(enumerate(jobs)), crew)
    for (number, _), result, problem in tqdm(every, what, len(jobs), disable=None):
        if problem is not None:
            raise UserError(f"{what}: {problem}")
        results[number] = result
    return [results[number] for number in range(len(jobs))]


def _numbered(start: Start, serve: Callable[[Solve], None]) -> None:
    start(lambda solve: serve(lambda pair: solve(pair[1])))
