"""Where episodes fail: each kind made by hand, and the pages that are made of them."""

import json

import pytest

from envs.webshop import WebShop
from evals.annotated import choose, write_page
from evals.failures import KINDS, classify, main, run_failures
from evals.worlds.live import run_live


@pytest.fixture(scope="module")
def world():
    return WebShop.load("sample")


def bought(world, goal, **changes):
    """Return the actions that find and buy the goal's product with its options."""
    wanted = world.goals[goal]
    options = {**dict(wanted["goal_options"]), **changes}
    clicks = [f"click[{value}]" for value in options.values() if value is not None]
    return [
        f"search[{wanted['name']}]",
        f"click[{wanted['asin'].lower()}]",
        *clicks,
        "click[buy now]",
    ]


def with_options(world):
    return next(i for i, goal in enumerate(world.goals)
                if goal["goal_options"] and world.oracle(i) == 1.0)  # fmt: skip


def test_each_kind_is_told_apart(world):
    goal = with_options(world)
    whole = bought(world, goal)
    assert classify(world, goal, whole)["kind"] == "won"
    assert classify(world, goal, whole[:-1])["kind"] == "buy"
    assert classify(world, goal, ["search[zzzz]"])["kind"] == "search"
    group = next(iter(world.goals[goal]["goal_options"]))
    assert classify(world, goal, bought(world, goal, **{group: None}))["kind"] == "option"
    session, page = world.step(world.reset(goal=goal)[0], whole[0])
    others = [a for a in page.actions if a.startswith("click[b0") and a != whole[1]]
    other = next(a for a in others if world.step(
        world.step(session, a)[0], "click[buy now]")[1].reward < 1)  # fmt: skip
    told = classify(world, goal, [whole[0], other, "click[buy now]"])
    assert told["kind"] == "product"
    assert f"click[{told['bought'].lower()}]" == other


def test_five_and_five_and_every_kind_of_failure_before_any_comes_twice():
    rows = [
        {"goal": i, "kind": kind} for i, kind in enumerate(["won"] * 7 + ["buy"] * 4 + ["search"])
    ]
    chosen = choose(rows)
    assert [row["kind"] for row in chosen] == ["won"] * 5 + ["buy", "search", "buy", "buy", "buy"]


def test_a_live_run_is_classified_and_told(tmp_path, capsys):
    live = tmp_path / "live"
    run_live(
        "webshop", {"rule": ["actor.kind=rule"]}, list(range(12)), str(live), ["updater.kind=none"]
    )
    summary = run_failures(live, "sample", str(tmp_path / "failures"))
    row = summary["rows"][0]
    assert row["n"] == 12
    assert sum(row[f"{kind} %"] for kind in KINDS) == pytest.approx(100)
    won = json.loads((live / "summary.json").read_text())["rows"][0]["success"]
    assert row["won %"] == pytest.approx(100 * won)
    write_page(tmp_path / "failures", live, "sample", tmp_path / "page.md")
    page = (tmp_path / "page.md").read_text()
    lines = (tmp_path / "failures/episodes.jsonl").read_text().splitlines()
    assert page.count("## Goal") == len(choose([json.loads(line) for line in lines]))
    with pytest.raises(SystemExit) as stop:
        main([str(tmp_path / "none"), "--out", str(tmp_path / "x")])
    assert stop.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1
