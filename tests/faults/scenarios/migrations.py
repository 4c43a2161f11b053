"""Databases of before, brought up to this version."""

import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import sqlalchemy as sa

from stategate.stores.errors import UserError
from stategate.stores.memory.long_term import LongTerm
from stategate.stores.memory.records import Turn
from stategate.stores.sql import Database, Schema
from tests.faults.scenarios.memory import _embed

ME = "ana"
_OLD = []


def _migration(*statements):
    def migrate(db):
        for statement in statements:
            db.exec_driver_sql(statement)

    return migrate


FIRST = _migration("create table if not exists kept (n integer primary key, text text)")
LATER = (
    _migration(
        "alter table kept add column length integer", "update kept set length = length(text)"
    ),
    _migration(
        "create table other (n integer primary key)", "insert into other select n from kept"
    ),
)


def prepare():
    place = Path(tempfile.mkdtemp(prefix="old-"))
    memory = LongTerm(f"sqlite:///{place / 'long_term.sqlite'}")
    for step in range(4):
        text = f"turn {step}"
        memory.add(ME, Turn("t", "e", step, text, _embed([text])[0], "h", at=1.0))
    old = Database(place / "traces.sqlite", Schema("kept", (FIRST,)))
    with old.write() as db:
        db.execute(
            sa.text("insert into kept (text) values (:t)"), [{"t": "a" * n} for n in range(20)]
        )
    old.close()
    for path in place.glob("*.sqlite"):
        with closing(sqlite3.connect(path)) as db:
            db.execute("pragma wal_checkpoint(truncate)")
    for log in place.glob("*-*"):
        log.unlink()
    _OLD.append(place)


def work(folder, acknowledge):
    place = folder / "before"
    if not (folder / "ready").exists():
        shutil.rmtree(place, ignore_errors=True)
        try:
            shutil.copytree(_OLD[0], place)
            (folder / "ready").touch()
        except OSError as error:  # not what is tried here
            raise UserError("no room for the scenario") from error
    memory = LongTerm(f"sqlite:///{place / 'long_term.sqlite'}")
    acknowledge(["memory", len(memory.facts(ME))])
    file = Database(place / "traces.sqlite", Schema("kept", (FIRST, *LATER)))
    acknowledge(["traces", file.scalar(sa.text("select sum(length) from kept"))])


def check(folder, acknowledged):
    for what, value in acknowledged:
        assert (what, value) in {("memory", 4), ("traces", 190)}, (what, value)
    if not (folder / "ready").exists():
        return None
    with closing(sqlite3.connect(folder / "before" / "traces.sqlite")) as db:
        assert db.execute("select count(*) from kept").fetchone()[0] == 20
        version = db.execute("pragma user_version").fetchone()[0]
        others = db.execute("select count(*) from other").fetchone()[0] if version == 3 else None
        assert version in (1, 3), "half of the steps"
        assert others in (None, 20)
    return [len(acknowledged) and acknowledged[-1], version]
