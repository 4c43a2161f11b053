"""The tutorial's code, run as a stranger would: a package outside this repository."""

import json

import pytest

from tests.kit import Stranger


@pytest.fixture(scope="module")
def stranger(tmp_path_factory):
    return Stranger("writing-a-node.md", tmp_path_factory.mktemp("stranger"))


def test_the_kind_is_found_through_its_entry_point_and_played(stranger):
    kinds = json.loads(stranger.stategate("kinds", "context", "--json", "-"))
    assert "stategate-overlap" in str(kinds)
    words = ("run", "webshop", "--goal", "3", "--set", "context.kind=overlap", "--json", "-")
    assert json.loads(stranger.stategate(*words))["config"]["context"]["kind"] == "overlap"


def test_its_conformance_test_passes(stranger):
    done = stranger.python("-m", "pytest", "-q", "test_overlap.py")
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_it_runs_by_config_and_for_one_call(stranger):
    done = stranger.python("use_overlap.py")
    assert done.returncode == 0, done.stderr
    first, second = (line.split() for line in done.stdout.splitlines())
    assert float(first[1]) > 0
    assert first != second
