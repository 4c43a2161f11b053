"""A world from outside, without a word of ours, is evaluated by the same command."""

import json
from typing import Literal

import pytest

from stategate.envs.protocols import Observation
from stategate.evals.worlds.live import run_live
from stategate.nodes.protocols import EnvParams
from stategate.nodes.registry import registry
from stategate.stores.errors import UserError


class Rooms:
    """Two rooms, and a lamp in one of them."""

    name = "rooms"

    def tasks(self):
        return [{"lamp": "attic"}, {"lamp": "cellar"}]

    def reset(self, task):
        session = {"lamp": task["lamp"], "here": "hall", "done": False, "reward": 0.0}
        return session, self.observe(session)

    def step(self, session, action):
        here = action.removeprefix("go to ") if action.startswith("go to ") else session["here"]
        is_end = action == "take lamp"
        won = float(is_end and here == session["lamp"])
        session = {**session, "here": here, "done": is_end, "reward": won}
        return session, self.observe(session)

    def observe(self, session):
        actions = ("go to attic", "go to cellar", "take lamp")
        text = f"You are in the {session['here']}."
        return Observation(text, actions, session["reward"], session["done"])

    def instruction(self, session):
        return f"Take the lamp from the {session['lamp']}."


class RoomsEnv(EnvParams):
    kind: Literal["rooms"] = "rooms"

    def build(self, resources):
        return Rooms()


@pytest.fixture(autouse=True)
def kind(monkeypatch):
    known = registry()
    monkeypatch.setattr(known, "slots", {slot: dict(kinds) for slot, kinds in known.slots.items()})
    known.add(RoomsEnv, "test")


def test_agents_play_the_listed_tasks(tmp_path):
    config = {
        "env": "rooms",
        "actor": {"kind": "scripted", "actions": ["go to attic", "take lamp"]},
        "embedder": "hashing",
        "max_steps": 5,
    }
    agents = {"full": [], "window": ["context.kind=window"]}
    summary = run_live(config, agents, "all", str(tmp_path / "run"))
    assert [(row["agent"], row["n"], row["success"]) for row in summary["rows"]] == [
        ("full", 2, 0.5),
        ("window", 2, 0.5),
    ]
    lines = (tmp_path / "run" / "episodes.jsonl").read_text().splitlines()
    assert json.loads(lines[-1])["task"] == {"lamp": "cellar"}
    with pytest.raises(UserError, match="tasks 0-1"):
        run_live(config, agents, "0-2", str(tmp_path / "other"))
