"""Configs: presets, files, overrides, and one clear line for each mistake."""

import pytest

from stategate.graph import load_config, presets
from stategate.stores.errors import UserError


def test_every_preset_loads():
    assert {"demo", "webshop", "smoke"} <= set(presets())
    for name in presets():
        load_config(name)
        load_config(f"configs/{name}.yaml")


def test_overrides_reach_every_slot():
    overrides = ["context.kind=window", "context.events=3", "max_steps=7", "env.observation=text"]
    config = load_config("webshop", overrides)
    assert (config.context.kind, config.max_steps) == ("window", 7)
    assert config.env.model_dump()["observation"] == "text"


def test_changing_the_kind_drops_old_parameters_but_keeps_the_budget():
    base = {"context": {"kind": "query_rag", "top_k": 2, "budget": 321}}
    config = load_config(base, ["context.kind=full"])
    assert config.context.model_dump()["budget"] == 321
    assert "top_k" not in config.context.model_dump()


def test_a_config_survives_its_own_dump():
    config = load_config("webshop", ["context.kind=query_rag"])
    assert load_config(config.model_dump(mode="json")) == config


@pytest.mark.parametrize(
    ("source", "overrides", "why"),
    [
        ("no_such_config", [], "no config 'no_such_config'.*webshop"),
        ("webshop", ["context.kind=nope"], "unknown context kind 'nope'"),
        ("webshop", ["context.budget=lots"], "budget"),
        ("webshop", ["context.budget"], "slot.field=value"),
        ("webshop", ["contexts.kind=full"], "contexts"),
        ("webshop", ["max_steps=0"], "max_steps"),
        ("webshop", ["memory.kind=trace"], "memory is not a mapping"),
        ({"actor": 5}, [], "actor"),
    ],
)
def test_mistakes_are_one_line(source, overrides, why):
    with pytest.raises(UserError, match=why) as error:
        load_config(source, overrides)
    assert "\n" not in str(error.value)


def test_broken_yaml_names_the_file(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("env: {kind: webshop")
    with pytest.raises(UserError, match="cannot read config .*mine.yaml") as error:
        load_config(path)
    assert "\n" not in str(error.value)
    path.write_text("- a\n- b\n")
    with pytest.raises(UserError, match="not a mapping"):
        load_config(path)


def test_an_override_of_a_slot_that_the_config_leaves_out_starts_from_its_default():
    config = load_config({"actor": "rule"}, ["context.budget=90"])
    assert (config.context.kind, config.context.model_dump()["budget"]) == ("full", 90)
