"""``stategate kinds``: what can fill each slot, with every parameter."""

import inspect

from pydantic.fields import FieldInfo

from stategate.nodes.protocols import SLOTS
from stategate.nodes.registry import registry, suggestion
from stategate.stores.errors import UserError
from stategate.stores.settings import JsonFile, Settings, argument
from stategate.ui.cli.output import say, wrote
from stategate.ui.cli.settings_command import command


class KindsSettings(Settings):
    """Which slot, and how it is written."""

    slot: str | None = argument(None, "One slot, such as context; else all.")
    json_target: JsonFile = None


@command("stategate kinds context", "stategate kinds --json -")
def kinds(settings: KindsSettings) -> None:
    """Show what can fill each slot: kinds, their parameters, who owns them, and what is broken."""
    slot, loaded = settings.slot, registry()
    if slot is not None and slot not in SLOTS:
        owners = [name for name in SLOTS if slot in loaded.slots[name]]
        hint = f"it is a kind of {owners[0]}: stategate kinds {owners[0]}" if owners else ""
        raise UserError(f"no slot '{slot}' ({hint or suggestion(slot, SLOTS)})")
    slots = {s: sorted(loaded.slots[s].items()) for s in ((slot,) if slot else SLOTS)}
    described = {
        slot: [
            {
                "kind": name,
                "owner": loaded.owners[kind],
                "hint": kind.hint(),
                "parameters": kind.model_json_schema().get("properties", {}),
            }
            for name, kind in members
        ]
        for slot, members in slots.items()
    }
    if wrote(settings.json_target, {"slots": described, "broken": dict(loaded.broken)}):
        return
    for slot, members in slots.items():
        say(f"── {slot}", "bold cyan")
        for name, kind in members:
            say(f"  {name}  ({loaded.owners[kind]})", "bold")
            summary = (inspect.getdoc(kind) or "").partition("\n\n")[0]
            say(f"    {' '.join(summary.split())}")
            for parameter, field in kind.model_fields.items():
                if parameter != "kind":
                    say(f"      {_parameter(parameter, field)}", "dim")
    for name, why in loaded.broken.items():
        say(f"broken plug-in {name}: {why}", "red")


def _parameter(name: str, field: FieldInfo) -> str:
    """Return a parameter in a line: ``budget: int = 2000  tokens of the context``."""
    kind = inspect.formatannotation(field.annotation).replace("typing.", "")
    default = " (required)"
    if not field.is_required():
        default = f" = {field.get_default(call_default_factory=True, validated_data={})!r}"
    return f"{name}: {kind}{default}  {field.description or ''}".rstrip()
