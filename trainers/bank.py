"""Build banks of experience from recorded episodes: a trace store, or its JSONL export.

A build that was killed goes on where it stopped. A broken, empty or half-written record is left out and
named; it never ends a build.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from stategate.nodes.experience.adapter import ExperienceAdapter
from stategate.nodes.experience.episode import Episode, add_episode, from_events, make_of, task_name
from stategate.nodes.resources import Resources
from stategate.stores.bank import Bank, Row
from stategate.stores.errors import UserError, user_error_context
from stategate.stores.files import parse_json, user_path
from stategate.stores.progress import Progress
from stategate.stores.sql import is_sqlite
from stategate.stores.trace_store import TraceStore
from stategate.stores.traces import events_of


def read_episodes(
    paths: Sequence[str | Path], include_incorrect: bool = False, trust: float = 1.0
) -> tuple[list[Episode], list[str]]:
    """Read the episodes in files and folders; return them, and a line for each broken record.

    ``trust`` is that of who recorded them. Raises ``UserError`` where a path is not there.
    """
    episodes: dict[str, Episode] = {}
    problems: list[str] = []
    for source in paths:
        path = user_path(source)
        if not path.exists():
            fix = "give a trace database, a JSONL file or a folder"
            raise UserError(f"no traces at '{source}': {fix}")
        files = sorted(p for p in path.rglob("*.json*") if p.is_file()) if path.is_dir() else [path]
        for name, (place, record) in ((f.stem, row) for f in files for row in _records(f)):
            try:
                episode = _exported(record, name)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
                problems.append(f"{place}: {' '.join(reason.split())}")
                continue
            if episode.reward >= 1.0 or include_incorrect:
                episodes.setdefault(episode.id, replace(episode, trust=trust))
    return list(episodes.values()), problems


def _records(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield (place, record) of a trace store's episodes, oldest first, or a file's lines."""
    if is_sqlite(path):
        for row in TraceStore(path).exported():
            yield f"{path.name} episode {row['episode_id']}", row
        return
    with user_error_context(f"cannot read '{path}'"):
        text = path.read_bytes().decode("utf-8", "replace")
    for number, line in enumerate(text.split("\n"), 1):  # "\n" alone: text may hold U+2028
        if line.strip():
            yield f"{path.name} line {number}", line


def _exported(record: Any, source: str) -> Episode:
    """Return the episode of a record of the trace store's export, or of its JSON line."""
    record = parse_json(record) if isinstance(record, str) else record
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


class Built(NamedTuple):
    """A build's new rows, episodes read now, episodes read before, and problems, a line each."""

    rows: int
    read: int
    skipped: int
    problems: list[str]


def build_bank(
    kind: Literal["state", "trace"],
    folder: str | Path,
    episodes: Sequence[Episode],
    resources: Resources,
) -> Built:
    """Add ``episodes`` to the bank in ``folder``, made if it is not there, each whole or not at all.

    In a bank of states worth and words come from the episodes' returns (``nodes.experience.episode``);
    in one of traces each is a row, found by what was asked. What was added before is skipped.
    Raises ``UserError`` where the bank was built with another embedder.
    """
    embedder, adapter = resources.embedder, resources.profile.experience
    bank = Bank(folder, kind, make_of(embedder), create=True)
    unnamed = [episode.id for episode in episodes if kind == "trace" and not episode.question]
    named = [episode for episode in episodes if episode.id not in unnamed]
    todo = [episode for episode in named if not bank.is_read(episode.id)]
    rows = 0
    with closing(bank):
        for episode in Progress(todo, "build", unit="episode"):
            if kind == "state":
                rows += add_episode(bank, episode, embedder, adapter)
            else:
                (vector,) = embedder.embed([episode.question])
                rows += bank.add([(trace_row(episode, adapter), vector)], episode.id)
    problems = [f"{name}: there is no question to find it by" for name in unnamed]
    return Built(rows, len(todo), len(named) - len(todo), problems)


def trace_row(episode: Episode, adapter: ExperienceAdapter) -> Row:
    """Return the row of an episode: its question and its moves, without repeats in a row."""
    plan: list[str] = []
    for step in episode.steps:
        move = adapter.move_of(episode.question, step.action)
        if not plan or plan[-1] != move:
            plan.append(move)
    actions = [step.action for step in episode.steps]
    data = {
        "question": episode.question,
        "plan": plan,
        "lessons": list(adapter.lessons(episode.question, actions)),
        "reward": episode.reward,
        "correct": episode.reward >= 1.0,
        "steps": len(episode.steps),
        "episode": episode.id,
        "source": episode.source,
        "trust": episode.trust,
    }
    return Row(id=episode.id, task=episode.task_id, q=10.0 * episode.reward, data=data)
