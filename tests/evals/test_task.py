"""The one runner: resumed, interrupted, failures counted, nothing done twice."""

import json
import sys

import pytest

from stategate.evals.core.statistics import paired_tests, summary_row
from stategate.evals.core.task import Sample, Task, run_task
from stategate.stores.errors import UserError
from tests.kit import call, read_lines

ARGS = {"command": "x", "commit": "a", "versions": {}, "seed": 3}


class Doubling:
    """An evaluation for a test: each sample is a number; ``b`` doubles it, ``a`` does not."""

    def __init__(self, failing=(), stop_after=None, **args):
        self.solved = []
        self.args = {**ARGS, **args}
        self.failing = failing
        self.stop_after = stop_after

    def task(self):
        samples = [Sample({"number": n}, n, {"value": 0.0}) for n in range(4)]
        names = ("numbers", "number")
        return Task(["a", "b"], samples, self.solver, self.score, self.args, *names)

    def solver(self, agent):
        def solve(sample, row):
            if self.stop_after is not None and len(self.solved) >= self.stop_after:
                raise KeyboardInterrupt
            self.solved.append((agent, sample.data))
            row["half"] = True
            if (agent, sample.data) in self.failing:
                raise RuntimeError("the lamp\nfell over")
            row["value"] = float(sample.data * (1 + (agent == "b")))

        return solve

    def score(self, rows):
        values = {
            name: {row["number"]: {"value": row["value"]} for row in rows if row["agent"] == name}
            for name in ("a", "b")
        }
        table = [summary_row(name, units, ["value"]) for name, units in values.items()]
        return table, paired_tests(values, [("a", "b")], ["value"], ARGS["seed"])


def test_agents_take_turns_and_a_summary_is_written(tmp_path):
    evaluation = Doubling()
    summary = run_task(evaluation.task, str(tmp_path / "run"))
    assert evaluation.solved[:3] == [("a", 0), ("b", 0), ("a", 1)]
    assert [(row["agent"], row["n"], row["value"]) for row in summary["rows"]] == [
        ("a", 4, 1.5),
        ("b", 4, 3.0),
    ]
    assert json.loads((tmp_path / "run" / "summary.json").read_text()) == summary
    assert all(
        row["seconds"] >= 0 and row["error"] is None
        for row in read_lines(tmp_path / "run" / "numbers.jsonl")
    )
    again = run_task(Doubling().task, str(tmp_path / "again"))
    assert again == summary, "the same seed gives the same statistics"


def test_a_stopped_run_goes_on_and_solves_nothing_twice(tmp_path):
    out = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        run_task(Doubling(stop_after=3).task, str(out))
    assert not (out / "summary.json").exists()
    rest = Doubling(commit="b")
    run_task(rest.task, str(out))
    assert len(rest.solved) == 5
    assert len(read_lines(out / "numbers.jsonl")) == 8
    assert json.loads((out / "args.json").read_text())["resumed"][0]["commit"] == "b"
    nothing = Doubling()
    run_task(nothing.task, str(out))
    assert not nothing.solved
    with pytest.raises(UserError, match="seed differs"):
        run_task(Doubling(seed=4).task, str(out))


def test_a_failure_is_counted_and_keeps_what_was_there(tmp_path):
    out = tmp_path / "run"
    summary = run_task(Doubling(failing={("b", 3)}).task, str(out))
    assert [row["n"] for row in summary["rows"]] == [4, 4]
    assert summary["rows"][1]["value"] == 1.5
    (error,) = read_lines(out / "errors.jsonl")
    assert error == {"agent": "b", "number": 3, "error": "RuntimeError: the lamp fell over"}
    failed = next(row for row in read_lines(out / "numbers.jsonl") if row["error"])
    assert (failed["value"], failed["half"]) == (0.0, True)


def test_what_prepares_an_agent_ends_the_run(tmp_path):
    def solver(agent):
        raise UserError("no such model: name another")

    task = Task(["a"], [Sample({"number": 0})], solver, lambda rows: ([], []), ARGS)
    with pytest.raises(UserError, match="no such model"):
        run_task(lambda: task, str(tmp_path / "run"))
    assert not (tmp_path / "run" / "errors.jsonl").exists()


def test_a_benchmark_says_how_it_was_run(tmp_path, monkeypatch):
    words = ["eval", "bench", "webshop", "--seed", "3", "--out", str(tmp_path / "run")]
    monkeypatch.setattr(sys, "argv", ["stategate", *words])
    assert "steps_per_s" in call(*words)
    args = json.loads((tmp_path / "run" / "args.json").read_text())
    assert args["command"].endswith("eval bench webshop --seed 3 --out run")
