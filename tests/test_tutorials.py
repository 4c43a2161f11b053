"""The tutorials' code, run as a stranger would: packages outside this repository, by entry points."""

import json

import pytest

from tests.kit import Stranger, read_lines

BUILDERS = ("full", "window", "compress", "query_rag", "retrieve")


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return Stranger("writing-a-world.md", tmp_path_factory.mktemp("garden"))


def test_the_world_takes_fifty_lines(world):
    lines = (world.folder / "garden.py").read_text().split("class GardenEnv")[0].splitlines()
    rules = [line for line in lines if line.strip() and not line.startswith(("from", "import"))]
    assert len(rules) <= 50


def test_it_keeps_the_rules_of_the_kit(world):
    check = "from stategate.nodes.conformance import check; check(BetterGarden())"
    shown = (
        "import pytest, sys; sys.exit(pytest.main(['-p', 'no:cacheprovider', 'test_garden.py']))"
    )
    done = world.python("-c", f"from garden_view import BetterGarden; {check}; {shown}")
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_it_is_evaluated_and_its_past_becomes_experience(world):
    words = ["--agents", ",".join(BUILDERS), "--tasks", "0-1", "--out", "runs/garden"]
    world.stategate("eval", "live", "--config", "garden.yaml", *words)
    rows = json.loads((world.folder / "runs/garden/summary.json").read_text())["rows"]
    by_agent = {row["agent"]: row for row in rows}
    assert set(BUILDERS) <= set(by_agent)
    assert all(by_agent[name]["n"] == 2 and by_agent[name]["errors"] == 0 for name in BUILDERS)
    assert by_agent["full"]["success"] == 1.0
    played = read_lines(world.folder / "runs/garden/episodes.jsonl")
    won = {row["agent"] for row in played if row["goal"] == 0 and row["reward"] == 1.0}
    assert {"full", "window", "compress"} <= won
    build = ["garden.sqlite", "--config", "garden.yaml", "--include-incorrect"]
    world.stategate("bank", "build", *build, "--out", "banks/garden")
    advised = ["--set", "context.kind=experience", "--set", "context.bank=banks/garden"]
    told = world.stategate("run", "garden.yaml", "--show", "context", *advised)
    assert "Experience: " in told


def test_the_better_world_shows_past_steps_and_is_won(world):
    play = """
import garden_view, stategate.graph as g
from stategate.nodes.registry import registry
registry().slots["env"]["garden"] = garden_view.BetterGarden
graph = g.build_graph(g.load_config("garden.yaml"))
for thing in ("lantern", "spade", "key"):
    print(g.Session(graph, thing, task={"thing": thing}).run()[-1].reward)
"""
    assert world.python("-c", play).stdout.split() == ["1.0"] * 3


def test_what_plays_another_world_only_is_refused_in_one_line(world):
    done = world.python("-m", "stategate", "run", "garden.yaml", "--actor", "rule")
    assert done.returncode == 2
    assert done.stderr.strip().count("\n") == 0
    assert "actor.kind=rule is made for webshop, not for" in done.stderr
    assert "explore" in done.stderr


def test_a_node_is_found_through_its_entry_point_and_runs_by_config_and_for_one_call(tmp_path):
    node = Stranger("writing-a-node.md", tmp_path)
    done = node.python("-m", "pytest", "-q", "test_overlap.py")
    assert "1 passed" in done.stdout, done.stdout + done.stderr
    done = node.python("use_overlap.py")
    assert done.returncode == 0, done.stderr
    first, second = (line.split() for line in done.stdout.splitlines())
    assert float(first[1]) > 0
    assert first != second
