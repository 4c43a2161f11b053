"""The evaluation of experience end to end on the sample catalogue, its tables and its ten steps."""

import json

import pytest
from nodes.experience.advice import contrasts

from evals.bench_bank import measure
from evals.experience import agents_for, base_of, moves, run_experience, subsets
from evals.experience_hindsight import main as hindsight_main
from evals.experience_page import main as page_main
from evals.experience_retrieval import evaluate, sample, summarised
from evals.experience_steps import drawn, judged
from evals.experience_steps import main as steps_main
from nodes.models.embedders import Hashing
from nodes.resources import Resources
from stores.bank.state_bank import StateBank
from stores.errors import UserError
from trainers.bank.sources import read_episodes
from trainers.bank.state_bank import build_state_bank
from trainers.bank.trace_bank import build_trace_bank
from trainers.episodes.practice import practise

HASHED = ["embedder.kind=hashing", "memory=[short_term]"]


@pytest.fixture(scope="module")
def banks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("banks")
    practise("webshop", "100-111", folder / "p.sqlite", HASHED[:1], ["careful", "kind"])
    resources = Resources(None, Hashing())
    read = read_episodes([folder / "p.sqlite"], include_incorrect=True)
    build_state_bank(folder / "state", read.found, resources, progress=False)
    build_trace_bank(folder / "trace", read.found, resources, progress=False)
    return str(folder / "state"), str(folder / "trace")


@pytest.fixture(scope="module")
def run(banks, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "exp"
    summary = run_experience(
        "webshop-experience", range(12), str(out), {"": banks}, ["full"],
        [*HASHED, "actor.search=search_kind"],
    )  # fmt: skip
    return out, summary


def test_every_agent_and_control_plays_the_same_goals(run):
    out, summary = run
    names = {row["agent"]: row["n"] for row in summary["rows"] if row["agent"] != "oracle"}
    agents = {"none", "state", "gated", "random", "shuffled", "gated shuffled", "trace"}
    assert names == dict.fromkeys(agents, 12)
    assert {test["a"] for test in summary["tests"]} == {"none"}
    args = json.loads((out / "args.json").read_text())
    assert {"main state bank", "main trace bank"} <= set(args["checkpoints"])
    steps = [json.loads(line) for line in (out / "steps.jsonl").read_text().splitlines()]
    advised = {row["agent"] for row in steps if row.get("advice")}
    assert advised >= agents - {"none", "gated", "gated shuffled"}
    assert not any(row.get("advice") for row in steps if row["agent"] == "none")


def test_the_page_has_the_subsets_the_moves_and_the_steps(run, banks, tmp_path):
    out, _ = run
    page_main([str(out), "--out", str(tmp_path / "page.md"), "--agents", "state"])
    text = (tmp_path / "page.md").read_text()
    for wanted in ("| state | ", "| agent | advice | goals | better | worse | score |"):
        assert wanted in text
    assert (tmp_path / "runs" / "exp" / "moves.json").exists()
    words = [str(out), "--bank", banks[0], "--agent", "state", "--count", "6"]
    steps_main([*words, "--out", str(tmp_path / "s.md")])
    shown = (tmp_path / "s.md").read_text()
    assert shown.count("\n## ") == 6
    assert shown.count("The past state that was retrieved") == 6
    assert "Question: \n" not in shown
    with pytest.raises(SystemExit):
        steps_main([str(out), "--bank", banks[0], "--agent", "nobody"])


def test_every_agent_sets_its_own_recipe_whatever_the_preset_says(run):
    out, _ = run
    agents = json.loads((out / "args.json").read_text())["agents"]
    seen = {
        name: tuple(agents[name]["context"][key] for key in ("gate", "pick", "top_k", "shuffle_q"))
        for name in agents
        if agents[name]["context"].get("mode") == "state"
    }
    assert seen["state"] == ("none", "best", 10, False)
    assert seen["gated"] == ("alike", "proven", 60, False)
    assert len(set(seen.values())) == len(seen)


def test_agents_that_search_by_the_recurrent_state_need_a_bank_that_holds_it(banks, tmp_path):
    assert not any(" by " in name for name in agents_for("full", banks[0], None))
    bank = StateBank(tmp_path / "b", "any", "gru/0123", create=True)
    bank.bank.close()
    learned = agents_for("full", str(tmp_path / "b"), None)
    assert {"state by both", "gated by state", "gated foreseen"} < set(learned)
    assert "updater.kind=gru" in learned["gated by state"]
    assert not any("updater" in change for change in learned["gated"])
    with pytest.raises(UserError, match="no agent 'gated by state' with these banks: state, "):
        run_experience(
            "webshop-experience", [0], str(tmp_path / "x"), {"": banks}, names=["gated by state"]
        )


def test_without_banks_there_is_nothing_to_compare(tmp_path):
    with pytest.raises(UserError, match="--state-bank"):
        run_experience("webshop-experience", [0], str(tmp_path / "x"), {"": (None, None)})


def test_subsets_and_moves_are_counted_against_the_same_inner_builder():
    goals = range(20)
    episodes = {
        "none": dict.fromkeys(goals, 1.0),
        "state": dict.fromkeys(goals, 0.5),
        "compress: none": dict.fromkeys(goals, 0.0),
        "compress: state": {goal: float(goal < 10) for goal in goals},
    }
    assert base_of("compress: state", episodes) == "compress: none"
    rows = {row["b"]: row for row in subsets(episodes, dict.fromkeys(goals, "shoes"))}
    assert rows["state"]["difference"] == -1.0
    assert rows["compress: state"]["difference"] == 0.5
    steps = [
        {"agent": "compress: state", "goal": goal, "reason": "advice (features), not: x"}
        for goal in (3, 3, 15)
    ]
    (found,) = moves(steps, episodes)
    assert (found["goals"], found["better"], found["worse"]) == (2, 1, 0)


def test_steps_are_judged_by_the_episode_and_drawn_in_turns_from_different_goals():
    episodes = {"none": {1: 0.5, 2: 0.5, 3: 0.5}, "gated": {1: 1.0, 2: 0.0, 3: 0.5}}
    bent = {"agent": "gated", "advice": "Experience: x", "reason": "advice (open), not: y"}
    steps = [{**bent, "goal": goal, "step": step} for goal in (1, 2, 3) for step in (0, 1)]
    steps.append({**bent, "goal": 1, "step": 2, "reason": "its own"})
    found = judged(steps, episodes, "gated")
    assert {verdict: len(rows) for verdict, rows in found.items()} == {
        "helped": 2, "hurt": 2, "no difference": 3,
    }  # fmt: skip
    chosen = drawn(found, 10)
    assert [verdict for verdict, _ in chosen] == ["helped", "hurt", "no difference"]
    assert {row["goal"] for _, row in chosen} == {1, 2, 3}


def test_leaving_a_task_out_means_that_its_own_rows_never_answer(banks):
    bank = StateBank(banks[0])
    rows = sample(bank, 40)
    assert rows
    right = evaluate(bank, rows, Resources(None, Hashing()))
    assert set(right) == {"text", "question alone", "random", "commonest"}
    assert {len(values) for values in right.values()} == {len(rows)}
    found, tests = summarised(right, 0)
    assert [row["agent"] for row in found] == list(right)
    assert {test["a"] for test in tests} == {"text"}
    one = StateBank(banks[0])
    task = rows[0].task
    one_task = {row.task for row in one.bank.rows()} - {task}
    vector = next(iter(one.bank.vectors("text")))[1][0]
    hits = one.search({"text": vector}, 500, without=sorted(one_task))
    assert {hit.row.task for hit in hits} == {task}


def test_the_bench_measures_recall_against_all_vectors(banks):
    (row,) = measure(StateBank(banks[0]), [400])
    assert row["states"] == 400
    assert row["recall_at_10"] == 1.0  # small banks are searched whole
    assert row["search_ms_p95"] >= row["search_ms_p50"] > 0
    assert row["wide_ms_p95"] >= row["wide_ms_p50"] > 0


def test_a_move_is_compared_with_others_of_the_same_past_task_only():
    tried = [("easy", "open", 9.0), ("easy", "buy now", 8.0), ("hard", "open", 2.0)]
    tried += [("hard", "buy now", 4.0), ("hard", "buy now", 6.0), ("alone", "features", 10.0)]
    assert contrasts(tried) == {"open": [1.0, -3.0], "buy now": [-1.0, 3.0]}


def test_hindsight_is_measured_and_goes_on_where_it_stopped(tmp_path):
    record = {
        "task_id": "t", "input": "Find me a lamp", "is_correct": True, "answer": "the green one",
        "trace": [{"action": {"tool": "look", "properties": "", "observation": "a lamp"}}],
    }  # fmt: skip
    lines = [json.dumps({**record, "task_id": f"t{i}", "is_correct": i < 2}) for i in range(3)]
    (tmp_path / "t.jsonl").write_text("\n".join(lines))
    said = [
        '[{"state": 1, "q_value": 3, "experience": "Take the green one."}]',
        "No.", "No.", "No.",
        '[{"state": 1, "q_value": 9, "experience": "Look."}, {"state": 2, "q_value": 2}]',
    ]  # fmt: skip
    words = [str(tmp_path / "t.jsonl"), "--out", str(tmp_path / "run"), "--set", "llm.kind=fake"]
    hindsight_main([*words, "--set", f"llm.replies={json.dumps(said)}", "--limit", "3"])
    row, won, lost = json.loads((tmp_path / "run" / "summary.json").read_text())["rows"]
    assert (row["n"], row["states"], row["usable"]) == (3, 6, pytest.approx(2 / 3))
    assert (row["missing"], row["leaks"], row["calls"]) == (0.25, 0.5, pytest.approx(5 / 3))
    assert row["worth"] == pytest.approx((4 + 5.5) / 2)
    assert (won["n"], lost["n"]) == (2, 1)
    before = (tmp_path / "run" / "episodes.jsonl").read_text()
    hindsight_main([*words, "--set", f"llm.replies={json.dumps(said)}", "--limit", "3"])
    assert (tmp_path / "run" / "episodes.jsonl").read_text() == before
