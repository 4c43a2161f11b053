"""The wheel, installed beside a project that has folders named like ours: both run."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BUILD = "from setuptools import build_meta; print(build_meta.build_wheel('dist'))"
#: A user's project: three folders and a module with names that our repository has at its top.
PROJECT = {
    "graph/__init__.py": "WHOSE = 'theirs'\n",
    "nodes/__init__.py": "WHOSE = 'theirs'\n",
    "ui/__init__.py": "WHOSE = 'theirs'\n",
    "stores.py": "WHOSE = 'theirs'\n",
    "main.py": """
import graph, nodes, stores, ui
import stategate
from stategate import WebShop, build_graph, load_config

assert {graph.WHOSE, nodes.WHOSE, stores.WHOSE, ui.WHOSE} == {'theirs'}
agent = build_graph(load_config('demo', ['updater.kind=none']))
out = agent.invoke({'task': {'env': 'webshop', 'goal': 3}}, {'configurable': {'thread_id': 't'}})
print(stategate.__file__, len(WebShop.load('sample').goals), out['done'], sep='|')
""",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Return a folder into which the wheel of this tree was installed."""
    folder = tmp_path_factory.mktemp("wheel")
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    for name in listed.stdout.splitlines():
        if not name.startswith(("tests/", "docs/")) and (ROOT / name).is_file():
            (folder / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / "tree" / name)
    subprocess.run([sys.executable, "-c", BUILD], cwd=folder / "tree", check=True)
    (wheel,) = (folder / "tree" / "dist").glob("*.whl")
    shutil.unpack_archive(wheel, folder / "site", "zip")
    return folder / "site"


def test_the_wheel_holds_one_package(site):
    assert {path.name for path in site.iterdir() if not path.name.endswith(".dist-info")} == {
        "stategate"
    }


def test_a_project_with_folders_of_the_same_names_runs(site, tmp_path):
    for name, text in PROJECT.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    environment = {**os.environ, "PYTHONPATH": str(site), "STATEGATE_HOME": str(tmp_path / "home")}
    done = subprocess.run(
        [sys.executable, "main.py"], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    file, goals, is_done = done.stdout.strip().rsplit("\n", 1)[-1].split("|")
    assert Path(file).is_relative_to(site)
    assert int(goals) > 0
    assert is_done == "True"
    words = ["run", "demo", "--goal", "3", "--set", "updater.kind=none"]
    command = [sys.executable, "-m", "stategate.ui.cli.main", *words]
    ours = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert ours.returncode == 0, ours.stderr
