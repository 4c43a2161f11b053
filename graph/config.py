"""An agent as configuration: one kind for each slot, from YAML plus dotted overrides."""

import json
import os
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, SerializeAsAny, ValidationError, field_validator

from stategate.nodes.protocols import (
    SLOTS,
    ActorParams,
    ContextParams,
    EmbedderParams,
    EnvParams,
    LlmParams,
    MemoryParams,
    Params,
    UpdaterParams,
)
from stategate.nodes.registry import first_problem, registry, suggestion
from stategate.stores.errors import UserError, user_error_context
from stategate.stores.files import read_yaml, user_path
from stategate.stores.home import home

#: Fields of params that may name a place: a file, a folder, a database, a server.
PLACES = frozenset(
    "bank base_url checkpoint checkpoints corpus data model path questions url vectors".split()
)


class Config(BaseModel):
    """One agent: what fills each slot, and the limits of an episode.

    ``reader`` reads instructions: the learned one, or the llm, once each.
    ``checkpoints`` is None for checkpoints in memory, a file for SQLite, or a ``postgresql://`` URL.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    env: SerializeAsAny[EnvParams] = Field(default={"kind": "webshop"}, validate_default=True)
    llm: SerializeAsAny[LlmParams] | None = None
    embedder: SerializeAsAny[EmbedderParams] = Field(
        default={"kind": "minilm"}, validate_default=True
    )
    updater: SerializeAsAny[UpdaterParams] = Field(default={"kind": "none"}, validate_default=True)
    context: SerializeAsAny[ContextParams] = Field(default={"kind": "full"}, validate_default=True)
    actor: SerializeAsAny[ActorParams] = Field(default={"kind": "rule"}, validate_default=True)
    memory: tuple[SerializeAsAny[MemoryParams], ...] = Field(
        default=({"kind": "short_term"},), validate_default=True
    )
    reader: Literal["learned", "model"] = "learned"
    max_steps: int = Field(default=20, ge=1, le=10_000)
    checkpoints: str | None = None

    def durable(self) -> "Config":
        """Return this config with checkpoints on disk, where it does not say otherwise."""
        if self.checkpoints is not None:
            return self
        return self.model_copy(update={"checkpoints": str(home() / "checkpoints.sqlite")})

    @property
    def models(self) -> tuple[Any, ...]:
        """What nodes may lean on: model, embedder, updater, world."""
        return self.llm, self.embedder, self.updater, self.env

    @field_validator(*SLOTS, mode="before")
    @classmethod
    def _parse_slot(cls, value: Any, info: Any) -> Params | tuple[Params, ...] | None:
        return registry().parse_slot(info.field_name, value)


#: What fills a slot that a config leaves out.
_DEFAULTS = {
    slot: field.default["kind"]
    for slot, field in Config.model_fields.items()
    if isinstance(field.default, dict)
}


def load_config(
    source: str | os.PathLike[str] | Mapping[str, Any], overrides: Sequence[str] = ()
) -> Config:
    """Read a configuration.

    ``source`` is a YAML file, the name of a preset in ``configs/``, or a mapping. ``overrides`` are
    ``"context.kind=window"`` strings; the value is YAML. Changing a slot's kind drops the old kind's
    parameters (a context keeps its budget). Raises ``UserError`` for anything that does not fit.
    """
    values = dict(source) if isinstance(source, Mapping) else _read(os.fspath(source))
    values = json.loads(json.dumps(values, default=_jsonable))
    for override in overrides:
        _apply(values, override)
    where = "config" if isinstance(source, Mapping) else f"config '{source}'"
    try:
        return Config.model_validate(values)
    except ValidationError as error:
        raise UserError(f"{where}: {first_problem(error, Config.model_fields)}") from None
    except UserError as error:  # of a slot's kind
        raise UserError(f"{where}: {error}") from None


def presets() -> list[str]:
    """Return the names of the presets that ship with the package."""
    return sorted(
        Path(f.name).stem for f in files("stategate.configs").iterdir() if f.name.endswith(".yaml")
    )


def _jsonable(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    raise UserError(f"config: {value!r} is not a plain value")


def _read(source: str) -> dict[str, Any]:
    path = user_path(source)
    name = path.stem if path.parts[:-1] in ((), ("configs",)) else ""
    if not path.is_file() and name not in presets():
        hint = suggestion(source, presets())
        raise UserError(f"no config '{source}': give a YAML file or a preset ({hint})")
    problems = (yaml.YAMLError, UnicodeDecodeError, OSError)
    with user_error_context(f"cannot read config '{source}'", "correct it there", problems):
        preset = files("stategate.configs").joinpath(f"{name}.yaml")
        values = read_yaml((path if path.is_file() else preset).read_text(encoding="utf-8"))
    if not isinstance(values, dict):
        raise UserError(f"config '{source}' is not a mapping of slots: see configs/webshop.yaml")
    return values


def _apply(values: dict[str, Any], override: str) -> None:
    key, equals, raw = override.partition("=")
    path = key.strip().split(".")
    if not equals or not all(path):
        raise UserError(f"write an override as slot.field=value, not '{override}'")
    try:
        value = read_yaml(raw)
    except yaml.YAMLError:
        value = raw
    node: dict[str, Any] = values
    for part in path[:-1]:
        child = node.get(part)
        if isinstance(child, str):  # a bare kind
            child = {"kind": child}
        if child is None:
            child = {}
        if not isinstance(child, dict):
            raise UserError(f"override '{override}': {part} is not a mapping")
        if not child and part in _DEFAULTS and path[-1] != "kind":
            child = {"kind": _DEFAULTS[part]}
        node[part] = child
        node = child
    if path[-1] == "kind" and node.get("kind") not in (None, value):
        budget = {"budget": node["budget"]} if path[0] == "context" and "budget" in node else {}
        node.clear()
        node.update(budget)
    node[path[-1]] = value
