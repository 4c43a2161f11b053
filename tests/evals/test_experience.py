"""Agents with banks of experience, through the evaluation of worlds; the benchmark of a bank."""

import json

import pytest

from stategate.evals.bench import bench_bank
from stategate.evals.settings import BenchBank
from stategate.nodes.build_context.experience import contrasts
from stategate.nodes.models.embedders import Hashing
from stategate.nodes.resources import Resources
from stategate.trainers.bank.build import build_state_bank, build_trace_bank
from stategate.trainers.bank.sources import read_episodes
from tests.kit import play_live

HASHED = ["embedder.kind=hashing", "memory=[short_term]"]


@pytest.fixture(scope="module")
def banks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("banks")
    styles = {"careful": ["actor.kind=rule"], "kind": ["actor.search=search_kind"]}
    traced = f"memory=[short_term, {{kind: trace, path: '{folder / 'p.sqlite'}'}}]"
    play_live("webshop", styles, "100-105", folder / "run", ["context.kind=full", traced])
    resources = Resources(None, Hashing())
    read = read_episodes([folder / "p.sqlite"], include_incorrect=True)
    build_state_bank(folder / "state", read.episodes, resources)
    build_trace_bank(folder / "trace", read.episodes, resources)
    return str(folder / "state"), str(folder / "trace")


def test_advised_agents_play_the_same_goals_and_their_banks_are_named(banks, tmp_path):
    state, trace = banks
    agents = {
        "none": ["context.kind=full"],
        "nearest": [f"context.bank={state}", "context.gate=none"],
        "trace": ["context.kind=experience_trace", f"context.bank={trace}"],
    }
    out = tmp_path / "run"
    settings = [*HASHED, "actor.search=search_kind"]
    summary = play_live("webshop-experience", agents, "0-5", out, settings)
    rows = {row["agent"]: row["n"] for row in summary["rows"]}
    assert rows == dict.fromkeys(agents, 6)
    assert {test["a"] for test in summary["tests"]} == {"none"}
    args = json.loads((out / "args.json").read_text())
    assert {"bank state", "bank trace"} <= set(args["checkpoints"])
    steps = [json.loads(line) for line in (out / "steps.jsonl").read_text().splitlines()]
    assert {row["agent"] for row in steps if row.get("advice")} == {"nearest", "trace"}


def test_the_bench_measures_search(banks):
    (row,) = bench_bank(BenchBank(bank=banks[0], sizes="400", out="unused"))
    assert row["states"] == 400
    assert row["search_ms_p95"] >= row["search_ms_p50"] > 0


def test_a_move_is_compared_with_others_of_the_same_past_task_only():
    tried = [("easy", "open", 9.0), ("easy", "buy now", 8.0), ("hard", "open", 2.0)]
    tried += [("hard", "buy now", 4.0), ("hard", "buy now", 6.0), ("alone", "features", 10.0)]
    assert contrasts(tried) == {"open": [1.0, -3.0], "buy now": [-1.0, 3.0]}
