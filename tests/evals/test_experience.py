"""The evaluation of experience end to end on the sample catalogue, and its tables."""

import json

import pytest

from stategate.evals.bench.stores import bank_parts
from stategate.evals.worlds.experience import agents_for, run_experience
from stategate.nodes.build_context.experience import contrasts
from stategate.nodes.models.embedders import Hashing
from stategate.nodes.resources import Resources
from stategate.stores.bank.state_bank import StateBank
from stategate.stores.errors import UserError
from stategate.trainers.bank.build import build_state_bank, build_trace_bank
from stategate.trainers.bank.sources import read_episodes
from stategate.trainers.webshop.practice import practise

HASHED = ["embedder.kind=hashing", "memory=[short_term]"]


@pytest.fixture(scope="module")
def banks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("banks")
    practise("webshop", "100-111", folder / "p.sqlite", HASHED[:1], ["careful", "kind"])
    resources = Resources(None, Hashing())
    read = read_episodes([folder / "p.sqlite"], include_incorrect=True)
    build_state_bank(folder / "state", read.found, resources)
    build_trace_bank(folder / "trace", read.found, resources)
    return str(folder / "state"), str(folder / "trace")


@pytest.fixture(scope="module")
def run(banks, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "exp"
    summary = run_experience(
        "webshop-experience",
        range(12),
        str(out),
        *banks,
        "full",
        [*HASHED, "actor.search=search_kind"],
    )
    return out, summary


def test_every_agent_plays_the_same_goals(run):
    out, summary = run
    names = {row["agent"]: row["n"] for row in summary["rows"] if row["agent"] != "oracle"}
    agents = {"none", "state", "gated", "trace"}
    assert names == dict.fromkeys(agents, 12)
    assert {test["a"] for test in summary["tests"]} == {"none"}
    args = json.loads((out / "args.json").read_text())
    assert {"main state bank", "main trace bank"} <= set(args["checkpoints"])
    steps = [json.loads(line) for line in (out / "steps.jsonl").read_text().splitlines()]
    advised = {row["agent"] for row in steps if row.get("advice")}
    assert advised >= agents - {"none", "gated"}
    assert not any(row.get("advice") for row in steps if row["agent"] == "none")


def test_every_agent_sets_its_own_recipe_whatever_the_preset_says(run):
    out, _ = run
    agents = json.loads((out / "args.json").read_text())["agents"]
    seen = {
        name: tuple(agents[name]["context"][key] for key in ("gate", "pick", "top_k"))
        for name in agents
        if agents[name]["context"]["kind"] == "experience"
    }
    assert seen["state"] == ("none", "best", 10)
    assert seen["gated"] == ("alike", "proven", 60)
    assert len(set(seen.values())) == len(seen)


def test_agents_that_search_by_the_recurrent_state_need_a_bank_that_holds_it(banks, tmp_path):
    assert not any(" by " in name for name in agents_for("full", banks[0], None))
    bank = StateBank(tmp_path / "b", "any", "gru/0123", create=True)
    bank.bank.close()
    learned = agents_for("full", str(tmp_path / "b"), None)
    assert {"state by both", "gated by state"} < set(learned)
    assert "updater.kind=gru" in learned["gated by state"]
    assert not any("updater" in change for change in learned["gated"])
    with pytest.raises(UserError, match="no agent 'gated by state' with these banks: state, "):
        run_experience(
            "webshop-experience", [0], str(tmp_path / "x"), *banks, names=["gated by state"]
        )


def test_without_banks_there_is_nothing_to_compare(tmp_path):
    with pytest.raises(UserError, match="--state-bank"):
        run_experience("webshop-experience", [0], str(tmp_path / "x"), None, None)


def test_the_bench_measures_recall_against_all_vectors(banks):
    parts = bank_parts(StateBank(banks[0]), [400], Resources(None, Hashing()))
    assert list(parts) == ["400 states", "embedding"]
    (row,) = parts["400 states"]()
    assert row["states"] == 400
    assert row["recall_at_10"] == 1.0  # small banks are searched whole
    assert row["search_ms_p95"] >= row["search_ms_p50"] > 0
    assert row["wide_ms_p95"] >= row["wide_ms_p50"] > 0


def test_a_move_is_compared_with_others_of_the_same_past_task_only():
    tried = [("easy", "open", 9.0), ("easy", "buy now", 8.0), ("hard", "open", 2.0)]
    tried += [("hard", "buy now", 4.0), ("hard", "buy now", 6.0), ("alone", "features", 10.0)]
    assert contrasts(tried) == {"open": [1.0, -3.0], "buy now": [-1.0, 3.0]}
