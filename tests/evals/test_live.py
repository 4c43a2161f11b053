"""Live evaluation: run directories, resumption, errors counted, tables made from files."""

import json

import pytest

from stategate.envs.protocols import World
from stategate.envs.webshop.catalogue import SAMPLE
from stategate.evals.worlds import chosen_tasks, spoken_tasks
from stategate.nodes.models.embedders import Hashing
from stategate.nodes.resources import Resources
from stategate.stores.errors import UserError
from stategate.trainers.bank import build_bank, read_episodes
from tests.kit import play_live, read_lines

BASE = ("actor.kind=rule", "updater.kind=none", "memory=[short_term]", "max_steps=20")
AGENTS = {"full": ["context.kind=full"], "small": ["context.kind=full", "context.budget=60"]}


def test_a_run_directory_holds_all_that_a_table_needs(tmp_path):
    (tmp_path / "shop").symlink_to(SAMPLE)
    out = tmp_path / "run"
    settings = (*BASE, f"env.data={tmp_path / 'shop'}")
    summary = play_live("webshop", AGENTS, "0-5", out, settings)
    args = json.loads((out / "args.json").read_text())
    assert str(tmp_path) not in json.dumps(args)  # no path of this machine
    for key in ("command", "commit", "data", "seed", "checkpoints", "versions", "agents", "goals"):
        assert key in args
    assert args["data"]["sha256"]
    assert json.loads((out / "summary.json").read_text()) == summary
    full, small = summary["rows"]
    assert (full["n"], small["n"]) == (6, 6)
    assert full["score"] > small["score"]
    assert small["tokens_per_step"] <= 60
    test = next(t for t in summary["tests"] if t["metric"] == "score")
    assert {"a", "b", "metric", "difference", "low", "high", "p"} <= set(test)
    assert len(read_lines(out / "episodes.jsonl")) == 12


def test_agents_on_other_data_are_not_compared(tmp_path):
    agents = {"a": [], "b": ["env.kind=webshop", "env.data=elsewhere"]}
    with pytest.raises(UserError, match="same env.data"):
        play_live("webshop", agents, "0-1", tmp_path / "run", BASE)
    assert not (tmp_path / "run").exists()


class Rooms(World):
    def tasks(self):
        return [{"room": "attic"}, {"room": "cellar"}]


@pytest.mark.parametrize("number", [2, -1, "1"])
def test_a_sentence_for_a_task_that_is_not_there_is_named_by_its_line(tmp_path, number):
    path = tmp_path / "said.jsonl"
    rows = [{"goal": 1, "say": "the cellar"}, {"goal": number, "say": "the attic"}]
    path.write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(UserError, match="line 2"):
        spoken_tasks(Rooms(), path)


def test_a_world_that_lists_its_tasks_is_asked_for_them():
    assert chosen_tasks(Rooms(), "1") == {1: {"room": "cellar"}}
    assert list(chosen_tasks(Rooms(), "all")) == [0, 1]
    with pytest.raises(UserError, match="tasks 0 to 1"):
        chosen_tasks(Rooms(), "0-5")

    class Alone(World):
        pass

    assert chosen_tasks(Alone(), "all") == {0: {}}


HASHED = ["embedder.kind=hashing", "memory=[short_term]"]


@pytest.fixture(scope="module")
def banks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("banks")
    styles = {"careful": ["actor.kind=rule"], "kind": ["actor.search=search_kind"]}
    traced = f"memory=[short_term, {{kind: trace, path: '{folder / 'p.sqlite'}'}}]"
    play_live("webshop", styles, "100-105", folder / "run", ["context.kind=full", traced])
    resources = Resources(None, Hashing())
    episodes, _ = read_episodes([folder / "p.sqlite"], include_incorrect=True)
    build_bank("state", folder / "state", episodes, resources)
    build_bank("trace", folder / "trace", episodes, resources)
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
    tokens = {row["agent"]: row["tokens_per_step"] for row in summary["rows"]}
    assert tokens["none"] < min(tokens["nearest"], tokens["trace"])
