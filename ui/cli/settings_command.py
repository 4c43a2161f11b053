"""Commands from settings: a pydantic model is a command's flags, a function of it is the command."""

import functools
import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer
from annotated_types import Ge, Le
from pydantic import BaseModel, BeforeValidator, ValidationError
from pydantic.fields import FieldInfo

from stategate.nodes.registry import first_problem
from stategate.stores.errors import UserError
from stategate.stores.settings import comma_list, command_line_of
from stategate.ui.cli.main import examples


def command_group(about: str, *lines: str) -> typer.Typer:
    """Return a group of commands that alone shows its help, with ``lines`` as examples."""
    group = typer.Typer(epilog=examples(*lines), add_completion=False, rich_markup_mode="rich")

    @group.callback(invoke_without_command=True, help=about)
    def show_help(context: typer.Context) -> None:
        if context.invoked_subcommand is None:
            typer.echo(context.get_help())

    return group


def command(
    *lines: str, group: typer.Typer | None = None, name: str | None = None
) -> Callable[[Callable[..., Any]], typer.Typer]:
    """Return what makes ``function(settings)`` a command of ``group``, else an app of its own.

    ``lines`` are its examples. The function's one parameter is annotated with its settings, a pydantic
    model; its docstring is the help.
    """

    def register(function: Callable[..., Any]) -> typer.Typer:
        (parameter,) = inspect.signature(function, eval_str=True).parameters.values()
        flagged = flags_of(function, parameter.annotation)
        app = group or typer.Typer(add_completion=False, rich_markup_mode="rich")
        app.command(name, epilog=examples(*lines))(flagged)
        return app

    return register


def flags_of(function: Callable[..., Any], model: type[BaseModel]) -> Any:
    """Return ``function(settings)`` as a function of one parameter a flag, as typer reads it."""

    @functools.wraps(function)
    def run(**values: object) -> object:
        return function(read_flags(model, values))

    own_first = sorted(model.model_fields, key=lambda name: name not in model.__annotations__)
    parameters = [_parameter(name, model.model_fields[name]) for name in own_first]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run


def read_flags(model: type[BaseModel], values: Mapping[str, object]) -> Any:
    """Return the settings that flags mean. Raises ``UserError``, which names the wrong flag."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        where, colon, what = first_problem(error).partition(":")
        name = where.partition(".")[0]
        flag = _names(name, model.model_fields[name])[0] if name in values else where
        raise UserError(f"{flag}{colon}{what}") from None


def _names(name: str, field: FieldInfo) -> list[str]:
    line = command_line_of(field)
    if line.get("positional"):
        return [line.get("metavar") or name]
    return list(line.get("names") or [f"--{name.replace('_', '-')}"])


def _parameter(name: str, field: FieldInfo) -> inspect.Parameter:
    """Return a field as a keyword parameter whose annotation is typer's argument or option.

    Typer reads a tuple as a list, or as one text where commas part it; pydantic checks what it read.
    """
    line = command_line_of(field)
    kind: Any = field.annotation
    default: Any = inspect.Parameter.empty
    if not field.is_required():
        default = field.get_default(call_default_factory=True, validated_data={})
    about = (field.description or "").replace("[", "\\[")  # no rich markup
    how: dict[str, Any] = {"help": about, "metavar": line.get("metavar")}
    for rule in field.metadata:
        if isinstance(rule, Ge):
            how["min"] = rule.ge
        elif isinstance(rule, Le):
            how["max"] = rule.le
        elif isinstance(rule, BeforeValidator) and rule.func is comma_list:
            how["show_default"] = ", ".join(default) or False  # it may be folded
            kind, default = str, ",".join(default)
    if typing.get_origin(kind) is tuple:
        kind = list[typing.get_args(kind)[0]]  # type: ignore[misc]
        default = list(default) if isinstance(default, tuple) else default
    if line.get("positional"):
        info = typer.Argument(**how)
    else:
        is_switch = kind is bool and default is True  # --name and --no-name
        info = typer.Option(*(() if is_switch else _names(name, field)), **how)
    keyword = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, keyword, annotation=Annotated[kind, info], default=default)
