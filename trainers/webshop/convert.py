"""ReAct's prompt traces of WebShop in the form of our trajectories.

    stategate data convert react react_davinci002_webshop_500.jsonl --out runs/react.jsonl

Thoughts are dropped, pages become our `text` pages.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from envs.webshop.pages import SEARCH
from stores.errors import UserError
from stores.traces import Event
from stores.traces.trajectories import Trajectory

_SEP = " [SEP] "
_BRACKET = re.compile(r"\[([^\[\]]+)\]")
_CLICKED = re.compile(r"You have clicked (.*)\.\s*$")


def from_react(rows: Sequence[Mapping[str, Any]]) -> Iterator[Trajectory]:
    """Yield a trajectory for each ReAct episode."""
    for row in rows:
        wish = " ".join(row["instruction"].split())
        events: list[Event] = []
        pages: list[tuple[str, ...]] = []
        page, actions = _react_page(row["steps"][0]["observation"], wish)
        t = 0
        for step in row["steps"][1:]:
            action = " ".join(step["action"].split())
            if not action.startswith(("search[", "click[")):
                continue  # a thought, or the end
            events += [Event("OBS", page, t), Event("ACT", action.lower(), t)]
            pages.append(actions)
            t += 1
            if not _CLICKED.match(step["observation"]):  # else the page stays as it was
                page, actions = _react_page(step["observation"], wish)
        if events:
            events += [Event("REWARD", str(row["reward"]), t - 1), Event("DONE", "", t - 1)]
            agent = {"kind": "react", "mode": "text"}
            yield Trajectory(
                f"react/{row['session']}", tuple(events), float(row["reward"]), wish,
                {"env": "webshop"}, agent, tuple(pages),
            )  # fmt: skip


def _react_page(observation: str, wish: str) -> tuple[str, tuple[str, ...]]:
    """Return a ReAct page as a `text` page and its affordances."""
    parts: list[str] = []
    actions: list[str] = []
    for line in (line.strip() for line in observation.split("\n")):
        labels = _BRACKET.findall(line)
        if not line or line in ("Webshop", wish) or line.startswith("Instruction:"):
            continue
        name = line.partition("[")[0].strip()
        parts += [name] if labels and name else []
        parts += labels or [line]
        actions += [SEARCH if x == "Search" else f"click[{x.lower()}]" for x in labels]
    return _SEP.join(["Instruction:", wish, *parts]), tuple(actions)


def _lines(path: Path) -> list[dict[str, Any]]:
    try:
        return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line.strip()]
    except OSError as error:
        raise UserError(f"cannot read '{path}': {error.strerror}") from None
    except ValueError as error:
        raise UserError(f"'{path}' holds no JSON lines ({error})") from None


def convert(form: str, source: Path) -> list[Trajectory]:
    """Read ``source`` (a file, or a folder of files) of ``form``. Raises ``UserError``."""
    if form != "react":
        raise UserError(f"the form that can be read is react, not '{form}'")
    files = sorted(source.glob("*.jsonl")) if source.is_dir() else [source]
    if not files:
        raise UserError(f"'{source}' holds no .jsonl file")
    try:
        return [trajectory for file in files for trajectory in from_react(_lines(file))]
    except (KeyError, IndexError, TypeError) as error:
        problem = f"{type(error).__name__}: {error}"
        raise UserError(f"'{source}' is not of the form '{form}' ({problem})") from None
