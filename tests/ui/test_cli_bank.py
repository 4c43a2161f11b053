"""`stategate bank`, as a user types it: build, merge, and the mistakes."""

import pytest

from stategate.stores.bank.bank import open_bank
from tests.kit import call, refused

HASHED = ("--set", "embedder.kind=hashing")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("banks")
    traces = folder / "p.sqlite"
    memory = f"memory=[short_term, {{kind: trace, path: '{traces}'}}]"
    styles = ("--agent", "whole=actor.kind=rule", "--agent", "kind=actor.search=search_kind")
    played = ("eval", "worlds", "--goals", "100-102", *styles, "--set", memory)
    call(*played, "--out", folder / "run")
    for kind in ("state", "trace"):
        words = ("bank", "build", traces, "--kind", kind, "--include-incorrect", *HASHED)
        done = call(*words, "--out", folder / kind)
        assert "from 6 episodes" in done
    again = call("bank", "build", traces, "--out", folder / "state", "--include-incorrect", *HASHED)
    assert "0 rows from 0 episodes" in again
    assert "6 were there already" in again
    return folder


def test_banks_are_merged_and_a_row_comes_once(folder, tmp_path):
    bank = tmp_path / "copy"
    assert "new rows" in call("bank", "merge", folder / "state", "--out", bank)
    assert call("bank", "merge", folder / "state", "--out", bank).startswith("0 new rows")
    assert len(open_bank(bank).rows()) > 4


def test_mistakes_are_told_in_one_line(folder, tmp_path):
    bank = folder / "state"
    (tmp_path / "empty.jsonl").write_text("")
    for words, told in [
        (("merge", tmp_path / "nothing", "--out", tmp_path / "m"), "no bank"),
        (("build", tmp_path / "x", "--out", tmp_path / "b"), "no traces at"),
        (("merge", bank, folder / "trace", "--out", tmp_path / "m"), "trace"),
    ]:
        assert told in refused("bank", *words), words
    words = ("bank", "build", tmp_path / "empty.jsonl", "--out", tmp_path / "b", *HASHED)
    assert "no episode to learn from" in refused(*words)
