"""The tutorial's code, run as a stranger would: a package outside this repository."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"```\w+ file=(\S+)\n(.*?)```", re.DOTALL)


@pytest.fixture(scope="module")
def stranger(tmp_path_factory):
    """Write the tutorial's files and install them, by their entry point, in a folder apart."""
    folder = tmp_path_factory.mktemp("stranger")
    page = (ROOT / "docs" / "writing-a-node.md").read_text()
    files = dict(BLOCK.findall(page))
    assert {"overlap.py", "pyproject.toml", "test_overlap.py", "use_overlap.py"} <= set(files)
    for name, text in files.items():
        (folder / name).write_text(text)
    site = folder / "site"
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation"]
    subprocess.run([*install, "--target", str(site), str(folder)], check=True, timeout=200)
    return folder, {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), str(ROOT)])}


def run(stranger, *words):
    folder, environment = stranger
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


def test_the_kind_is_found_through_its_entry_point(stranger):
    done = run(stranger, "-m", "stategate.ui.cli.main", "kinds", "context", "--json", "-")
    assert done.returncode == 0, done.stderr
    assert "stategate-overlap" in done.stdout
    json.loads(done.stdout)


def test_its_conformance_test_passes(stranger):
    done = run(stranger, "-m", "pytest", "-q", "test_overlap.py")
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_it_runs_by_config_and_for_one_call(stranger):
    done = run(stranger, "use_overlap.py")
    assert done.returncode == 0, done.stderr
    first, second = (line.split() for line in done.stdout.splitlines())
    assert float(first[1]) > 0
    assert first != second


def test_it_runs_from_the_command_line(stranger):
    words = ["run", "webshop", "--goal", "3", "--set", "context.kind=overlap", "--json", "-"]
    done = run(stranger, "-m", "stategate.ui.cli.main", *words)
    assert done.returncode == 0, done.stderr
    assert "overlap" in done.stdout
