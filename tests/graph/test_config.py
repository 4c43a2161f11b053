"""Configs: presets, files, overrides, and one clear line for each mistake."""

import pytest

from stategate.graph import load_config
from stategate.stores.errors import UserError


def test_changing_the_kind_drops_old_parameters_but_keeps_the_budget():
    base = {"context": {"kind": "query_rag", "top_k": 2, "budget": 321}}
    context = load_config(base, ["context.kind=full"]).context.model_dump()
    assert (context["budget"], "top_k" in context) == (321, False)


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


@pytest.mark.parametrize("text", ["actr: rule", "context: {kind: full, budgt: 9}", "env: nowhere"])
def test_a_mistake_in_a_file_names_the_file(tmp_path, text):
    (path := tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(UserError, match=f"^config '{path}': "):
        load_config(path)


def test_an_override_of_a_slot_that_the_config_leaves_out_starts_from_its_default():
    config = load_config({"actor": "rule"}, ["context.budget=90"])
    assert (config.context.kind, config.context.budget) == ("full", 90)
