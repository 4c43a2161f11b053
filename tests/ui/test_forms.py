"""The Settings tab: every installed kind goes out to its boxes and comes back the same."""

import gradio as gr
import pytest
import yaml

from stategate.graph import load_config
from stategate.graph.config import presets
from stategate.stores.errors import UserError
from stategate.ui.app.agents import Agents
from stategate.ui.app.tabs.common import App
from stategate.ui.app.tabs.settings import SLOTS, SettingsTab, as_yaml, offered_kinds
from stategate.ui.app.workspace import Workspaces


@pytest.fixture
def tab(tmp_path):
    config = load_config("webshop", [f"checkpoints={tmp_path}/c.sqlite"])
    with gr.Blocks():
        app = App(Workspaces(config, Agents(config)), gr.Textbox())
        return SettingsTab(app, lambda workspace: {}, [])


def boxes(tab, update):
    """Return the values of a filled tab's boxes, as an event hands them over."""
    values = [update[box] for box in tab.boxes]
    return [v["value"] if isinstance(v, dict) and "__type__" in v else v for v in values]


@pytest.mark.parametrize("preset", presets())
def test_a_preset_survives_its_boxes(tab, preset, tmp_path):
    filled = boxes(tab, tab.read(preset))
    config = tab.gathered(*filled)
    assert config == load_config(preset)
    file = tmp_path / "agent.yaml"
    file.write_text(as_yaml(config))
    assert load_config(file) == config


def test_another_kind_has_its_defaults_and_keeps_the_budget(tab):
    base, limit, *rest = boxes(tab, tab.read("webshop"))
    at, text_at = list(tab.kinds).index("context"), len(tab.kinds) + list(SLOTS).index("context")
    update = tab.swap("window", base, slot="context")
    rest[at], rest[text_at] = "window", update[tab.texts["context"]]
    assert "how" in str(update[tab.abouts["context"]]) or "window" in str(update)
    context = tab.gathered(base, limit, *rest).context
    assert (context.kind, context.budget) == ("window", base["context"]["budget"])
    llm = list(tab.kinds).index("llm")
    rest[llm] = "(none)"
    assert tab.gathered(base, limit, *rest).llm is None
    for text, problem in (("[", "no YAML"), ("[1]", "write parameters"), ("x: 1", "x")):
        rest[text_at] = text
        with pytest.raises(UserError, match=problem):
            tab.gathered(base, limit, *rest)
    assert yaml.safe_load(rest[-1])[0]["kind"] == "short_term"


def test_only_what_fits_the_world_is_offered():
    assert "learned_state" not in offered_kinds("actor", "webshop", "rule")
    assert "learned_state" in offered_kinds("actor", "webshop", "learned_state"), (
        "what is set stays"
    )
