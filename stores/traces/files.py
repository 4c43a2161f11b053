"""Recorded episodes as JSON lines, and the rows that they are made of."""

import json
import sqlite3
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from stores.errors import UserError
from stores.files import write_lines
from stores.traces import ContextPiece, EventKind

if TYPE_CHECKING:
    from stores.traces.store import TraceStore


def export_jsonl(
    store: "TraceStore", path: str | Path, episodes: Sequence[str] | None = None
) -> int:
    """Write episodes (all by default), oldest first, one JSON object a line; returns how many.

    Each line is ``{"episode_id", "events": [{"event_type", "text", "t"}], "reward"}`` and the
    episode's other facts, with ``pieces`` where contexts were kept. Nothing is left at ``path`` if
    writing fails.
    """
    wanted = None if episodes is None else set(episodes)
    return write_lines(
        path,
        (
            exported(store, episode)
            for episode in reversed(store.episodes())
            if wanted is None or episode["episode_id"] in wanted
        ),
    )


def exported(store: "TraceStore", episode: Mapping[str, Any]) -> dict[str, Any]:
    """Return an episode, a row of ``store.episodes()``, with its events and pieces as plain values."""
    name = episode["episode_id"]
    row: dict[str, Any] = {
        "episode_id": name,
        "events": [{"event_type": e.kind, "text": e.text, "t": e.t} for e in store.events(name)],
        "reward": episode["reward"],
    }
    if pieces := store.pieces(name):
        row["pieces"] = [asdict(piece) for piece in pieces]
    return {**row, **{k: v for k, v in episode.items() if k not in row}}


def import_jsonl(db: sqlite3.Connection, path: str | Path) -> int:
    """Read an export into an open transaction; returns how many episodes."""
    count = number = 0
    try:
        # Only "\n" ends a line: text may hold U+2028 and its like, at which splitlines() splits.
        with Path(path).open(encoding="utf-8", newline="\n") as lines:
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


def insert_pieces(db: sqlite3.Connection, episode: str, pieces: Sequence[ContextPiece]) -> None:
    """Add ``pieces`` of ``episode`` in their order."""
    db.executemany(
        "insert into pieces values (?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (episode, p.t, place, storable(p.id), p.kind, p.score, p.tokens_before, p.tokens_after)
            for place, p in enumerate(pieces)
        ],
    )


def storable(text: str) -> str:
    """Return ``text`` without lone surrogates (a model's broken emoji), which UTF-8 cannot hold."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _import(db: sqlite3.Connection, row: Mapping[str, Any]) -> None:
    episode = str(row["episode_id"])
    events = [(str(e["event_type"]), storable(str(e["text"])), int(e["t"])) for e in row["events"]]
    unknown = {kind for kind, _, _ in events} - set(get_args(EventKind))
    if unknown:
        raise ValueError(f"no event type '{min(unknown)}'")
    db.execute("delete from events where episode_id = ?", (episode,))
    db.executemany(
        "insert into events values (?, ?, ?, ?, ?)",
        [(episode, t, place, kind, text) for place, (kind, text, t) in enumerate(events)],
    )
    pieces = [ContextPiece(**piece) for piece in row.get("pieces") or ()]
    db.execute("delete from pieces where episode_id = ?", (episode,))
    insert_pieces(db, episode, pieces)
    steps = row.get("steps", 1 + max((t for _, _, t in events), default=-1))
    db.execute(
        "insert or replace into episodes values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            episode, row.get("thread_id", ""), json.dumps(dict(row.get("task") or {})),
            storable(row.get("instruction") or ""), json.dumps(dict(row.get("agent") or {})),
            float(row.get("started") or time.time()), float(row["reward"]),
            int(row.get("done", True)), int(steps),
        ),
    )  # fmt: skip
