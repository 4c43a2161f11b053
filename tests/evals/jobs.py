"""Small jobs and evaluations for workers: in a module that imports little, so that they start soon."""

import json
import os
import signal
import time
from functools import partial

from stategate.evals.core.task import Sample, Task, run_task
from stategate.stores.errors import ModelUnavailable, UserError


def halves():
    """Return what halves a number, but for one."""

    def halve(number):
        if number == 13:
            raise ValueError("an unlucky number")
        return number / 2

    return halve


def broken():
    """Refuse to start."""
    raise UserError("no model here: fetch it")


def task(folder, numbers, deadly=(), slow=(), away=()):
    """Double numbers; some samples kill their worker, are slow, or find no server."""
    samples = [Sample({"number": n}, n, {"value": 0}) for n in numbers]

    def solver(agent):
        def solve(sample, row):
            mark = folder / f"tried-{sample.data}-{time.monotonic_ns()}"
            mark.touch()
            tries = len(list(folder.glob(f"tried-{sample.data}-*")))
            if sample.data in deadly and tries <= deadly[sample.data]:
                os.kill(os.getpid(), signal.SIGKILL)
            if sample.data in slow and tries == 1:
                time.sleep(60)
            if sample.data in away and not (folder / "server").exists():
                raise ModelUnavailable("the server is away")
            row["value"] = sample.data * 2

        return solve

    def scorer(table):
        return [{"agent": "a", "n": len(table), "sum": sum(row["value"] for row in table)}], []

    return Task(["a"], samples, solver, scorer, {"seed": 0})


def evaluate(folder, numbers, shared=None, **kinds):
    """Run the task, on several processes where it is ``shared``."""
    return run_task(partial(task, folder, numbers, **kinds), str(folder / "run"), shared)


def rows(folder, name="episodes"):
    """Return the rows of a run's table without their times."""
    lines = (folder / f"{name}.jsonl").read_text().splitlines()
    return sorted(
        (
            {k: v for k, v in json.loads(line).items() if not k.endswith("seconds")}
            for line in lines
        ),
        key=str,
    )
