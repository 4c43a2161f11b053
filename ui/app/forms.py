"""Forms from a kind's schema: which control each parameter gets, and what a control's value means."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import yaml

from stategate.nodes.protocols import Params
from stategate.stores.errors import user_error_context
from stategate.stores.files import read_yaml

Control = Literal["choice", "flag", "integer", "number", "text", "yaml"]
_CONTROLS: dict[str, Control] = {
    "boolean": "flag",
    "integer": "integer",
    "number": "number",
    "string": "text",
}


@dataclass(frozen=True)
class Field:
    """One parameter: its control, what it may be, and what it is if nothing is said."""

    name: str
    control: Control
    description: str = ""
    choices: tuple[Any, ...] = ()
    default: Any = None
    required: bool = False
    nullable: bool = False


def fields_of(kind: type[Params]) -> list[Field]:
    """Return the parameters of ``kind``, in order, read from its JSON schema."""
    schema = kind.model_json_schema()
    definitions = schema.get("$defs", {})
    required = set(schema.get("required", ()))
    return [
        _field(name, spec, name in required, definitions)
        for name, spec in schema.get("properties", {}).items()
        if name != "kind"
    ]


def _field(name: str, spec: Mapping[str, Any], required: bool, known: Mapping[str, Any]) -> Field:
    variants = [_resolved(variant, known) for variant in spec.get("anyOf", ())]
    nullable = any(variant.get("type") == "null" for variant in variants)
    rest = [variant for variant in variants if variant.get("type") != "null"]
    inner = {**spec, **rest[0]} if len(rest) == 1 else _resolved(spec, known)
    choices = tuple(inner.get("enum", ())) or ((inner["const"],) if "const" in inner else ())
    control: Control = "choice" if choices else "yaml"
    if not choices and len(rest) <= 1:
        control = _CONTROLS.get(str(inner.get("type")), "yaml")
        if nullable and control != "text":  # a number box cannot be empty, a line of text can
            control = "yaml"
    return Field(
        name,
        control,
        str(spec.get("description", "")),
        choices,
        spec.get("default"),
        required,
        nullable,
    )


def _resolved(spec: Mapping[str, Any], known: Mapping[str, Any]) -> Mapping[str, Any]:
    name = str(spec.get("$ref", "")).rpartition("/")[2]
    return {**known.get(name, {}), **spec} if name else spec


def shown(field: Field, value: Any) -> Any:
    """Return ``value`` as the field's control shows it."""
    if field.control in ("yaml", "text") and value is None:
        return ""
    if field.control == "yaml":
        return yaml.safe_dump(value, default_flow_style=True).strip()
    return {"text": str, "flag": bool}.get(field.control, lambda same: same)(value)


def meant(field: Field, raw: Any) -> Any:
    """Return what a control's value means as a parameter. Raises ``UserError``."""
    if field.control == "yaml":
        with user_error_context(f"{field.name}: this is no YAML", kinds=yaml.YAMLError):
            return read_yaml(raw) if isinstance(raw, str) and raw.strip() else None
    if field.control == "integer" and isinstance(raw, float) and raw.is_integer():
        return int(raw)
    return None if field.control == "text" and raw == "" and field.nullable else raw


def values_of(fields: Sequence[Field], raw: Sequence[Any]) -> dict[str, Any]:
    """Return the parameters that a form's values mean; what is left empty keeps its default."""
    values = {field.name: meant(field, item) for field, item in zip(fields, raw, strict=True)}
    empty = {field.name for field in fields if not field.nullable and values[field.name] is None}
    return {name: value for name, value in values.items() if name not in empty}
