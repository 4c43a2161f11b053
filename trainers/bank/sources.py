"""Read recorded episodes: a trace store, or its JSONL export.

A broken, empty or half-written record is left out and named in ``problems``; it never ends a build.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from stategate.nodes.experience.episode import Episode, from_events, task_name
from stategate.stores.errors import UserError, user_error_context
from stategate.stores.files import parse_json
from stategate.stores.sql import is_sqlite
from stategate.stores.traces.store import TraceStore
from stategate.stores.traces.trajectories import events_of


@dataclass
class Episodes:
    """What was read: episodes in order, and one line for each record that could not be used."""

    episodes: list[Episode] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def read_episodes(
    paths: Sequence[str | Path], include_incorrect: bool = False, trust: float = 1.0
) -> Episodes:
    """Read all episodes in files and folders. Raises ``UserError`` where a path is not there.

    ``trust`` is that of who recorded them.
    """
    read = Episodes()
    seen: set[str] = set()
    for source in paths:
        path = Path(source).expanduser()
        if not path.exists():
            raise UserError(
                f"no traces at '{source}': give a trace database, a JSONL file or a folder"
            )
        files = sorted(p for p in path.rglob("*.json*") if p.is_file()) if path.is_dir() else [path]
        for file in files:
            for episode in _file(file, read.problems):
                if episode.id in seen:
                    continue
                seen.add(episode.id)
                if episode.correct or include_incorrect:
                    read.episodes.append(replace(episode, trust=trust))
    return read


def _file(path: Path, problems: list[str]) -> Iterator[Episode]:
    for place, record in _rows(path) if is_sqlite(path) else _lines(path, problems):
        try:
            if isinstance(record, str):
                record = parse_json(record)
            yield _exported(record, path.stem)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            problems.append(f"{path.name} {place}: {' '.join(reason.split())}")


def _rows(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield (place, record) of the finished episodes of a trace store, oldest first."""
    store = TraceStore(path)
    for row in reversed(store.episodes(done=True)):
        yield f"episode {row['episode_id']}", store.exported(row)


def _lines(path: Path, problems: list[str]) -> Iterator[tuple[str, str]]:
    """Yield (place, text) of the lines of a file; an empty file is a problem."""
    with user_error_context(f"cannot read '{path}'"):
        text = path.read_bytes().decode("utf-8", "replace")
    if not text.strip():
        problems.append(f"{path.name}: empty")
    for number, line in enumerate(text.split("\n"), 1):  # "\n" alone: text may hold U+2028
        if line.strip():
            yield f"line {number}", line


def _exported(record: Any, source: str) -> Episode:
    """Read a line of the trace store's export."""
    if not isinstance(record, Mapping) or "events" not in record:
        raise ValueError("no exported episode: there are no events")
    if not record.get("done", True):
        raise ValueError("the episode did not end")
    return from_events(
        str(record["episode_id"]),
        events_of(record),
        question=str(record.get("instruction") or ""),
        reward=float(record["reward"]),
        task_id=task_name(record.get("task") or {}),
        source=source,
    )
