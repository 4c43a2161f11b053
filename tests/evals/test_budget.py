"""The budget sweep on the sample catalogue, resumed, drawn; lost affordances are counted."""

import pytest

from stategate.evals.worlds.budget import parse_budgets, run_budget
from stategate.stores.errors import UserError


def test_a_sweep_has_a_point_for_each_budget_and_counts_what_was_lost(tmp_path):
    out = tmp_path / "sweep"
    named = ["compress=context.kind=compress,context.allocator=uniform"]
    arguments = ("webshop", ["full"], named, [60, 120], [0, 1], str(out))
    overrides = ["updater.kind=none", "memory=[short_term]"]
    rows = {r["agent"]: r for r in run_budget(*arguments, overrides, 0, [0.5])["rows"]}
    points = {"full@60", "full@120", "compress@60", "compress@120", "compress%50"}
    assert set(rows) == {"full", "oracle", *points}
    assert rows["compress%50"]["tokens_per_step"] < 0.75 * rows["full"]["tokens_per_step"]
    assert rows["full@60"]["lost_per_step"] > 0
    assert rows["compress@60"]["lost_per_step"] == 0
    assert rows["full"]["tokens_per_step"] > rows["full@60"]["tokens_per_step"]
    assert (out / "budget.png").stat().st_size > 1000
    before = (out / "episodes.jsonl").read_bytes()
    run_budget(*arguments, overrides, 0, [0.5])
    assert (out / "episodes.jsonl").read_bytes() == before


def test_budgets_are_numbers():
    with pytest.raises(UserError, match="100,200"):
        parse_budgets("many")
