"""Kill a process at its n-th write, reopen what it left, and check it.

A scenario is a module of ``tests.faults.scenarios`` with three functions over a folder:

``prepare()``                    loads what should not be loaded again for every trial
``work(folder, acknowledge)``    does the work, or goes on with it; ``acknowledge(value)`` says so
``check(folder, acknowledged)``  raises where something acknowledged is lost, or is there twice

    python -m tests.faults.killing episode --every 7        # each 7th write
    python -m tests.faults.killing memory --every 1 --random 200 --full 50
    python -m tests.faults.killing memory --postgres --every 1 --full 5

Each trial works in a fork of one warmed process, is killed by the preloaded shim (half of the n-th
write is written), or at a random moment, or has a full disk from the n-th write on; then it reopens,
checks, goes on to the end and checks again: the end must be that of a run that nobody killed.

With ``--postgres`` the stores are in a new database of a server for each trial. What is sent to it
counts as a write; each is tried twice, half sent and all sent but its answer not read. In place of a
full disk the server takes nothing more.
"""

import argparse
import ctypes
import importlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from contextlib import nullcontext
from pathlib import Path

from tests.postgres_server import running

HERE = Path(__file__).parent
SCENARIOS = sorted(
    path.stem for path in (HERE / "scenarios").glob("*.py") if path.stem != "__init__"
)
LONGEST = 60  # seconds of a trial, then it hangs
HOW = {"write": 0, "full": 1, "sent": 2}  # how the n-th write goes, as the shim knows it


def build_shim(folder: Path) -> Path:
    """Compile the shim; returns the library."""
    library = folder / "shim.so"
    words = ["cc", "-O1", "-shared", "-fPIC", "-o", str(library), str(HERE / "shim.c"), "-ldl"]
    subprocess.run(words, check=True, capture_output=True, text=True)
    return library


def run_trials(name: str, server: str = "", **plan: int) -> dict:
    """Start a warmed process with the shim in it; returns its report.

    ``plan`` is what :meth:`Inside.report` takes. ``server`` is the URL of a PostgreSQL server, by its
    socket, to keep the stores on.
    """
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # a kill needs no real disk
    with tempfile.TemporaryDirectory(prefix="faults-", dir=memory) as place:
        folder = Path(place).resolve()
        report = folder / "report.json"
        inside = json.dumps([name, str(folder), server, plan])
        env = {
            **os.environ,
            "LD_PRELOAD": str(build_shim(folder)),
            "STATEGATE_HOME": str(folder / "home"),
            "OMP_NUM_THREADS": "1",
            "TOKENIZERS_PARALLELISM": "false",
        }
        words = [sys.executable, "-m", "tests.faults.killing", "--inside", inside]
        done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
        if not report.exists():
            raise AssertionError(done.stderr[-3000:])
        return json.loads(report.read_text())


class Inside:
    """The warmed process: forks a child for each trial."""

    def __init__(self, name: str, place: Path, server: str) -> None:
        self.scenario = importlib.import_module(f"tests.faults.scenarios.{name}")
        self.place, self.server = place, server
        self.random = random.Random(0)
        self.shim = ctypes.CDLL(None)
        self.shim.fault_arm.argtypes = [*[ctypes.c_char_p] * 2, ctypes.c_long, ctypes.c_int]
        self.shim.fault_count.restype = ctypes.c_long
        os.environ["STATEGATE_HOME"] = str(place / "home")
        self.scenario.prepare()
        if server:
            importlib.import_module("psycopg_pool")

    def report(self, every: int = 1, at_random: int = 0, full: int = 0, most: int = 0) -> dict:
        """Try every ``every``-th write (``most`` of them), random moments, full disks.

        Returns counts and problems.
        """
        whole, seconds = self.whole()
        ways = ("write", "sent") if self.server else ("write",)
        places = [(way, n) for n in range(1, whole + 1, every) for way in ways]
        if most and len(places) > most:
            places = sorted(self.random.sample(places, most))
        places += [("moment", self.random.uniform(0, seconds)) for _ in range(at_random)]
        places += [("full", self.random.randint(1, whole)) for _ in range(full)]
        problems, killed = [], 0
        for kind, at in places:
            problem, was_killed = self.trial(kind, at)
            killed += was_killed
            if problem:
                problems.append({"kind": kind, "at": at, "problem": problem})
        return {
            "trials": len(places),
            "killed": killed,
            "full": full,
            "writes": whole,
            "acknowledged": self.all_acknowledged,
            "problems": problems,
        }

    def whole(self) -> tuple[int, float]:
        """Work without a kill; returns how many writes and seconds it takes."""
        folder = self.fresh("whole")
        started = time.perf_counter()
        code, acknowledged, count = self.fork(lambda tell: self.scenario.work(folder, tell), folder)
        if code:
            raise AssertionError(f"the scenario itself fails: {acknowledged}")
        self.all_acknowledged = len(acknowledged)
        self.end = self.checked(folder, acknowledged)
        return count, time.perf_counter() - started

    def trial(self, kind: str, at: float) -> tuple[str, bool]:
        """Hurt one run, look, go on, look again; returns the problem ("" if none)."""
        folder = self.fresh("trial")
        n, after = (0, at) if kind == "moment" else (int(at), 0.0)
        is_full = kind == "full"
        code, acknowledged, _ = self.fork(
            lambda tell: self.scenario.work(folder, tell), folder, n, after, HOW.get(kind, 0)
        )
        was_killed = code == -signal.SIGKILL
        if code == -signal.SIGALRM:
            return f"hangs after {acknowledged[-1:]}", was_killed
        if code > 0 and not is_full:
            return f"failed before it was killed: {acknowledged}", was_killed
        if code > 0:
            failure = str(acknowledged[-1])
            acknowledged = acknowledged[:-1]
            if "UserError" not in failure:
                return f"a full disk is no clear line: {failure[-600:]}", was_killed
        try:
            self.checked(folder, acknowledged)
            code, later, _ = self.fork(lambda tell: self.scenario.work(folder, tell), folder)
            if code:
                return f"does not go on: {later[-1:]}", was_killed
            end = self.checked(folder, [*acknowledged, *later])
        except AssertionError as error:
            return str(error)[-1500:], was_killed
        return ("" if end == self.end else f"another end: {end} != {self.end}"), was_killed

    def checked(self, folder: Path, acknowledged: list) -> object:
        """Check in a process of its own; returns the end that it describes."""
        code, said, _ = self.fork(
            lambda tell: tell(self.scenario.check(folder, acknowledged)), folder
        )
        assert code == 0, said[-1] if said else code
        return said[-1] if said else None

    def fresh(self, name: str) -> Path:
        """Return an empty folder; a database of that name is new, too."""
        folder = self.place / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        if self.server:
            import psycopg

            with psycopg.connect(self.server, autocommit=True) as db:
                db.execute(f"drop database if exists {name} with (force)")
                db.execute(f"create database {name}")
            os.environ["FAULTS_POSTGRES"] = self.server.replace("/postgres?", f"/{name}?")
        return folder

    def fork(
        self, do, folder: Path, n: int = 0, after: float = 0, how: int = 0
    ) -> tuple[int, list, int]:
        """Run ``do`` in a fork; returns exit code (negative: killed), what it told, writes."""
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            self.child(do, folder, n, how, writing)
        os.close(writing)
        if after:
            time.sleep(after)
            os.kill(pid, signal.SIGKILL)
        with os.fdopen(reading) as pipe:
            lines = [json.loads(line) for line in pipe if line.endswith("\n")]
        status = os.waitpid(pid, 0)[1]
        code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        told = [line["told"] for line in lines if "told" in line]
        return code, told, sum(line.get("writes", 0) for line in lines)

    def child(self, do, folder: Path, n: int, how: int, writing: int) -> None:
        def tell(value, tag: str = "told") -> None:
            os.write(writing, (json.dumps({tag: value}) + "\n").encode())

        code = 0
        try:
            sockets = self.server.rpartition("host=")[2]
            signal.alarm(LONGEST)
            self.shim.fault_arm(str(folder).encode(), sockets.encode(), n, how)
            do(tell)
            tell(self.shim.fault_count(), "writes")
        except BaseException:
            code = 1
            tell(traceback.format_exc()[-1500:])
        os._exit(code)


def main() -> None:
    """Try one scenario and print its report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenario", choices=SCENARIOS)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--random", type=int, default=0, dest="at_random")
    parser.add_argument("--full", type=int, default=0, help="trials with a full disk")
    parser.add_argument("--postgres", action="store_true", help="keep the stores on a server")
    plan = vars(parser.parse_args())
    name, is_shared = plan.pop("scenario"), plan.pop("postgres")
    with running("-c fsync=off") if is_shared else nullcontext([""]) as (server, *_):
        report = run_trials(name, server, **plan)
    sys.stdout.write(json.dumps({"scenario": name, **report}, indent=1)[-6000:] + "\n")
    sys.exit(bool(report["problems"]))


def main_inside(name: str, place: str, server: str, plan: dict) -> None:
    """Be the warmed process: write the report into its folder."""
    report = Inside(name, Path(place), server).report(**plan)
    (Path(place) / "report.json").write_text(json.dumps(report))


if __name__ == "__main__":
    main_inside(*json.loads(sys.argv[2])) if sys.argv[1] == "--inside" else main()
