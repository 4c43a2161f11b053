"""Other people's WebShop traces in the form of our trajectories.

``react``: ReAct's prompt traces; thoughts are dropped, pages become our `text` pages. ``human``: the
logs of WebShop's own server, which name pages and choices but hold no product texts: results show ASINs
alone, and only the goal's own product has its title.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from stategate.envs.webshop.pages import SEARCH
from stategate.stores.errors import UserError, user_error_context
from stategate.stores.files import parse_json
from stategate.stores.traces import Event
from stategate.stores.traces.trajectories import Trajectory

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
                f"react/{row['session']}",
                tuple(events),
                float(row["reward"]),
                wish,
                {"env": "webshop"},
                agent,
                tuple(pages),
            )


def from_human(name: str, rows: Sequence[Mapping[str, Any]]) -> Trajectory:
    """Return the trajectory of one log of WebShop's server."""
    goal = rows[0]["goal"]
    wish = " ".join(goal["instruction_text"].split())
    events: list[Event] = []
    pages: list[tuple[str, ...]] = []
    for t, (before, after) in enumerate(pairwise(rows)):
        page, actions = _human_page(before, after, goal, wish)
        action = _human_action(before, after)
        events += [Event("OBS", page, t), Event("ACT", action, t)]
        # What was clicked was there, even where the log does not list it (options, products).
        pages.append(tuple(dict.fromkeys((*actions, action))) if action[0] == "c" else actions)
    reward = float(rows[-1].get("reward") or 0.0)
    last = len(rows) - 2
    events += [Event("REWARD", str(reward), last), Event("DONE", "", last)]
    agent = {"kind": "human", "mode": "text", "asin": goal["asin"]}
    return Trajectory(
        f"human/{name}", tuple(events), reward, wish, {"env": "webshop"}, agent, tuple(pages)
    )


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


def _human_page(
    row: Mapping[str, Any], after: Mapping[str, Any], goal: Mapping[str, Any], wish: str
) -> tuple[str, tuple[str, ...]]:
    content = row.get("content") or {}
    lead = ["Instruction:", wish]
    if row["page"] == "index":
        return _SEP.join(["WebShop", *lead, "Search"]), (SEARCH,)
    if row["page"] == "search_results":
        found = content["search_result_asins"]
        listed = [x for a in found for x in ((a, goal["name"]) if a == goal["asin"] else (a,))]
        number = int(content["page"])
        buttons = ["< Prev", "Next >"] if number > 1 else ["Next >"]
        head = ["Back to Search", f"Page {number} (Total results: 50)", *buttons]
        labels = ["Back to Search", *buttons, *found]
        return _SEP.join([*lead, *head, *listed]), tuple(f"click[{x.lower()}]" for x in labels)
    title = goal["name"] if content.get("asin") == goal["asin"] else content.get("asin", "")
    if row["page"] == "item_sub_page":
        return _SEP.join([*lead, "Back to Search", "< Prev", title]), (
            "click[back to search]",
            "click[< prev]",
        )
    # Which options were offered is not logged; those that were or are being chosen surely were.
    coming = (after.get("content") or {}).get("options") if after["page"] == "item_page" else {}
    offered = {**(content.get("options") or {}), **(coming or {})}
    chosen = [part for pair in offered.items() for part in pair]
    buttons = ["Description", "Features", "Reviews", "Buy Now"]
    parts = ["Back to Search", "< Prev", *chosen, title, "Price: unknown", "Rating: N.A.", *buttons]
    labels = ["Back to Search", "< Prev", *buttons]
    return _SEP.join([*lead, *parts]), tuple(f"click[{x.lower()}]" for x in labels)


def _human_action(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Return what leads from one page of the log to the next."""
    here, there = before["page"], after["page"]
    old, new = before.get("content") or {}, after.get("content") or {}
    if there == "done":
        return "click[buy now]"
    if there == "index":
        return "click[back to search]"
    if there == "search_results":
        if here in ("item_page", "item_sub_page"):
            return "click[< prev]"
        if here == "search_results" and old.get("keywords") == new.get("keywords"):
            return "click[next >]" if int(new["page"]) > int(old["page"]) else "click[< prev]"
        return f"search[{' '.join(new['keywords'])}]"
    if there == "item_sub_page":
        last = str(after.get("url", "")).rstrip("/").split("/")
        known = ("description", "features", "reviews", "attributes")
        return f"click[{next((x.lower() for x in last if x.lower() in known), 'description')}]"
    if here == "item_sub_page":
        return "click[< prev]"
    if here == "search_results":
        return f"click[{new['asin'].lower()}]"
    fresh = {
        k: v for k, v in (new.get("options") or {}).items() if old.get("options", {}).get(k) != v
    }
    return f"click[{str(next(iter(fresh.values()), 'buy now')).lower()}]"


def _lines(path: Path) -> list[dict[str, Any]]:
    with user_error_context(f"cannot read JSON lines from '{path}'"):
        return [parse_json(line) for line in path.read_text("utf-8").split("\n") if line.strip()]


def convert(form: str, source: Path) -> list[Trajectory]:
    """Read ``source`` (a file, or a folder of files) of ``form``. Raises ``UserError``."""
    if form not in ("react", "human"):
        raise UserError(f"the forms are react and human, not '{form}'")
    files = sorted(source.glob("*.jsonl")) if source.is_dir() else [source]
    if not files:
        raise UserError(f"'{source}' holds no .jsonl file")
    with user_error_context(f"'{source}' is not of the form '{form}'"):
        if form == "react":
            return [t for file in files for t in from_react(_lines(file))]
        return [from_human(file.stem, _lines(file)) for file in files]
