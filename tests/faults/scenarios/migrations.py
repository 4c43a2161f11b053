"""Databases and a home of before, brought up to this version."""

import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from stategate.stores.errors import UserError
from stategate.stores.home import _moved
from stategate.stores.memory.long_term import LongTerm
from stategate.stores.memory.records import Namespace, Turn
from stategate.stores.sqlite import SqliteFile
from tests.faults.scenarios.memory import _embed

ME = Namespace("ana", "stategate")
FIRST = "create table if not exists kept (n integer primary key, text text);"
LATER = (
    "alter table kept add column length integer; update kept set length = length(text);",
    "create table other (n integer primary key); insert into other select n from kept;",
)
#: On a full disk it may go on where everything stood before.
_TOLD = {("home", "home"), ("home", "before"), ("memory", 4), ("traces", 190)}
_OLD = []


def prepare():
    place = Path(tempfile.mkdtemp(prefix="old-"))
    memory = LongTerm(f"sqlite:///{place / 'long_term.sqlite'}")
    for step in range(4):
        text = f"turn {step}"
        memory.add(ME, Turn("t", "e", step, text, "yes", _embed([text])[0], None, "h", at=1.0))
    with closing(sqlite3.connect(place / "long_term.sqlite")) as db:
        db.execute("pragma wal_checkpoint(truncate)")
    SqliteFile(place / "traces.sqlite", "old", (FIRST,)).close()
    with closing(sqlite3.connect(place / "traces.sqlite")) as db:
        db.executemany("insert into kept (text) values (?)", [("a" * n,) for n in range(20)])
        db.commit()
    (place / "corpora" / "notes").mkdir(parents=True)
    (place / "corpora" / "notes" / "x.txt").write_text("a note")
    for log in place.glob("*-*"):
        log.unlink()
    _OLD.append(place)


def work(folder, acknowledge):
    if not (folder / "ready").exists():
        shutil.rmtree(folder / "before", ignore_errors=True)
        try:
            shutil.copytree(_OLD[0], folder / "before")
            (folder / "ready").touch()
        except OSError as error:  # not what is tried here
            raise UserError("no room for the scenario") from error
    names = ("long_term.sqlite", "traces.sqlite", "corpora")
    _moved.cache_clear()
    place = _moved(folder / "before", folder / "home", names)
    acknowledge(["home", str(place.relative_to(folder))])
    memory = LongTerm(f"sqlite:///{place / 'long_term.sqlite'}")
    acknowledge(["memory", len(memory.turns(ME))])
    file = SqliteFile(place / "traces.sqlite", "kept", (FIRST, *LATER))
    acknowledge(["traces", file.query("select sum(length) from kept")[0][0]])


def check(folder, acknowledged):
    for what, value in acknowledged:
        assert (what, value) in _TOLD, (what, value)
    if not (folder / "ready").exists():
        return None
    # Each thing is whole in one of the two places, or in both, and never in none.
    for name in ("long_term.sqlite", "traces.sqlite", "corpora/notes/x.txt"):
        assert (folder / "before" / name).exists() or (folder / "home" / name).exists(), name
    place = folder / "home" if (folder / "home" / "traces.sqlite").exists() else folder / "before"
    with closing(sqlite3.connect(place / "traces.sqlite")) as db:
        assert db.execute("select count(*) from kept").fetchone()[0] == 20
        version = db.execute("pragma user_version").fetchone()[0]
        others = db.execute("select count(*) from other").fetchone()[0] if version == 3 else None
        assert version in (1, 3), "half of the steps"
        assert others in (None, 20)
    return [len(acknowledged) and acknowledged[-1], version]
