"""A world that no code of ours knows, in the app's parts and on the command line."""

import json
import sys

import pytest
import yaml

from stategate.envs.protocols import playable
from stategate.graph import load_config
from stategate.nodes import registry
from stategate.ui.app.agents import Agents
from stategate.ui.app.tab_sessions import TabSessions
from stategate.ui.app.tabs.episode import quick
from stategate.ui.app.tabs.episode_view import draw
from stategate.ui.app.tabs.tasks import TaskList
from stategate.ui.app.workspace import Workspaces
from tests.ui import garden
from tests.ui.test_cli import call, refused


@pytest.fixture
def stranger(tmp_path, monkeypatch):
    """Install the garden on the path of this process, and find the plug-ins again."""
    monkeypatch.setenv("STATEGATE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.syspath_prepend(str(garden.install(tmp_path / "site")))
    registry.registry.cache_clear()
    yield tmp_path
    registry.registry.cache_clear()
    sys.modules.pop("stranger_garden", None)


@pytest.fixture
def workspace(stranger):
    config = load_config({**garden.CONFIG, "checkpoints": str(stranger / "c.sqlite")})
    agents = Agents(config)
    return Workspaces(config, agents, TabSessions(stranger / "tabs.sqlite")).of("one")


def test_its_tasks_are_listed_found_and_drawn(workspace):
    tasks = TaskList(workspace.world)
    shown, where, more = tasks.page("", 0)
    assert shown[1] == (1, "Light the lantern in the garden.")
    assert (where, more) == ("1–6 of 6 tasks", False)
    found, where, _ = tasks.page("candle garden", 0)
    assert found == [(4, "Light the candle in the garden.")]
    assert where == "1–1 of 1 task"
    assert tasks.page("dragon", 0)[1] == "No task has these words"
    assert not tasks.takes_instruction


def test_it_is_stepped_played_by_hand_compared_and_replayed(workspace):
    workspace.start(playable(workspace.world).tasks()[1])
    drawn = draw(workspace)
    assert "Light the lantern in the garden." in drawn.page
    assert 'data-action="go cellar"' in drawn.page
    assert 'data-verb="say"' in drawn.page
    assert "garden / thing lantern / room garden / step 1" in drawn.page
    workspace.step()
    workspace.act("say[good evening]")
    assert "You said: good evening" in draw(workspace).page
    seen = workspace.look({"kind": "window", "budget": 90}, 0)
    assert seen.decision.action == "go cellar"
    workspace.looked_at = 1
    past = draw(workspace).page
    assert 'value="good evening"' in past
    assert "sg-page-past" in past
    workspace.looked_at = None
    workspace.fork(step=1)
    for _ in garden.WINNING[1:]:
        workspace.step()
    end = draw(workspace)
    assert "right room" in end.page
    assert "sg-reward-good" in end.page


def test_only_kinds_that_fit_are_offered(workspace):
    assert "rule" not in quick("actor", workspace.config)["choices"]
    assert "rule" in quick("actor", load_config("ui"))["choices"]
    assert {"full", "compress"} <= set(quick("context", workspace.config)["choices"])


def test_it_is_run_by_number_and_by_its_own_words(stranger):
    path = stranger / "garden.yaml"
    path.write_text(yaml.safe_dump(garden.CONFIG))
    assert "1.00  (right room yes)" in call("run", path, "--goal", 1)
    told = call("run", path, "--task", "thing=candle", "--task", "room=cellar", "--json", "-")
    assert json.loads(told)["task"] == {"env": "garden", "thing": "candle", "room": "cellar"}
    assert "tasks 0 to 5" in refused("run", path, "--goal", 99)
    typed = "3\n1\nsay good evening\ngo hall\nq\n"
    by_hand = call("run", path, "--goal", 1, "--actor", "human", stdin=typed)
    assert "to say, type: say and your words" in by_hand
    for action in ("go garden", "say[good evening]", "go hall"):
        assert f"→ {action}" in by_hand
