"""Every event of every episode: written as it happens, idempotent by episode and step."""

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from stategate.stores.files import write_lines
from stategate.stores.sql import Database, Json, Schema, Text, Whole, create_tables
from stategate.stores.traces import Event

_metadata = sa.MetaData()
_episodes = sa.Table(
    "episodes",
    _metadata,
    sa.Column("episode_id", Text, primary_key=True),
    sa.Column("thread_id", Text),
    sa.Column("task", Json),
    sa.Column("instruction", Text),
    sa.Column("started", sa.Float),
    sa.Column("reward", sa.Float),
    sa.Column("done", Whole),
    sa.Column("steps", Whole),
)
_events = sa.Table(
    "events",
    _metadata,
    sa.Column("episode_id", Text, primary_key=True),
    sa.Column("step", Whole, primary_key=True),
    sa.Column("place", Whole, primary_key=True),
    sa.Column("kind", Text),
    sa.Column("text", Text),
)
_TRACES = Schema("traces", (create_tables(_episodes, _events),))


class TraceStore:
    """A trace database: a SQLite file, or a PostgreSQL place (see ``stores.sql``).

    Safe to open from several threads and processes. Every method raises ``UserError`` where the
    database is damaged, cannot be written, or does not answer.
    """

    def __init__(self, place: str | Path) -> None:
        self._db = Database(place, _TRACES)
        self.path, self.compact = self._db.path, self._db.compact

    def write_step(
        self,
        episode_id: str,
        step: int,
        events: Sequence[Event],
        *,
        thread_id: str = "",
        task: Mapping[str, object] | None = None,
        instruction: str = "",
        reward: float | None = 0.0,
        done: bool = False,
    ) -> None:
        """Write the events of a step, replacing those of this step and of all later ones.

        A step that is written again was stepped back to: the later steps no longer happened.
        """
        key = {"episode_id": episode_id, "step": step}
        rows = [
            {**key, "place": i, "kind": event.kind, "text": event.text}
            for i, event in enumerate(events)
        ]
        values: dict[str, object] = {
            "thread_id": thread_id,
            "task": task or {},
            "instruction": instruction,
            "reward": reward,
            "done": int(done),
            "steps": step + 1,
        }
        upsert = self._db.insert(_episodes).values(
            episode_id=episode_id, started=time.time(), **values
        )
        with self._db.write() as db:
            old = (_events.c.episode_id == episode_id, _events.c.step >= step)
            db.execute(_events.delete().where(*old))
            if rows:
                db.execute(_events.insert(), rows)
            db.execute(upsert.on_conflict_do_update(index_elements=["episode_id"], set_=values))

    def steps_with(self, texts: Sequence[str]) -> list[tuple[str, int, str]]:
        """Return (episode, step, thread) of every step that contains one of ``texts``.

        The instruction and task of an episode count as text of each of its steps.
        """
        joined = _events.outerjoin(_episodes, _episodes.c.episode_id == _events.c.episode_id)
        task = sa.type_coerce(_episodes.c.task, Text)
        columns = (_events.c.text, _episodes.c.instruction, task)
        keys = (_events.c.episode_id, _events.c.step, _episodes.c.thread_id)
        matches: dict[tuple[str, int, str], None] = {}
        for text in texts:
            # Not SQL's `contains`: SQLite's ignores case, and refuses a long text.
            contains = [
                sa.func.replace(column, words, "") != column
                for words in (text, json.dumps(text)[1:-1])
                for column in columns
            ]
            query = sa.select(*keys).select_from(joined).where(sa.or_(*contains))
            for episode, step, thread in self._db.rows(query):
                matches[episode, step, thread or ""] = None
        return list(matches)

    def forget(self, steps: Sequence[tuple[str, int]] = (), threads: Iterable[str] = ()) -> int:
        """Delete steps (episode, step) and whole threads; return the number of deleted steps.

        An episode without steps is deleted; one that lost a step loses instruction and task.
        """
        joined = _events.join(_episodes, _episodes.c.episode_id == _events.c.episode_id)
        of_threads = (
            sa.select(_events.c.episode_id, _events.c.step)
            .select_from(joined)
            .where(_episodes.c.thread_id.in_(list(threads)))
        )
        count = 0
        with self._db.write() as db:
            deleted = [*steps, *((row[0], row[1]) for row in db.execute(of_threads))]
            for episode, step in dict.fromkeys(deleted):
                is_step = _events.c.episode_id == episode, _events.c.step == step
                count += bool(db.execute(_events.delete().where(*is_step)).rowcount)
                is_episode = _episodes.c.episode_id == episode
                db.execute(_episodes.update().where(is_episode).values(instruction="", task={}))
                has_steps = sa.exists().where(_events.c.episode_id == episode)
                db.execute(_episodes.delete().where(is_episode, ~has_steps))
        return count

    def episodes(self) -> list[dict[str, Any]]:
        """Return episodes, newest first, as dicts (``task`` parsed)."""
        query = sa.select(_episodes).order_by(_episodes.c.started.desc(), _episodes.c.episode_id)
        rows = [dict(row._mapping) for row in self._db.rows(query)]
        return [{**row, "done": bool(row["done"])} for row in rows]

    def events(self, episode_id: str) -> list[Event]:
        """Return an episode's events in order ([] if there is no such episode)."""
        e = _events.c
        query = sa.select(e.kind, e.text, e.step).where(e.episode_id == episode_id)
        return [Event(*row) for row in self._db.rows(query.order_by(e.step, e.place))]

    def export_jsonl(self, path: str | Path) -> int:
        """Write all episodes as JSON lines, whole or not at all; returns how many."""
        return write_lines(path, self.exported())

    def exported(self) -> Iterator[dict[str, Any]]:
        """Yield all episodes, oldest first, in the form of an export's lines (see ``traces``).

        Each has the episode's other columns, too; a conversation has no ``reward``: nobody scores it.
        """
        for episode in reversed(self.episodes()):
            name = episode.pop("episode_id")
            if episode["reward"] is None:
                del episode["reward"]
            events = [{"event_type": e.kind, "text": e.text, "t": e.t} for e in self.events(name)]
            yield {"episode_id": name, "events": events, **episode}
