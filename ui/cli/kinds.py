"""``stategate kinds``: what can fill each slot, with every parameter."""

import inspect
import json
from collections.abc import Iterable
from typing import Any

from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

from stategate.nodes.protocols import SLOTS
from stategate.nodes.registry import Registry, registry
from stategate.stores.errors import UserError
from stategate.stores.settings import JsonFile, Settings, argument
from stategate.ui.cli.output import say, wrote
from stategate.ui.cli.settings_command import command, single

app = single()


class KindsSettings(Settings):
    """Which slot, and how it is written."""

    slot: str | None = argument(None, "One slot, such as context; else all.")
    json_target: JsonFile = None


@command(app, "stategate kinds context", "stategate kinds --json -")
def kinds(settings: KindsSettings) -> None:
    """Show what can fill each slot: kinds, their parameters, who owns them, and what is broken."""
    slot = settings.slot
    if slot is not None and slot not in SLOTS:
        raise UserError(f"no slot '{slot}': the slots are {', '.join(SLOTS)}")
    described = catalogue(registry(), SLOTS if slot is None else (slot,))
    if not wrote(settings.json_target, described):
        _show(described)


def catalogue(registry: "Registry", slots: Iterable[str]) -> dict[str, Any]:
    """Describe the kinds of ``slots``: ``{"slots": {slot: [kind, ...]}, "broken": {name: why}}``."""
    described: dict[str, list[dict[str, Any]]] = {slot: [] for slot in slots}
    for slot, members in described.items():
        for name, kind in sorted(registry.kinds(slot).items()):
            summary = (kind.cls.__doc__ or "").strip().split("\n\n")[0].replace("\n", " ")
            fields = kind.cls.model_fields.items()
            own = [_parameter(field, info) for field, info in fields if field != "kind"]
            about = {"kind": name, "owner": kind.owner, "hint": kind.hint, "summary": summary}
            members.append({**about, "parameters": own})
    return {"slots": described, "broken": dict(registry.broken)}


def _parameter(name: str, info: "FieldInfo") -> dict[str, Any]:
    kind = inspect.formatannotation(info.annotation).replace("typing.", "")
    described = {"name": name, "type": kind, "required": info.is_required()}
    if not info.is_required():
        default = info.get_default(call_default_factory=True, validated_data={})
        described["default"] = to_jsonable_python(default, fallback=str)
    return {**described, "description": info.description or ""}


def _show(described: dict[str, Any]) -> None:
    """Print each kind, what it does, and a line a parameter."""
    for slot, members in described["slots"].items():
        say(f"── {slot}", "bold cyan")
        for kind in members:
            say(f"  {kind['kind']}  ({kind['owner']})", "bold")
            say(f"    {kind['summary']}")
            for parameter in kind["parameters"]:
                say(f"      {_line(parameter)}", "dim")
    for name, why in described["broken"].items():
        say(f"broken plug-in {name}: {why}", "red")


def _line(parameter: dict[str, Any]) -> str:
    head = f"{parameter['name']}: {parameter['type']}"
    value = json.dumps(parameter.get("default"), ensure_ascii=False)
    default = " (required)" if parameter["required"] else f" = {value}"
    return f"{head}{default}  {parameter['description']}".rstrip()
