"""The one engine: versions, foreign and damaged files, reading only, all or nothing."""

import sqlite3

import pytest
import sqlalchemy as sa

from stategate.stores.errors import UserError
from stategate.stores.sql import (
    Database,
    Schema,
    Text,
    Whole,
    create_tables,
)

metadata = sa.MetaData()
things = sa.Table("things", metadata, sa.Column("name", Text), sa.Column("size", Whole))
sizes = sa.Table("sizes", metadata, sa.Column("n", Whole))
FIRST = Schema(
    "box", (lambda db: db.exec_driver_sql("create table if not exists things (name text)"),)
)
SECOND = Schema(
    "box",
    (
        *FIRST.migrations,
        lambda db: db.exec_driver_sql("alter table things add column size integer"),
        create_tables(sizes),
    ),
)


def add(database, name):
    with database.write() as db:
        db.execute(things.insert().values(name=name))


def names(database):
    return [row.name for row in database.rows(sa.select(things.c.name))]


def test_tables_of_before_get_each_migration_once(place):
    with Database(place(), FIRST).write() as db:
        db.exec_driver_sql("insert into things values ('old')")
    for _ in range(2):
        database = Database(place(), SECOND)
        assert database.rows(sa.select(things)) == [("old", None)]
        assert database.rows(sa.select(sizes)) == []
    with pytest.raises(UserError, match=r"version 3, this Stategate knows 1: update it"):
        Database(place(), FIRST)


def test_a_migration_that_fails_leaves_all_as_it_was(place):
    def nonsense(db):
        db.exec_driver_sql("nonsense")

    Database(place(), FIRST)
    with pytest.raises(UserError, match="cannot use the box"):
        Database(place(), Schema("box", (*SECOND.migrations, nonsense)))
    with Database(place(), FIRST).read() as db:
        assert not sa.inspect(db).has_table("sizes")


def test_a_transaction_is_whole_or_nothing(place):
    database = Database(place(), SECOND)

    def half():
        with database.write() as db:
            db.execute(things.insert().values(name="a"))
            raise RuntimeError("killed here")

    with pytest.raises(RuntimeError):
        half()
    assert names(database) == []
    database.close()
    add(database, "b")
    assert names(database) == ["b"]


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
    ours = Schema("box", (create_tables(things),), fix="choose another")
    with pytest.raises(UserError, match=r"cannot use the box '.*' \(.*\): choose another") as told:
        Database(path, ours)
    assert "\n" not in str(told.value)
    if damage == "foreign":
        with sqlite3.connect(path) as db:
            assert db.execute("select name from sqlite_master").fetchall() == [("customers",)]
