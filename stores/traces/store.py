"""Every event of every episode, in SQLite: written as it happens, idempotent by episode and step.

Beside the events of a step stands what became of each chunk in its context, with the builder's score
(:class:`~stores.traces.ContextPiece`); the context's text is not kept.
"""

import contextlib
import json
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from stores.errors import UserError
from stores.sqlite import write_ahead
from stores.traces import ContextPiece, Event
from stores.traces.files import export_jsonl, import_jsonl, insert_pieces, storable

_SCHEMA = """
create table if not exists episodes (
    episode_id text primary key, thread_id text, task text, instruction text, agent text,
    started real, reward real, done integer, steps integer
);
create table if not exists events (
    episode_id text, step integer, place integer, kind text, text text,
    primary key (episode_id, step, place)
);
create table if not exists pieces (
    episode_id text, step integer, place integer, id text, kind text, score real,
    tokens_before integer, tokens_after integer, primary key (episode_id, step, place)
);
"""
_PATIENCE = 30.0  # seconds to wait for another writer
#: Connections that came with a fork of the process: neither used nor closed (sqlite.org/howtocorrupt).
_INHERITED: list[sqlite3.Connection] = []


class TraceStore:
    """A trace database. Safe to open from several threads and processes.

    Every method raises ``UserError`` where the file is no SQLite database, is damaged, or cannot be
    written.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).expanduser()
        self._local = threading.local()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._unusable(error) from None
        with self._transaction() as db:
            db.executescript(_SCHEMA)

    def write_step(
        self,
        episode_id: str,
        step: int,
        events: Sequence[Event],
        *,
        thread_id: str = "",
        task: Mapping[str, Any] | None = None,
        instruction: str = "",
        agent: Mapping[str, Any] | None = None,
        reward: float = 0.0,
        done: bool = False,
        pieces: Sequence[ContextPiece] = (),
    ) -> None:
        """Keep ``events`` and ``pieces`` as step ``step``, instead of this and later steps' old ones.

        Later steps go because a step written again was stepped back to: its old future is gone.
        """
        with self._transaction() as db:
            db.execute("delete from events where episode_id = ? and step >= ?", (episode_id, step))
            db.execute("delete from pieces where episode_id = ? and step >= ?", (episode_id, step))
            insert_pieces(db, episode_id, [replace(piece, t=step) for piece in pieces])
            db.executemany(
                "insert into events values (?, ?, ?, ?, ?)",
                [(episode_id, step, i, e.kind, storable(e.text)) for i, e in enumerate(events)],
            )
            db.execute(
                "insert into episodes values (?, ?, ?, ?, ?, ?, ?, ?, ?) on conflict (episode_id)"
                " do update set thread_id = excluded.thread_id, task = excluded.task,"
                " instruction = excluded.instruction, agent = excluded.agent,"
                " reward = excluded.reward, done = excluded.done, steps = excluded.steps",
                (
                    episode_id, thread_id, json.dumps(dict(task or {})), storable(instruction),
                    json.dumps(dict(agent or {})), time.time(), reward, int(done), step + 1,
                ),
            )  # fmt: skip

    def fork(self, source: str, target: str, steps: int) -> None:
        """Copy the first ``steps`` steps of episode ``source`` to a new episode ``target``.

        A fork onto itself changes nothing.
        """
        if source == target:
            return
        with self._transaction() as db:
            db.execute("delete from events where episode_id = ?", (target,))
            db.execute("delete from pieces where episode_id = ?", (target,))
            copied = (target, source, steps)
            db.execute(
                "insert into events select ?, step, place, kind, text from events"
                " where episode_id = ? and step < ?",
                copied,
            )
            db.execute(
                "insert into pieces select ?, step, place, id, kind, score, tokens_before,"
                " tokens_after from pieces where episode_id = ? and step < ?",
                copied,
            )
            db.execute(
                "insert or replace into episodes"
                " select ?, ?, task, instruction, agent, ?, 0, 0, ? from episodes where episode_id = ?",
                (target, target, time.time(), steps, source),
            )

    def episodes(
        self,
        *,
        min_reward: float | None = None,
        env: str | None = None,
        done: bool | None = None,
        limit: int | None = None,
    ) -> list[dict[str, Any]]:
        """Return episodes, newest first, as dicts (``task`` and ``agent`` parsed)."""
        query = (
            "select * from episodes where reward >= ? and (? is null or done = ?)"
            " order by started desc, rowid desc"
        )
        floor = -1e308 if min_reward is None else min_reward
        wanted = None if done is None else int(done)
        with self._transaction() as db:
            rows = db.execute(query, (floor, wanted, wanted)).fetchall()
        found = []
        for row in rows:
            episode = dict(row)
            episode |= {"task": json.loads(row["task"]), "agent": json.loads(row["agent"])}
            episode["done"] = bool(row["done"])
            if env is None or episode["task"].get("env") == env:
                found.append(episode)
        return found[:limit]

    def events(self, episode_id: str) -> list[Event]:
        """Return an episode's events in order ([] if there is no such episode)."""
        with self._transaction() as db:
            rows = db.execute(
                "select kind, text, step from events where episode_id = ? order by step, place",
                (episode_id,),
            ).fetchall()
        return [Event(row["kind"], row["text"], row["step"]) for row in rows]

    def pieces(self, episode_id: str) -> list[ContextPiece]:
        """Return what became of the chunks of an episode's contexts, in order ([] if unknown)."""
        with self._transaction() as db:
            rows = db.execute(
                "select step, id, kind, score, tokens_before, tokens_after from pieces"
                " where episode_id = ? order by step, place",
                (episode_id,),
            ).fetchall()
        return [ContextPiece(*row) for row in rows]

    def export_jsonl(self, path: str | Path, episodes: Sequence[str] | None = None) -> int:
        """Write episodes to JSON lines (:func:`stores.traces.files.export_jsonl`)."""
        return export_jsonl(self, path, episodes)

    def import_jsonl(self, path: str | Path) -> int:
        """Read an export back, whole or not at all; returns how many episodes replaced or new."""
        with self._transaction() as db:
            return import_jsonl(db, path)

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Yield this thread's connection inside a transaction that commits or leaves no mark."""
        owner, db = getattr(self._local, "connection", (0, None))
        if db is not None and owner != os.getpid():
            _INHERITED.append(db)
            db = None
        try:
            if db is None:
                db = _connect(self.path)
                self._local.connection = (os.getpid(), db)
            with db:
                yield db
        except sqlite3.Error as error:
            raise self._unusable(error) from None

    def _unusable(self, error: Exception) -> UserError:
        return UserError(f"cannot keep traces in '{self.path}' ({error}): name another file")


def _connect(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=_PATIENCE)
    db.row_factory = sqlite3.Row
    try:
        write_ahead(db, _PATIENCE)
    except sqlite3.Error:
        db.close()
        raise
    db.execute("pragma synchronous = normal")
    return db
