"""Episodes as events, and their files: JSON lines in the form of the trace store's export.

A line is ``{"episode_id", "events": [{"event_type", "text", "t"}], "reward", "task", "instruction",
"agent"}``. Pages made by our own worlds also carry ``"actions"``, their affordances;
importers that do not know the key ignore it. ``stores.trace_store`` keeps events as they happen.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from stategate.stores.errors import UserError, user_error_context
from stategate.stores.files import parse_json

#: NOTE: the asked words that a page matched; only recent events in graph state hold it.
EventKind = Literal["OBS", "ACT", "REWARD", "DONE", "ERROR", "NOTE"]


@dataclass(frozen=True)
class Event:
    """One thing that happened: ``t`` is the step (from 0) in which it did.

    ``instruction`` is the task's, if known: it helps to read the event, and is neither compared nor
    stored.
    """

    kind: EventKind
    text: str
    t: int
    instruction: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True)
class Trajectory:
    """One episode. ``actions[i]`` are the affordances of the i-th OBS event (empty if unknown)."""

    episode_id: str
    events: tuple[Event, ...]
    reward: float = 0.0
    instruction: str = ""
    task: Mapping[str, Any] = field(default_factory=dict)
    agent: Mapping[str, Any] = field(default_factory=dict)
    actions: tuple[tuple[str, ...], ...] = ()

    def to_row(self) -> dict[str, object]:
        """Return the episode as the JSON object of an export line."""
        affordances = iter(self.actions)
        rows: list[dict[str, object]] = []
        for event in self.events:
            row: dict[str, object] = {"event_type": event.kind, "text": event.text, "t": event.t}
            if event.kind == "OBS" and (actions := next(affordances, ())):
                row["actions"] = list(actions)
            rows.append(row)
        return {
            "episode_id": self.episode_id,
            "events": rows,
            "reward": self.reward,
            "task": dict(self.task),
            "agent": dict(self.agent),
            "instruction": self.instruction,
        }


def read_trajectories(path: str | Path) -> list[Trajectory]:
    """Read an export. Raises ``UserError`` that names the file, and a broken line's number."""
    trajectories: list[Trajectory] = []
    fix = "record some with `stategate data trajectories`"
    with (
        user_error_context(f"cannot read trajectories '{path}'", fix, (OSError, UnicodeError)),
        Path(path).open(encoding="utf-8", newline="\n") as file,
    ):
        for line in file:
            with user_error_context(
                f"'{path}': episode {len(trajectories) + 1} is no exported one"
            ):
                trajectories += [_read(parse_json(line))] if line.strip() else []
    if not trajectories:
        raise UserError(f"'{path}' holds no episodes")
    return trajectories


def events_of(row: Mapping[str, Any]) -> tuple[Event, ...]:
    """Return the events of an exported episode. Raises for a broken one."""
    return tuple(Event(e["event_type"], str(e["text"]), int(e["t"])) for e in row["events"])


def _read(row: Mapping[str, Any]) -> Trajectory:
    actions = tuple(
        tuple(e.get("actions") or ()) for e in row["events"] if e["event_type"] == "OBS"
    )
    return Trajectory(
        str(row["episode_id"]),
        events_of(row),
        float(row.get("reward") or 0.0),
        str(row.get("instruction") or ""),
        dict(row.get("task") or {}),
        dict(row.get("agent") or {}),
        actions,
    )
