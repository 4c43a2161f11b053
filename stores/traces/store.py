"""Every event of every episode: written as it happens, idempotent by episode and step.

In a SQLite file, or in a PostgreSQL database (see ``stores.tables``).

Beside the events of a step stands what became of each chunk in its context, with the builder's score
(:class:`~stores.traces.ContextPiece`); the context's text is not kept.
"""

import json
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, astuple
from pathlib import Path
from typing import Any

from stategate.stores.files import parse_json, write_lines
from stategate.stores.tables import open_tables
from stategate.stores.text import storable
from stategate.stores.traces import ContextPiece, Event

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
#: The tables that hold rows of steps, and their columns behind the episode.
_STEPPED = {
    "events": "step, place, kind, text",
    "pieces": "step, place, id, kind, score, tokens_before, tokens_after",
}


class TraceStore:
    """A trace database. Safe to open from several threads and processes.

    Every method raises ``UserError`` where the file is no SQLite database, is damaged, or cannot be
    written, or where the server does not answer.
    """

    def __init__(self, path: str | Path) -> None:
        self._file = open_tables(path, "traces", (_SCHEMA,))
        self.path = self._file.path
        self.place = str(path)

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
        reward: float | None = 0.0,
        done: bool = False,
        pieces: Sequence[ContextPiece] = (),
    ) -> None:
        """Keep ``events`` and ``pieces`` as step ``step``, instead of this and later steps' old ones.

        Later steps go because a step written again was stepped back to: its old future is gone.
        """
        with self._file.transaction() as db:
            for table in ("events", "pieces"):
                gone = f"delete from {table} where episode_id = ? and step >= ?"  # noqa: S608
                db.execute(gone, (episode_id, step))
            db.executemany(
                "insert into pieces values (?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    (episode_id, step, i, storable(p.id), *astuple(p)[2:])
                    for i, p in enumerate(pieces)
                ),
            )
            db.executemany(
                "insert into events values (?, ?, ?, ?, ?)",
                ((episode_id, step, i, e.kind, storable(e.text)) for i, e in enumerate(events)),
            )
            db.execute(
                "insert into episodes values (?, ?, ?, ?, ?, ?, ?, ?, ?) on conflict (episode_id)"
                " do update set thread_id = excluded.thread_id, task = excluded.task,"
                " instruction = excluded.instruction, agent = excluded.agent,"
                " reward = excluded.reward, done = excluded.done, steps = excluded.steps",
                (
                    episode_id,
                    thread_id,
                    json.dumps(dict(task or {})),
                    storable(instruction),
                    json.dumps(dict(agent or {})),
                    time.time(),
                    reward,
                    int(done),
                    step + 1,
                ),
            )

    def holding(self, texts: Sequence[str]) -> list[tuple[str, int, str]]:
        """Return (episode, step, thread) of every step that holds one of ``texts``.

        A step also holds what its episode's instruction and task do.
        """
        found: dict[tuple[str, int, str], None] = {}
        query = (
            "select v.episode_id, v.step, v.text, e.instruction, e.task, e.thread_id from events v"
            " left join episodes e on e.episode_id = v.episode_id where v.text like ? escape '!'"
            " or e.instruction like ? escape '!' or e.task like ? escape '!'"
        )
        for text in texts:
            quoted = json.dumps(text)[1:-1]
            for row in self._file.query(query, [_like(text), _like(text), _like(quoted)]):
                held = (row["text"] or "", row["instruction"] or "", row["task"] or "")
                if any(words in part for words in (text, quoted) for part in held):
                    found[row["episode_id"], row["step"], row["thread_id"] or ""] = None
        return list(found)

    def forget(self, steps: Sequence[tuple[str, int]] = (), threads: Iterable[str] = ()) -> int:
        """Delete steps (episode, step) and whole threads; returns how many steps went.

        An episode that has no step left goes, and the instruction of one that lost a step.
        """
        with self._file.transaction() as db:
            doomed = list(steps)
            for thread in threads:
                doomed += [
                    (row["episode_id"], row["step"])
                    for row in db.execute(
                        "select distinct e.episode_id, v.step from episodes e join events v"
                        " on v.episode_id = e.episode_id where e.thread_id = ?",
                        (thread,),
                    )
                ]
            count = 0
            for episode, step in dict.fromkeys(doomed):
                here = (episode, step)
                gone = db.execute("delete from events where episode_id = ? and step = ?", here)
                count += bool(gone.rowcount)
                db.execute("delete from pieces where episode_id = ? and step = ?", here)
                db.execute(
                    "update episodes set instruction = '', task = '{}' where episode_id = ?",
                    (episode,),
                )
                db.execute(
                    "delete from episodes where episode_id = ? and not exists"
                    " (select 1 from events where events.episode_id = episodes.episode_id)",
                    (episode,),
                )
        return count

    def fork(self, source: str, target: str, steps: int, thread_id: str = "") -> None:
        """Copy the first ``steps`` steps of episode ``source`` to a new episode ``target``.

        A fork onto itself changes nothing. ``thread_id`` is the new one's, ``target`` if not given.
        """
        if source == target:
            return
        with self._file.transaction() as db:
            for table, columns in _STEPPED.items():
                db.execute(f"delete from {table} where episode_id = ?", (target,))  # noqa: S608
                db.execute(
                    f"insert into {table} select ?, {columns} from {table}"  # noqa: S608
                    " where episode_id = ? and step < ?",
                    (target, source, steps),
                )
            db.execute("delete from episodes where episode_id = ?", (target,))
            db.execute(
                "insert into episodes"
                " select ?, ?, task, instruction, agent, ?, 0, 0, ? from episodes where episode_id = ?",
                (target, thread_id or target, time.time(), steps, source),
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
            "select * from episodes where (? is null or reward >= ?) and (? is null or done = ?)"
            " order by started desc, episode_id"
        )
        read: dict[str, Callable[[Any], Any]] = {
            "task": parse_json,
            "agent": parse_json,
            "done": bool,
        }
        rows = self._file.query(query, (min_reward, min_reward, done, done))
        with self._file.belonging():
            episodes = [dict(row) | {key: read[key](row[key]) for key in read} for row in rows]
            for episode in episodes:
                _require(episode, str, "episode_id", "thread_id", "instruction")
                _require(episode, int | float | None, "started", "reward", "steps")
                _require(episode, dict, "task", "agent")
            return [e for e in episodes if env is None or e["task"].get("env") == env][:limit]

    def events(self, episode_id: str) -> list[Event]:
        """Return an episode's events in order ([] if there is no such episode)."""
        rows = self._file.query(
            "select kind, text, step from events where episode_id = ? order by step, place",
            (episode_id,),
        )
        with self._file.belonging():
            for row in rows:
                _require(row, str, "kind", "text")
                _require(row, int, "step")
            return [Event(row["kind"], row["text"], row["step"]) for row in rows]

    def pieces(self, episode_id: str) -> list[ContextPiece]:
        """Return what became of the chunks of an episode's contexts, in order ([] if unknown)."""
        rows = self._file.query(
            "select step, id, kind, score, tokens_before, tokens_after from pieces"
            " where episode_id = ? order by step, place",
            (episode_id,),
        )
        return [ContextPiece(*row) for row in rows]

    def export_jsonl(self, path: str | Path, episodes: Sequence[str] | None = None) -> int:
        """Write episodes (all by default), oldest first, one JSON object a line; returns how many.

        Each line is ``{"episode_id", "events": [{"event_type", "text", "t"}], "reward"}`` and the
        episode's other facts, with ``pieces`` where contexts were kept. Nothing is left at ``path``
        if writing fails.
        """
        wanted = None if episodes is None else set(episodes)
        return write_lines(
            path,
            (
                self.exported(episode)
                for episode in reversed(self.episodes())
                if wanted is None or episode["episode_id"] in wanted
            ),
        )

    def exported(self, episode: Mapping[str, Any]) -> dict[str, Any]:
        """Return an episode, a row of :meth:`episodes`, with its events and pieces as plain values."""
        name = episode["episode_id"]
        row: dict[str, Any] = {
            "episode_id": name,
            "events": [{"event_type": e.kind, "text": e.text, "t": e.t} for e in self.events(name)],
            "reward": episode["reward"],
        }
        if pieces := self.pieces(name):
            row["pieces"] = [asdict(piece) for piece in pieces]
        return {**row, **{k: v for k, v in episode.items() if k not in row}}


def _require(row: Any, kind: Any, *names: str) -> None:
    """Raise ``TypeError`` unless the values of these names are of ``kind``."""
    for name in names:
        if not isinstance(row[name], kind):
            raise TypeError(f"{name} is {row[name]!r:.40}")


def _like(text: str) -> str:
    """Return the pattern of what holds the beginning of ``text``, with ``!`` to escape."""
    plain = re.sub(r"([%_!])", r"!\1", text[:200])
    return f"%{plain}%"
