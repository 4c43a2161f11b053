"""The one opener: versions, foreign and damaged files, reading only, all or nothing."""

import sqlite3
import subprocess
import sys

import pytest

from stategate.stores.errors import UserError
from stategate.stores.sqlite import SqliteFile, connect

FIRST = "create table if not exists things (name text);"
SECOND = "alter table things add column size integer; create table sizes (n integer);"


def names(file):
    return [row["name"] for row in file.query("select name from things")]


def test_a_file_of_before_gets_each_migration_once(tmp_path):
    path = tmp_path / "x.sqlite"
    with sqlite3.connect(path) as db:
        db.execute("create table things (name text)")
        db.execute("insert into things values ('old')")
    for _ in range(2):
        file = SqliteFile(path, "box", (FIRST, SECOND))
        assert file.query("pragma user_version")[0][0] == 2
        assert file.query("select * from things")[0].keys() == ["name", "size"]
    assert names(file) == ["old"]
    with pytest.raises(UserError, match=r"version 2, this Stategate knows 1: update it"):
        SqliteFile(path, "box", (FIRST,))


def test_a_migration_that_fails_leaves_the_file_as_it_was(tmp_path):
    path = tmp_path / "x.sqlite"
    SqliteFile(path, "box", (FIRST,))
    with pytest.raises(UserError, match="cannot use the box"):
        SqliteFile(path, "box", (FIRST, SECOND + "nonsense;"))
    file = SqliteFile(path, "box", (FIRST,))
    assert file.query("select * from sqlite_master where name = 'sizes'") == []


@pytest.mark.parametrize("damage", ["foreign", "text", "folder"])
def test_what_is_no_file_of_ours_is_one_line(tmp_path, damage):
    path = tmp_path / "x.sqlite"
    if damage == "foreign":
        with sqlite3.connect(path) as db:
            db.execute("create table customers (name text)")
    elif damage == "text":
        path.write_text("no database " * 99)
    else:
        path.mkdir()
    with pytest.raises(UserError, match=r"cannot use the box '.*' \(.*\): choose another") as told:
        SqliteFile(path, "box", (FIRST,), fix="choose another")
    assert "\n" not in str(told.value)
    if damage == "foreign":
        with sqlite3.connect(path) as db:
            assert db.execute("select name from sqlite_master").fetchall() == [("customers",)]


def test_a_transaction_is_whole_or_nothing(tmp_path):
    file = SqliteFile(tmp_path / "x.sqlite", "box", (FIRST,))

    def half():
        with file.transaction() as db:
            db.execute("insert into things values ('a')")
            raise RuntimeError("killed here")

    with pytest.raises(RuntimeError):
        half()
    assert names(file) == []
    file.close()
    with file.transaction() as db:
        db.execute("insert into things values ('b')")
    assert names(file) == ["b"]


def test_a_file_on_a_read_only_disk_can_be_read(tmp_path, monkeypatch):
    path = tmp_path / "x.sqlite"
    file = SqliteFile(path, "box", (FIRST,))
    with file.transaction() as db:
        db.execute("insert into things values ('a')")
        db.execute("pragma user_version = 0")  # as files of before have it
    file.close()
    before = sorted(tmp_path.iterdir())
    monkeypatch.setattr("stategate.stores.sqlite.os.access", lambda *_: False)
    assert names(SqliteFile(path, "box", (FIRST,))) == ["a"]
    assert sorted(tmp_path.iterdir()) == before


def test_every_connection_waits_logs_ahead_and_checks_references(tmp_path):
    db = connect(tmp_path / "x.sqlite", patience=7)
    asked = ("busy_timeout", "journal_mode", "foreign_keys")
    assert [db.execute(f"pragma {name}").fetchone()[0] for name in asked] == [7000, "wal", 1]


def test_another_process_that_closes_the_file_leaves_the_log_of_those_who_have_it_open(tmp_path):
    path = tmp_path / "a.db"
    first, second = connect(path), connect(path)
    first.execute("create table t (x)")
    third = connect(path)
    code = "import sqlite3 as s, sys; d = s.connect(sys.argv[1]); d.execute('insert into t values (1)')"
    subprocess.run([sys.executable, "-c", f"{code}; d.commit(); d.close()", path], check=True)
    log = tmp_path / "a.db-wal"
    assert log.exists()  # it would have been deleted by the last who closes
    for db in (first, second, third):
        db.execute("insert into t values (2)")
        db.commit()
    other = sqlite3.connect(path)
    assert other.execute("select count(*) from t").fetchone() == (4,)
    for db in (first, second, third, other):
        db.close()
    path.write_bytes(b"no database at all")
    with pytest.raises(sqlite3.DatabaseError, match="not a database"):
        connect(path)
