"""The Settings tab: a config goes out as YAML and comes back the same; every kind is explained."""

import pytest

from stategate.graph import load_config
from stategate.graph.config import presets
from stategate.nodes.protocols import SLOTS
from stategate.nodes.registry import registry
from stategate.stores.errors import UserError
from stategate.ui.app.agents import Agents
from stategate.ui.app.tabs.settings import as_yaml, config_of, render_kinds


@pytest.mark.parametrize("preset", presets())
def test_a_preset_survives_its_text(preset, tmp_path):
    text = as_yaml(load_config(preset))
    assert config_of(text) == load_config(preset)
    file = tmp_path / "agent.yaml"
    file.write_text(text)
    assert load_config(file) == load_config(preset)


@pytest.mark.parametrize(
    ("text", "problem"), [("[", "no YAML"), ("7", "fills each slot"), ("context: nope", "nope")]
)
def test_what_is_no_config_is_told(text, problem):
    with pytest.raises(UserError, match=problem):
        config_of(text)


def test_what_does_not_fit_the_world_is_replaced_and_named():
    agents = Agents(load_config("ui"))
    config, lines = agents.fitted(config_of("{env: alfworld, actor: rule, updater: none}"))
    assert (config.env.kind, config.actor.kind) == ("alfworld", "search_heuristic")
    assert lines == ["rule became search_heuristic, which fits the world"]
    assert agents.fitted(load_config("webshop")) == (load_config("webshop"), [])


def test_every_kind_is_explained():
    drawn = render_kinds()
    for slot in SLOTS:
        for name in registry().kinds(slot):
            assert f"<b>{name}</b>" in drawn
