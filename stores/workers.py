"""Jobs on several processes of this machine, or on a Ray cluster; each job's result is taken once.

    def start():                 # in each worker: load what is heavy, return what solves a job
        return partial(solve, load())

    for job, result, problem in work(start, jobs, Shared(workers=4)):
        ...

The caller keeps the ledger. A worker, or the node that it runs on, may die or be stopped at its
deadline: its job is given to another worker, :data:`TRIES` times in all. No engine repeats anything by
itself (``max_task_retries=0``). A caller that dies takes its workers with it.
"""

import contextlib
import logging
import os
import pickle
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from stategate.stores.errors import UserError, error_with_type, user_error_context

if TYPE_CHECKING:
    from stategate.stores.settings import Shared

Solve = Callable[[Any], Any]
#: A job and its result, or the problem that kept it from having one.
Done = tuple[Any, Any, str | None]
#: Called in a worker; returns what solves a job.
Start = Callable[[], Solve]
TRIES = 3
#: Seconds that a worker may take to be ready: models and catalogues are loaded in them.
_START = 900.0
_BROKEN = "a worker cannot start"
#: Each worker is one of several on the same cores.
_PINNED = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"), "1"
)


def work(start: Start, jobs: Sequence[object], shared: "Shared | None") -> Iterator[Done]:
    """Yield each job once, as it is done. Raises ``UserError`` where a worker cannot start.

    What is not ``shared`` is done here, one after another: ``start`` need not be picklable then, and
    what a job raises is raised.
    """
    if shared is None or not shared.is_shared:
        solve = start()
        for job in jobs:
            yield job, solve(job), None
        return
    with user_error_context(
        "this cannot be given to workers", "leave --workers out", kinds=Exception
    ):
        packed = pickle.dumps(start)
    spawn: _Spawn = partial(WorkerProcess, _PINNED)
    if shared.ray is not None:
        spawn = _on_ray(shared.ray)
    pool = _Pool(spawn, packed, jobs, shared.deadline)
    try:
        for _ in range(min(shared.workers, len(jobs))):
            threading.Thread(target=pool.run, daemon=True).start()
        for _ in jobs:
            done = pool.done.get()
            if isinstance(done, UserError):
                raise done
            yield done
    finally:
        pool.close()


# Workers --------------------------------------------------------------------------------------------


class Answer(NamedTuple):
    """What a worker says of a job, or that it died of it."""

    result: Any
    problem: str | None
    is_dead: bool = False


class Solver:
    """What a worker does: its first job, pickled, returns what solves all others; it never raises."""

    def __init__(self, folder: str = "") -> None:
        """Work in ``folder``, where there is one of that name."""
        self._solve: Solve = self._start
        if folder and Path(folder).is_dir():
            os.chdir(folder)

    def _start(self, packed: bytes) -> None:
        self._solve = pickle.loads(packed)()  # noqa: S301 - made by our own caller

    def solve(self, job: object) -> Answer:
        """Return the answer to a job."""
        try:
            return Answer(self._solve(job), None)
        except UserError as error:
            return Answer(None, str(error))
        except Exception as error:
            return Answer(None, error_with_type(error, 1000))


class WorkerProcess:
    """A solver in a child process; ``quiet`` hides what its libraries print."""

    def __init__(self, environment: Mapping[str, str], quiet: bool = False) -> None:
        self._pipe, theirs = Pipe()
        code = "from stategate.stores import workers; workers.serve_pipe()"
        output = subprocess.DEVNULL if quiet else None
        self._process = subprocess.Popen(  # noqa: S603 - this very Python
            [sys.executable, "-P", "-c", code, str(theirs.fileno())],
            pass_fds=(theirs.fileno(),),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, **environment, "PYTHONPATH": _search_path()},
        )
        theirs.close()

    def solve(self, job: object, seconds: float = _START) -> Answer:
        """Return the answer to a job; after ``seconds`` it counts as dead."""
        try:
            self._pipe.send(job)
            if self._pipe.poll(seconds):
                answer: Answer = self._pipe.recv()
                return answer
        except (EOFError, OSError):
            return Answer(None, "its worker died", is_dead=True)
        return Answer(None, "it took longer than its deadline", is_dead=True)

    def end(self) -> None:
        """End it, whatever it does."""
        self._process.kill()
        self._process.wait(10)

    def is_alive(self) -> bool:
        """Say whether it runs."""
        return self._process.poll() is None


def serve_pipe() -> None:
    """Be a worker: read jobs from the pipe that the command line names."""
    pipe: Connection[Answer, Any] = Connection(int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the caller's
    threading.Thread(target=_die_with_parent, daemon=True).start()
    solver = Solver()
    while True:
        try:
            job = pipe.recv()
        except (EOFError, OSError):
            os._exit(0)  # the caller is gone
        pipe.send(solver.solve(job))


def _search_path() -> str:
    return os.pathsep.join(str(Path(path).absolute()) for path in sys.path)


def _die_with_parent() -> None:
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(0)


class _Pool:
    """Workers, each kept busy by a thread of the caller, and the ledger of jobs."""

    def __init__(
        self, spawn: "_Spawn", start: bytes, jobs: Sequence[object], deadline: float
    ) -> None:
        self.done: queue.Queue[Done | UserError] = queue.Queue()
        self._spawn, self._start, self._jobs, self._deadline = spawn, start, jobs, deadline
        self._queue = deque((number, 1) for number in range(len(jobs)))
        self._workers: list[WorkerProcess | _RayWorker] = []
        self._is_closed = False

    def run(self) -> None:
        """Solve jobs, on one worker after another, until none is left."""
        deaths = 0
        try:
            while self._queue and not self._is_closed:
                worker = self._spawn()
                self._workers.append(worker)
                ready = worker.solve(self._start, _START)
                # Its machine may go as it starts.
                deaths = deaths + 1 if ready.is_dead else 0
                if ready.problem is None:
                    self._dispatch(worker)
                elif not ready.is_dead or deaths == TRIES:
                    raise UserError(f"{_BROKEN}: {ready.problem}")
                worker.end()
        except UserError as error:
            self.done.put(error)
        except Exception as error:
            self.done.put(UserError(f"{_BROKEN}: {error_with_type(error)}"))

    def _dispatch(self, worker: "WorkerProcess | _RayWorker") -> None:
        """Give jobs to a worker until none is left or it dies."""
        while not self._is_closed:
            try:
                number, tries = self._queue.popleft()
            except IndexError:
                return
            answer = worker.solve(self._jobs[number], self._deadline)
            if answer.is_dead and tries < TRIES:
                self._queue.append((number, tries + 1))
                return
            problem = f"{answer.problem} ({tries} times)" if answer.is_dead else answer.problem
            self.done.put((self._jobs[number], answer.result, problem))
            if answer.is_dead:
                return

    def close(self) -> None:
        """End all workers."""
        self._is_closed = True
        for worker in list(self._workers):
            worker.end()


# Ray --------------------------------------------------------------------------------------------------


class _RayWorker:
    """A solver on some node of a Ray cluster."""

    def __init__(self, handle: Any, ray: Any) -> None:
        self._handle, self._ray = handle, ray

    def solve(self, job: object, seconds: float) -> Answer:
        try:
            answer: Answer = self._ray.get(self._handle.solve.remote(job), timeout=seconds)
        except self._ray.exceptions.RayError as error:  # past its deadline, too
            return Answer(None, f"its worker died ({type(error).__name__})", is_dead=True)
        return answer

    def end(self) -> None:
        with contextlib.suppress(Exception):
            self._ray.kill(self._handle, no_restart=True)


#: Starts a worker, here or on a cluster's node.
_Spawn = Callable[[], WorkerProcess | _RayWorker]


def _on_ray(address: str) -> "_Spawn":
    import ray

    if not ray.is_initialized():
        host, colon, port = address.removeprefix("ray://").rpartition(":")
        kinds = (OSError, ValueError, RuntimeError)
        fix = "start one with `ray start --head`"
        with user_error_context(f"no Ray cluster at '{address}'", fix, kinds):
            if colon and port.isdigit():  # Ray itself tries a dead address for minutes
                socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    spawned = ray.remote(
        num_cpus=1,
        max_restarts=0,
        max_task_retries=0,
        runtime_env={"env_vars": {**_PINNED, "PYTHONPATH": _search_path()}},
        scheduling_strategy="SPREAD",
    )(Solver)
    folder = str(Path.cwd())  # jobs name files as the command's user did
    return lambda: _RayWorker(spawned.remote(folder), ray)
