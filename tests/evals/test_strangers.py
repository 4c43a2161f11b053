"""Other agents' episodes measured: clicks ranked, actions foreseen, beside what is simpler."""

import json

from stategate.envs.webshop import WebShop
from stategate.envs.webshop.people import session_goals
from stategate.evals.worlds.strangers import run_strangers
from stategate.trainers.webshop.collect import collect


def test_rankers_and_the_state_are_measured_beside_what_is_simpler(tmp_path):
    collect("sample", tmp_path, n=1, heldout=2, others=())
    (tmp_path / "heldout.jsonl").rename(tmp_path / "others.jsonl")
    summary = run_strangers([str(tmp_path / "others.jsonl")], str(tmp_path / "run"))
    rows = {row["agent"]: row for row in summary["rows"]}
    names = ("trained", "bm25", "minilm", "page order", "random order")
    assert {f"{name}@others" for name in names} < set(rows)
    assert 0 < rows["random order@others"]["recall@1"] < rows["random order@others"]["recall@5"]
    assert rows["page kind's commonest@others"]["accuracy"] > 0.3
    assert {test["metric"] for test in summary["tests"]} == {"recall@1", "recall@5", "accuracy"}
    first = json.loads((tmp_path / "run" / "episodes.jsonl").read_text().splitlines()[0])
    assert all(move["action"] for move in first["moves"])


def test_goals_of_recorded_sessions_are_asked_where_a_product_meets_them(tmp_path):
    shop = WebShop.load("sample", "rich")
    goal = next(g for g in shop.goals if g["goal_options"])
    asked = {**goal, "asin": "B000000000", "instruction_text": "something  nice"}
    asked["goal_options"] = list(goal["goal_options"].values())
    nowhere = {**asked, "attributes": ["made of moonlight"]}
    for name, one in (("a", asked), ("b", nowhere)):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({"goal": one}) + "\n")
    found = session_goals(tmp_path, shop.products, shop.prices)
    assert [g["session"] for g in found] == ["a"]
    world = WebShop.load("sample", "rich", sessions=tmp_path)
    number = len(world.goals) - 1
    assert world.goals[number]["instruction_text"] == "something nice"
    assert world.oracle(number) == 1.0
    assert number in world.ranges["human"]
