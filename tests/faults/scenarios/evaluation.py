"""An evaluation of two agents into a run directory."""

import json

from stategate.evals.core.statistics import summary_row
from stategate.evals.core.task import Sample, Task, run_task

NUMBERS = range(8)


def prepare():
    pass


def work(folder, acknowledge):
    samples = [Sample({"number": n}, n, {"value": 0.0}) for n in NUMBERS]

    def solver(agent):
        def solve(sample, row):
            row["value"] = float(sample.data * (1 + (agent == "b")))
            if sample.data == 5:
                raise RuntimeError("a bad sample")

        return solve

    def scorer(rows):
        values = {
            a: {r["number"]: {"value": r["value"]} for r in rows if r["agent"] == a} for a in "ab"
        }
        return [summary_row(name, units, ["value"]) for name, units in values.items()], []

    task = Task(["a", "b"], samples, solver, scorer, {"seed": 0})
    summary = run_task(lambda: task, str(folder / "run"))
    acknowledge(["summary", summary["rows"]])


def _rows(path):
    return (
        [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]] if path.exists() else []
    )


def check(folder, acknowledged):
    run = folder / "run"
    episodes = _rows(run / "episodes.jsonl")
    keys = [(row["agent"], row["number"]) for row in episodes]
    assert len(keys) == len(set(keys)), f"an episode is there twice: {keys}"
    summary = (
        json.loads((run / "summary.json").read_text()) if (run / "summary.json").exists() else None
    )
    for _, rows in acknowledged:
        assert summary is not None
        assert summary["rows"] == rows
        assert len(_rows(run / "errors.jsonl")) == 2
    return [summary and summary["rows"], sorted(keys)]
