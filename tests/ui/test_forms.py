"""Forms from schemas: every installed kind's parameters go out to controls and come back the same."""

from typing import Literal

import pytest
from pydantic import BaseModel, Field

from stategate.graph import load_config
from stategate.nodes.protocols import SLOTS, ContextParams
from stategate.nodes.registry import registry
from stategate.stores.errors import UserError
from stategate.ui.app.tabs.settings import as_yaml, fields_of, shown, swapped, values_of

KINDS = [(slot, name) for slot in SLOTS for name in sorted(registry().kinds(slot))]


class Place(BaseModel):
    user: str = "me"


class Odd(ContextParams):
    kind: Literal["odd"] = "odd"
    name: str
    mode: Literal["a", "b"] = "a"
    share: float = Field(default=0.5, description="of it")
    limit: int | None = None
    words: tuple[str, ...] = ("x",)
    place: Place = Place()
    deep: bool = False

    def build(self, resources):
        raise NotImplementedError


@pytest.mark.parametrize(("slot", "name"), KINDS)
def test_every_kinds_defaults_survive_the_form(slot, name):
    kind = registry().kinds(slot)[name].cls
    fields = fields_of(kind)
    if any(field.is_required() for field in fields.values()):
        pytest.skip("has a parameter without a default")
    values = kind().model_dump(mode="json")
    raw = [shown(field, values[name]) for name, field in fields.items()]
    assert kind.model_validate(values_of(fields, raw)).model_dump(mode="json") == values


def test_what_is_typed_means_what_it_says():
    fields = {name: fields_of(Odd)[name] for name in ("limit", "words", "place")}
    assert values_of(fields, ["7", "[a, b]", "{user: you}"]) == {
        "limit": 7,
        "words": ["a", "b"],
        "place": {"user": "you"},
    }
    assert values_of(fields, ["", "", ""]) == {"limit": None}
    with pytest.raises(UserError, match="words"):
        values_of(fields, ["", "[", ""])


def test_kinds_are_swapped_in_drafts_and_yaml_reads_back(tmp_path):
    draft = load_config("webshop").model_dump(mode="json")
    draft = swapped(draft, "context", -1, "window")
    assert draft["context"] == {"kind": "window", "budget": 2000}
    draft = swapped(draft, "memory", 2, "trace")
    assert [item["kind"] for item in draft["memory"]] == ["short_term", "trace", "trace"]
    draft = swapped(draft, "memory", 1, "(none)")
    assert len(draft["memory"]) == 2
    assert swapped(draft, "llm", -1, "(none)")["llm"] is None
    file = tmp_path / "agent.yaml"
    file.write_text(as_yaml(load_config(draft)))
    assert load_config(file) == load_config(draft)


def test_a_list_that_was_left_without_a_choice_changes_nothing():
    draft = load_config("smoke").model_dump(mode="json")
    assert swapped(draft, "memory", len(draft["memory"]), None) == draft
    assert swapped(draft, "context", -1, None) == draft
