"""A world that no code of ours knows, in the app's parts and on the command line."""

import json
import sys

import pytest
import yaml

from stategate.graph import load_config
from stategate.nodes import registry
from stategate.stores.errors import UserError
from stategate.ui.app.agents import Agents
from stategate.ui.app.tabs.common import App
from stategate.ui.app.tabs.episode import task_choices, task_of
from tests.ui import garden
from tests.ui.test_cli import call, refused


@pytest.fixture
def stranger(tmp_path, home, monkeypatch):
    """Install the garden on the path of this process, and find the plug-ins again."""
    garden.install(tmp_path / "site")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    registry.registry.cache_clear()
    yield tmp_path
    registry.registry.cache_clear()
    sys.modules.pop("stranger_garden", None)


@pytest.fixture
def workspace(stranger):
    config = load_config({**garden.CONFIG, "checkpoints": str(stranger / "c.sqlite")})
    agents = Agents(config)
    return App(agents).of("one")


def test_its_tasks_are_listed_found_and_drawn(workspace):
    tasks = workspace.world.tasks()
    choices = task_choices(workspace.world)
    assert choices[1] == ("#1 Light the lantern in the garden.", 1)
    assert len(choices) == 6
    assert task_of(1, tasks) == task_of("#1", tasks) == tasks[1]
    assert task_of("light it", tasks) == {"instruction": "light it"}
    with pytest.raises(UserError, match="choose 0 to 5"):
        task_of("99", tasks)


def test_it_is_run_by_number_and_by_its_own_words(stranger):
    path = stranger / "garden.yaml"
    path.write_text(yaml.safe_dump(garden.CONFIG))
    assert "1.00  (right room yes)" in call("run", path, "--goal", 1)
    told = call("run", path, "--task", "thing=candle", "--task", "room=cellar", "--json", "-")
    assert json.loads(told)["task"] == {"env": "garden", "thing": "candle", "room": "cellar"}
    assert "tasks 0-5" in refused("run", path, "--goal", 99)
