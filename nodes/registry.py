"""The registry of node kinds: their params classes, owners, and entry points that failed to load.

All kinds, built-in ones too, come from one entry-point group, ``stategate.nodes``. An entry point
names a ``Params`` subclass (see ``nodes.protocols``), whose ``slot`` and ``kind`` default are its key.
"""

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Annotated

from pydantic import BeforeValidator, SerializeAsAny, ValidationError

from stategate.nodes.protocols import SLOTS, ActorParams, ContextParams, EnvParams, Params
from stategate.stores.errors import UserError, error_with_type, warn_once

GROUP = "stategate.nodes"


@dataclass
class Registry:
    """Params classes by slot and kind, who owns each, and the entry points that failed, by name."""

    slots: dict[str, dict[str, type[Params]]] = field(
        default_factory=lambda: {slot: {} for slot in SLOTS}
    )
    #: The distribution of each class.
    owners: dict[type[Params], str] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)

    def fitting(self, slot: str, env: EnvParams | None) -> list[str]:
        """Return the names of a slot's kinds that work in the world ``env`` (all without one)."""
        kinds = self.slots[slot].items()
        return sorted(name for name, kind in kinds if env is None or kind.fits(env))

    def add(self, cls: type[Params], owner: str) -> None:
        """Register a params class. Raises ``UserError`` if its kind is taken, naming both owners."""
        slot, kind = _identity(cls)
        registered = self.slots[slot].setdefault(kind, cls)
        if registered is not cls:
            raise UserError(
                f"two packages offer {slot} kind '{kind}': {self.owners[registered]} "
                f"({registered!r}) and {owner} ({cls!r}): uninstall one"
            )
        self.owners[cls] = owner

    def _current(self, slot: str, kind: str) -> str:
        """Return a kind's present name, with a warning (once) if ``kind`` is a former one."""
        kinds = self.slots[slot]
        renamed = (name for name, k in kinds.items() if kind in k.aliases)
        current = kind if kind in kinds else next(renamed, kind)
        if current != kind:
            warn_once(
                f"{slot} kind '{kind}' is now called '{current}': write that, '{kind}' will go"
            )
        return current

    def parse(self, slot: str, values: object) -> Params:
        """Turn ``{"kind": ..., **params}`` (or a bare kind, or params) into params.

        Raises ``UserError`` for an unknown kind (listing the known ones) or wrong parameters.
        """
        if isinstance(values, Params):
            if values.slot != slot:
                raise UserError(f"'{values.kind}' is a kind of {values.slot}, not of {slot}")
            return values
        if isinstance(values, str):
            values = {"kind": values}
        if not isinstance(values, Mapping) or not isinstance(values.get("kind"), str):
            raise UserError(f"{slot}: write a mapping with a kind, such as {{kind: ...}}")
        kind = self._current(slot, values["kind"])
        if kind not in self.slots[slot]:
            failed = [(name, why) for name, why in self.broken.items() if kind in name]
            broken = "".join(f"; '{name}' did not load ({why})" for name, why in failed)
            hint = suggestion(kind, self.slots[slot])
            raise UserError(f"unknown {slot} kind '{kind}' ({hint}){broken}")
        cls = self.slots[slot][kind]
        try:
            return cls.model_validate({**values, "kind": kind})
        except ValidationError as error:
            fields = cls.model_fields
            raise UserError(f"{slot} {kind}: {first_problem(error, fields)}") from None

    def parse_slot(self, slot: str, values: object) -> Params | tuple[Params, ...] | None:
        """Turn a slot's values into params, None into None; ``memory`` takes one kind or several."""
        if slot != "memory":
            return None if values is None else self.parse(slot, values)
        if not isinstance(values, list | tuple):
            values = () if values is None else (values,)
        return tuple(self.parse(slot, value) for value in values)


#: What is wanted where a text is no number, by pydantic's type of the error.
_NUMBERS = {"int_parsing": "a whole number", "float_parsing": "a number"}
_NUMBERS |= {"int_from_float": "a whole number"}


def first_problem(error: ValidationError, fields: Iterable[str] = ()) -> str:
    """Return the first problem of a pydantic error in one line; ``fields`` are the model's."""
    problem = error.errors(include_url=False)[0]
    if problem["type"] == "extra_forbidden" and fields and len(problem["loc"]) == 1:
        name = str(problem["loc"][0])
        return f"there is no '{name}' ({suggestion(name, fields)})"
    where = ".".join(str(part) for part in problem["loc"]) or "value"
    value = repr(problem.get("input"))
    if problem["type"] in _NUMBERS:
        return f"{where}: {_NUMBERS[problem['type']]}, not {value[:60]}"
    is_printed = problem["type"] != "missing" and not where.endswith("key_env")  # it may be the key
    got = f" (got {value[:60]})" if is_printed else ""
    return f"{where}: {problem['msg'][:1].lower()}{problem['msg'][1:]}{got}"


def suggestion(name: str, names: Iterable[str]) -> str:
    """Return "did you mean" with the nearest of ``names``, or a list of them all."""
    choices = sorted(names)
    matches = get_close_matches(name, choices, n=1)
    return (
        f"did you mean '{matches[0]}'?" if matches else f"there are: {', '.join(choices) or 'none'}"
    )


def load(points: Iterable[EntryPoint]) -> Registry:
    """Load ``points`` into a new registry.

    One that fails to import or is not a params class goes into ``broken``. Two owners of one kind are
    an error, since the order of loading would decide which one runs.
    """
    registry = Registry()
    for point in sorted(points, key=lambda p: (p.dist.name if p.dist else "", p.name)):
        owner = point.dist.name if point.dist else point.value
        name = f"{owner}: {point.name}"
        try:
            cls = point.load()
            _identity(cls)
        except Exception as error:  # a stranger's import may raise anything
            registry.broken[name] = error_with_type(error)
            continue
        registry.add(cls, owner)
    return registry


@cache
def registry() -> Registry:
    """Return this process's registry, loaded from the installed entry points on first use."""
    return load(entry_points(group=GROUP))


def _identity(cls: object) -> tuple[str, str]:
    if not (inspect.isclass(cls) and issubclass(cls, Params)):
        raise TypeError(f"{cls!r} is not a subclass of nodes.protocols.Params")
    slot = getattr(cls, "slot", None)
    if slot not in SLOTS:
        raise TypeError(f"slot {slot!r} is not one of {', '.join(SLOTS)}")
    kind = cls.model_fields["kind"].default
    if not isinstance(kind, str) or not kind:
        raise TypeError('give it a kind: `kind: Literal["name"] = "name"`')
    if inspect.isabstract(cls):
        raise TypeError(
            f"{cls.__name__} does not define {', '.join(sorted(cls.__abstractmethods__))}"
        )
    return slot, kind


def _parse_as(slot: str) -> BeforeValidator:
    return BeforeValidator(lambda value: registry().parse(slot, value))


#: The field of a kind that wraps another kind of its slot.
InnerContext = Annotated[SerializeAsAny[ContextParams], _parse_as("context")]
InnerActor = Annotated[SerializeAsAny[ActorParams], _parse_as("actor")]
