"""Nodes swapped for one call, a session or a fork: what people pass, parsed and checked."""

from collections.abc import Mapping
from typing import Any

from graph.state import context_schema
from nodes.registry import registry
from stores.errors import UserError


def overrides_of(context: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return parsed overrides by slot; ``context`` is one builder, or a mapping of slots.

    Raises ``UserError`` for an unknown slot or kind.
    """
    if not context:
        return {}
    slots = {"context": dict(context)} if "kind" in context else dict(context)
    unknown = set(slots) - set(context_schema().model_fields)
    if unknown:
        known = ", ".join(context_schema().model_fields)
        raise UserError(f"no slot '{sorted(unknown)[0]}': the slots are {known}")
    parsed: dict[str, Any] = {}
    for slot, value in slots.items():
        if slot == "memory":
            parsed[slot] = [registry().parse(slot, item) for item in value]
        elif value is not None:
            parsed[slot] = registry().parse(slot, value)
    return parsed


def validated(overrides: Mapping[str, Any]) -> Any:
    """Return ``overrides`` as the graph's context, None where there are none."""
    return context_schema()(**overrides) if overrides else None
