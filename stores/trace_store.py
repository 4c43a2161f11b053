"""Every event of every episode, in SQLite: written as it happens, idempotent by episode and step."""

import contextlib
import json
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from stores.errors import UserError
from stores.traces import Event, EventKind
from stores.write_ahead import write_ahead

_SCHEMA = """
create table if not exists episodes (
    episode_id text primary key, thread_id text, task text, instruction text, agent text,
    started real, reward real, done integer, steps integer
);
create table if not exists events (
    episode_id text, step integer, place integer, kind text, text text,
    primary key (episode_id, step, place)
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
    ) -> None:
        """Keep ``events`` as step ``step``; what was kept of this and later steps is replaced.

        Later steps go because a step written again was stepped back to: its old future is gone.
        """
        with self._transaction() as db:
            db.execute("delete from events where episode_id = ? and step >= ?", (episode_id, step))
            db.executemany(
                "insert into events values (?, ?, ?, ?, ?)",
                [(episode_id, step, i, e.kind, _storable(e.text)) for i, e in enumerate(events)],
            )
            db.execute(
                "insert into episodes values (?, ?, ?, ?, ?, ?, ?, ?, ?) on conflict (episode_id)"
                " do update set thread_id = excluded.thread_id, task = excluded.task,"
                " instruction = excluded.instruction, agent = excluded.agent,"
                " reward = excluded.reward, done = excluded.done, steps = excluded.steps",
                (
                    episode_id, thread_id, json.dumps(dict(task or {})), _storable(instruction),
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
            db.execute(
                "insert into events select ?, step, place, kind, text from events"
                " where episode_id = ? and step < ?",
                (target, source, steps),
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

    def export_jsonl(self, path: str | Path, episodes: Sequence[str] | None = None) -> int:
        """Write episodes (all by default), oldest first, one JSON object a line; returns how many.

        Each line is ``{"episode_id", "events": [{"event_type", "text", "t"}], "reward"}`` and the
        episode's other facts. Nothing is left at ``path`` if writing fails.
        """
        wanted = None if episodes is None else set(episodes)
        target = Path(path)
        partial = target.with_name(f"{target.name}.{os.getpid()}.part")
        count = 0
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with partial.open("w", encoding="utf-8") as lines:
                for episode in reversed(self.episodes()):
                    if wanted is None or episode["episode_id"] in wanted:
                        lines.write(json.dumps(self._exported(episode), ensure_ascii=False) + "\n")
                        count += 1
            partial.replace(target)
        except OSError as error:
            raise UserError(
                f"cannot write '{path}' ({error.strerror}): name another file"
            ) from None
        finally:
            partial.unlink(missing_ok=True)
        return count

    def _exported(self, episode: Mapping[str, Any]) -> dict[str, Any]:
        events = self.events(episode["episode_id"])
        rows = [{"event_type": e.kind, "text": e.text, "t": e.t} for e in events]
        first = {"episode_id": episode["episode_id"], "events": rows, "reward": episode["reward"]}
        return {**first, **{k: v for k, v in episode.items() if k not in first}}

    def import_jsonl(self, path: str | Path) -> int:
        """Read an export back, whole or not at all; returns how many episodes replaced or new."""
        count = number = 0
        try:
            # Only "\n" ends a line: text may hold U+2028 and its like, at which splitlines() splits.
            file = Path(path).open(encoding="utf-8", newline="\n")  # noqa: SIM115
            with file as lines, self._transaction() as db:
                for number, line in enumerate(lines, 1):  # noqa: B007 - named in the error
                    if line.strip():
                        _import(db, json.loads(line))
                        count += 1
        except OSError as error:
            raise UserError(f"cannot read '{path}': {error.strerror}") from None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            problem = f"{type(error).__name__}: {error}"
            raise UserError(f"'{path}' line {number} is no exported episode ({problem})") from None
        return count

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


def _import(db: sqlite3.Connection, row: Mapping[str, Any]) -> None:
    episode = str(row["episode_id"])
    events = [(str(e["event_type"]), _storable(str(e["text"])), int(e["t"])) for e in row["events"]]
    unknown = {kind for kind, _, _ in events} - set(get_args(EventKind))
    if unknown:
        raise ValueError(f"no event type '{min(unknown)}'")
    db.execute("delete from events where episode_id = ?", (episode,))
    db.executemany(
        "insert into events values (?, ?, ?, ?, ?)",
        [(episode, t, place, kind, text) for place, (kind, text, t) in enumerate(events)],
    )
    steps = row.get("steps", 1 + max((t for _, _, t in events), default=-1))
    db.execute(
        "insert or replace into episodes values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            episode, row.get("thread_id", ""), json.dumps(dict(row.get("task") or {})),
            _storable(row.get("instruction") or ""), json.dumps(dict(row.get("agent") or {})),
            float(row.get("started") or time.time()), float(row["reward"]),
            int(row.get("done", True)), int(steps),
        ),
    )  # fmt: skip


def _storable(text: str) -> str:
    """Return ``text`` without lone surrogates (a model's broken emoji), which UTF-8 cannot hold."""
    return text.encode("utf-8", "replace").decode("utf-8")
