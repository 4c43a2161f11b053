"""`stategate bank`, as a user types it: practise, build, look, change, merge, and the mistakes."""

import json

import pytest

from stategate.stores.bank.search import StateBank
from tests.kit import call, refused, run_command

HASHED = ("--set", "embedder.kind=hashing")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("banks")
    traces = folder / "p.sqlite"
    done = call(
        "bank", "practice", "--goals", "100-102", "--styles", "careful,kind", "--out", traces
    )
    assert "6 episodes played" in done
    for kind in ("state", "trace"):
        words = ("bank", "build", traces, "--kind", kind, "--include-incorrect", *HASHED)
        done = call(*words, "--out", folder / kind)
        assert "from 6 episodes" in done
    again = call("bank", "build", traces, "--out", folder / "state", "--include-incorrect", *HASHED)
    assert "0 rows from 0 episodes" in again
    assert "6 were there already" in again
    return folder


def rows_of(bank):
    shown = json.loads(call("bank", "show", bank, "--json", "-"))
    return shown["shown"]


def test_a_bank_is_shown_and_searched(folder):
    assert "q " in call("bank", "show", folder / "state")
    for kind in ("state", "trace"):
        words = ("bank", "search", folder / kind, "Find me a lamp", "-k", 2, "--json", "-", *HASHED)
        hits = json.loads(call(*words))
        assert len(hits) == 2
        assert hits[0]["score"] >= hits[1]["score"]


def test_rows_are_changed_removed_exported_and_merged(folder, tmp_path):
    bank = tmp_path / "copy"
    assert "new rows" in call("bank", "merge", folder / "state", "--out", bank)
    assert call("bank", "merge", folder / "state", "--out", bank).startswith("0 new rows")
    row = rows_of(bank)[0]["id"]
    edited = call("bank", "edit", bank, row, "--q", "1.5", "--experience", "Look twice.")
    assert "q 1.50" in edited
    assert "Look twice." in edited
    assert "1 row removed" in call("bank", "edit", bank, row, "--remove")
    assert row not in {other["id"] for other in rows_of(bank)}
    assert "4 left" in call("bank", "prune", bank, "--keep", 4)
    call("bank", "export", bank, tmp_path / "rows.jsonl")
    lines = (tmp_path / "rows.jsonl").read_text().splitlines()
    assert len(lines) == 4
    assert {"id", "q"} <= set(json.loads(lines[0]))


def test_hindsight_watches_for_new_episodes_until_it_is_stopped(folder, tmp_path, monkeypatch):
    bank, traces = tmp_path / "b", tmp_path / "t"
    traces.mkdir()
    known = sorted(StateBank(folder / "state").bank.rows(), key=lambda row: row.data["episode"])
    first, second = known[0].data["episode"], known[-1].data["episode"]
    assert first != second
    exported = tmp_path / "all.jsonl"
    call("traces", "export", exported, "--db", folder / "p.sqlite")
    lines = {json.loads(line)["episode_id"]: line for line in exported.read_text().splitlines()}
    call("bank", "merge", folder / "state", "--out", bank)
    (traces / "1.jsonl").write_text(lines[first] + "\n")
    slept = []

    def sleep(seconds):
        slept.append(seconds)
        if len(slept) == 2:
            raise SystemExit(0)
        (traces / "2.jsonl").write_text(lines[second] + "\n")

    monkeypatch.setattr("stategate.ui.cli.bank.time.sleep", sleep)
    told = '[{"state": 1, "q_value": 3, "experience": "Look twice."}]'
    words = ("--watch", 7, *HASHED, "--set", "llm.kind=fake", "--set", f"llm.replies=['{told}']")
    run_command("bank", "hindsight", bank, traces, *words)
    assert slept == [7, 7]
    by = {row.data["episode"]: row.data["by"] for row in StateBank(bank).bank.rows()}
    assert {name for name, who in by.items() if who.startswith("hindsight")} == {first, second}


def test_mistakes_are_told_in_one_line(folder, tmp_path):
    bank = folder / "state"
    (tmp_path / "empty.jsonl").write_text("")
    for words, told in [
        (("show", tmp_path / "nothing"), "no bank"),
        (("search", bank, " ", *HASHED), "nothing to search for"),
        (("search", bank, "lamp", *HASHED, "--set", "embedder.dimension=64"), "hashing"),
        (("edit", bank, "nobody", "--q", 3), "nobody"),
        (("prune", bank), "nothing to prune by"),
        (("build", tmp_path / "x", "--out", tmp_path / "b"), "no traces at"),
        (("practice", "--styles", "wild", "--out", tmp_path / "p"), "no style 'wild'"),
        (("merge", bank, folder / "trace", "--out", tmp_path / "m"), "trace"),
    ]:
        assert told in refused("bank", *words), words
    words = ("bank", "build", tmp_path / "empty.jsonl", "--out", tmp_path / "b", *HASHED)
    assert "no episode to learn from" in refused(*words)
