"""A benchmark is parts that are measured one after another, by the runner of all evaluations."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from evals.core.task import Attempt, Row, Sample, Solver, Summary, Task, run_task

#: Name: what measures it and returns summary rows.
Parts = Mapping[str, Callable[[], list[Row]]]


def run_bench(
    name: str,
    parts: Parts,
    out: str,
    args: Mapping[str, Any],
    finish: Callable[[Sequence[Row]], list[Row]] = list,
) -> dict[str, Any]:
    """Measure the parts that ``out`` does not hold yet; a part that fails is a row with its error.

    ``finish`` makes the summary's rows of those of all parts.
    """
    samples = [Sample({"part": part}, measure, [{"rows": []}]) for part, measure in parts.items()]

    def solve(sample: Sample, attempt: Attempt) -> None:
        attempt.rows[0]["rows"] = sample.data()

    def solver(_: str) -> Solver:
        return solve

    def scorer(rows: Sequence[Row]) -> Summary:
        measured = [
            one
            for row in rows
            for one in row["rows"] or [{"agent": row["part"], "n": 0, "error": row["error"]}]
        ]
        return finish(measured), []

    task = Task([name], lambda _: samples, solver, scorer, "parts", "part")
    return run_task(task, out, args)
