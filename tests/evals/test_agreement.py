"""Whether actors agree on the order of context builders, on orders that are known."""

import json

import pytest

from evals.agreement import agree, main, rewards_of


def live(folder, rewards, data="d"):
    folder.mkdir()
    (folder / "args.json").write_text(json.dumps({"command": "c", "data": data, "seed": 0}))
    rows = [
        {"agent": agent, "goal": goal, "reward": reward, "done": True, "error": None,
         "tokens": 1, "steps": 1, "seconds": 0.1, "fallbacks": 0, "lost": 0}
        for agent, values in rewards.items() for goal, reward in enumerate(values)
    ]  # fmt: skip
    (folder / "episodes.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "summary.json").write_text(json.dumps({"rows": [], "tests": []}))
    return folder


def by_goal(rewards):
    return {agent: dict(enumerate(values)) for agent, values in rewards.items()}


ONE = {"full": [1, 1, 1, 1], "rag": [0, 0, 1, 0], "compress": [1, 1, 0, 1]}
OTHER = {"full": [1, 1, 1, 1], "rag": [1, 1, 0, 1], "compress": [0, 1, 0, 0]}


def test_equal_orders_have_tau_one_and_opposite_ones_minus_one():
    same = agree(by_goal(ONE), by_goal(ONE))
    assert (same["tau"], same["reversed"], same["n"]) == (1.0, [], 4)
    turned = {"full": ONE["rag"], "rag": ONE["full"], "compress": ONE["compress"]}
    assert agree(by_goal(ONE), by_goal(turned))["tau"] == -1.0


def test_a_reversed_pair_is_named_with_both_differences():
    found = agree(by_goal(ONE), by_goal(OTHER))
    assert found["tau"] == pytest.approx(1 / 3)
    (pair,) = found["reversed"]
    assert (pair["better"], pair["worse"]) == ("compress", "rag")
    first, second = (test["difference"] for test in pair["differences"])
    assert first == pytest.approx(0.5)
    assert second == pytest.approx(-0.5)
    assert found["low"] <= found["tau"] <= found["high"]


def test_only_common_goals_and_agents_count(tmp_path):
    short = {"retrieve": [0, 1], "full": [1, 1], "own": [1, 1]}
    a = rewards_of(live(tmp_path / "a", ONE), {})
    b = rewards_of(live(tmp_path / "b", short), {"retrieve": "rag"}, skip=["own"])
    found = agree(a, b)
    assert (found["builders"], found["n"]) == (["full", "rag"], 2)


def test_the_command_writes_a_run_and_tells_of_mistakes_in_a_line(tmp_path, capsys):
    one, two = live(tmp_path / "one", ONE), live(tmp_path / "two", OTHER)
    main([str(one), str(two), "--out", str(tmp_path / "out")])
    assert "one and two" in capsys.readouterr().out
    (row,) = json.loads((tmp_path / "out" / "summary.json").read_text())["rows"]
    assert row["reversed"] == 1
    alien = live(tmp_path / "alien", ONE, data="other")
    for words in ([str(one), str(alien)], [str(one)], [str(one), str(two), "--same", "x"],
                  [str(one), str(tmp_path / "nowhere")]):  # fmt: skip
        with pytest.raises(SystemExit) as stopped:
            main([*words, "--out", str(tmp_path / "bad")])
        assert stopped.value.code == 2
        said = capsys.readouterr().err
        assert said.startswith("stategate: ")
        assert len(said.splitlines()) == 1
