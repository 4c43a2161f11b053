"""A stranger's world, run as the tutorial says: a package outside this repository, by entry point."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"```\w+ file=(\S+)\n(.*?)```", re.DOTALL)
BUILDERS = ("full", "window", "compress", "query_rag", "retrieve")


@pytest.fixture(scope="module")
def stranger(tmp_path_factory):
    """Write the tutorial's files and install them, by their entry point, in a folder apart."""
    folder = tmp_path_factory.mktemp("garden")
    files = dict(BLOCK.findall((ROOT / "docs" / "writing-a-world.md").read_text()))
    assert {"garden.py", "garden.yaml", "pyproject.toml", "garden_view.py"} <= set(files)
    for name, text in files.items():
        (folder / name).write_text(text)
    site = folder / "site"
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation"]
    subprocess.run([*install, "--target", str(site), str(folder)], check=True, timeout=200)
    paths = os.pathsep.join([str(site), str(folder), str(ROOT)])
    return folder, {**os.environ, "PYTHONPATH": paths}


def run(stranger, *words):
    folder, environment = stranger
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )


def stategate(stranger, *words):
    done = run(stranger, "-m", "stategate.ui.cli.main", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_world_takes_fifty_lines(stranger):
    folder, _ = stranger
    lines = (folder / "garden.py").read_text().split("class GardenEnv")[0].splitlines()
    rules = [line for line in lines if line.strip() and not line.startswith(("from", "import"))]
    assert len(rules) <= 50


def test_it_keeps_the_rules_of_the_kit(stranger):
    done = run(stranger, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_garden.py")
    assert "1 passed" in done.stdout, done.stdout + done.stderr
    done = run(
        stranger,
        "-c",
        "from garden_view import BetterGarden; from stategate.nodes.conformance import check; "
        "check(BetterGarden())",
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("builder", BUILDERS)
def test_every_builder_plays_it(stranger, builder):
    words = ["--set", f"context.kind={builder}", "--task", "thing=lantern", "--json", "-"]
    played = json.loads(stategate(stranger, "run", "garden.yaml", *words))
    assert played["steps"]
    if builder in ("full", "window", "compress"):
        assert played["totals"]["reward"] == 1.0


def test_it_is_evaluated_and_its_past_becomes_experience(stranger):
    folder, _ = stranger
    words = ["--agents", ",".join(BUILDERS), "--tasks", "0-2", "--out", "runs/garden"]
    stategate(stranger, "eval", "live", "--config", "garden.yaml", *words)
    rows = json.loads((folder / "runs/garden/summary.json").read_text())["rows"]
    by_agent = {row["agent"]: row for row in rows}
    assert set(BUILDERS) <= set(by_agent)
    assert all(by_agent[name]["n"] == 3 and by_agent[name]["errors"] == 0 for name in BUILDERS)
    assert by_agent["full"]["success"] == 1.0
    build = ["garden.sqlite", "--config", "garden.yaml", "--include-incorrect"]
    stategate(stranger, "bank", "build", *build, "--out", "banks/garden")
    advised = ["--set", "context.kind=experience", "--set", "context.bank=banks/garden"]
    told = stategate(stranger, "run", "garden.yaml", "--show", "context", *advised)
    assert "Experience: " in told


def test_what_plays_another_world_only_is_refused_in_one_line(stranger):
    done = run(stranger, "-m", "stategate.ui.cli.main", "run", "garden.yaml", "--actor", "rule")
    assert done.returncode == 2
    assert done.stderr.strip().count("\n") == 0
    assert "actor.kind=rule is made for webshop, not for" in done.stderr
    assert "explore" in done.stderr
