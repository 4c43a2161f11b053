"""The registry: known kinds, strangers, duplicates, broken plug-ins."""

from importlib.metadata import EntryPoint
from typing import Literal

import pytest

from stategate.nodes.build_context.baselines import Full
from stategate.nodes.protocols import ContextParams
from stategate.nodes.registry import Registry, load
from stategate.stores.errors import UserError


class Stranger(ContextParams):
    kind: Literal["stranger"] = "stranger"

    def build(self, resources):
        raise NotImplementedError


class SecondFull(Stranger):
    kind: Literal["full"] = "full"


class NoKind(ContextParams):
    def build(self, resources):
        raise NotImplementedError


NOT_PARAMS = 3


def point(name, value):
    return EntryPoint(name, value, "stategate.nodes")


def test_a_duplicate_kind_names_both_owners():
    found = Registry()
    found.add(Full, "stategate")
    with pytest.raises(UserError, match=r"'full'.*stategate.*Full.*other-package.*SecondFull"):
        found.add(SecondFull, "other-package")


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("no_such_module:Thing", "ModuleNotFoundError"),
        (f"{__name__}:NOT_PARAMS", "not a subclass"),
        (f"{__name__}:NoKind", "give it a kind"),
        (f"{__name__}:missing", "AttributeError"),
    ],
)
def test_a_broken_plugin_is_reported_by_name_and_harms_nothing_else(value, why):
    loaded = load([point("broken_one", value), point("stranger", f"{__name__}:Stranger")])
    assert "stranger" in loaded.slots["context"]
    (name, problem) = next(iter(loaded.broken.items()))
    assert "broken_one" in name
    assert why in problem
    with pytest.raises(UserError, match="'.*broken_one' did not load"):
        loaded.parse("context", "broken_one")
