"""The two folders: named by one variable, and moved apart once, safely, from where both stood."""

import gc
import sqlite3

import pytest

from stategate.stores import home as places
from stategate.stores.home import cache, home
from stategate.stores.traces import Event
from stategate.stores.traces.store import TraceStore
from tests.kit import run_processes


@pytest.fixture
def old(tmp_path, monkeypatch):
    """Somebody's folder of before: a trace, a bank's file, a download."""
    monkeypatch.delenv("STATEGATE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / ".cache"))
    places._moved.cache_clear()
    folder = tmp_path / ".cache" / "stategate"
    TraceStore(folder / "traces.sqlite").write_step("e", 0, [Event("ACT", "x", 0)])
    (folder / "banks" / "state").mkdir(parents=True)
    (folder / "banks" / "state" / "bank.sqlite").write_bytes(b"some bank")
    (folder / "assets").mkdir()
    gc.collect()  # sqlite3's connections close no sooner
    return folder


def test_one_variable_names_both_and_moves_nothing(old, tmp_path, monkeypatch):
    monkeypatch.setenv("STATEGATE_HOME", str(tmp_path / "mine"))
    assert home() == cache() == tmp_path / "mine"
    assert (old / "traces.sqlite").exists()


def test_data_moves_once_and_downloads_stay(old, tmp_path, capsys):
    assert home() == tmp_path / "data" / "stategate"
    assert cache() == old
    told = capsys.readouterr().err
    assert "moved banks, traces.sqlite from" in told
    assert told.count("\n") == 1
    assert sorted(path.name for path in old.iterdir()) == ["assets"]
    assert TraceStore(home() / "traces.sqlite").events("e") == [Event("ACT", "x", 0)]
    assert (home() / "banks" / "state" / "bank.sqlite").read_bytes() == b"some bank"
    places._moved.cache_clear()
    home()
    assert capsys.readouterr().err == ""


def test_a_database_in_use_stays_where_it_is(old, tmp_path, capsys):
    with sqlite3.connect(old / "traces.sqlite") as db:
        db.execute("insert into events values ('e', 9, 0, 'ACT', 'now')")
        assert home() == old
        assert "in use" in capsys.readouterr().err
    db.close()
    places._moved.cache_clear()
    assert home() != old
    assert len(TraceStore(home() / "traces.sqlite").events("e")) == 2


def test_what_stands_in_both_is_not_replaced(old, tmp_path):
    new = tmp_path / "data" / "stategate" / "banks"
    new.mkdir(parents=True)
    (new / "own").write_text("newer")
    home()
    assert (new / "own").read_text() == "newer"
    assert (old / "banks" / "state").is_dir()


def test_another_disk_gets_a_whole_copy_even_after_a_kill(old, tmp_path, monkeypatch):
    def refuse(self, target):
        if self.parent == old:
            raise OSError(18, "another disk")
        return rename(self, target)

    rename = type(old).rename
    monkeypatch.setattr(type(old), "rename", refuse)
    torn = tmp_path / "data" / "stategate" / ".banks.part"
    torn.mkdir(parents=True)
    (torn / "half").touch()
    assert sorted(path.name for path in (home() / "banks").iterdir()) == ["state"]
    assert not (old / "banks").exists()
    assert not torn.exists()


def _look():
    assert len(TraceStore(home() / "traces.sqlite").events("e")) == 1


def test_processes_that_start_at_once_all_find_the_data(old):
    assert run_processes(_look, [()] * 4) == [0] * 4
