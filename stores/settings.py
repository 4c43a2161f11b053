"""Settings: one pydantic model is a command's flags, help, ``args.json`` and form in the app.

A field's description is its help. ``option`` and ``argument`` say how a field is written on the
command line, where that is not ``--name VALUE``; ``ui.cli.settings_command`` makes commands of models.
"""

from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.config import JsonDict
from pydantic.fields import FieldInfo

from stategate.stores.errors import UserError
from stategate.stores.files import user_path


class Settings(BaseModel):
    """What a command, an evaluation or a trainer is told; unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())


def option(default: Any, about: str, *names: str, metavar: str | None = None, **field: Any) -> Any:
    """Return a field with its help, and its flags where they are not ``--its-own-name``.

    ``default`` is ``...`` where the flag must be given. ``field`` goes to pydantic: limits such as
    ``ge=1``, and ``exclude=True`` for what ``args.json`` leaves out.
    """
    command_line: JsonDict = {"names": list(names), "metavar": metavar, "positional": False}
    return Field(default, description=about, json_schema_extra={"cli": command_line}, **field)


def argument(default: Any = ..., about: str = "", metavar: str | None = None) -> Any:
    """Return a field that is a positional argument; one that is a tuple takes all that follow."""
    command_line: JsonDict = {"names": [], "metavar": metavar, "positional": True}
    return Field(default, description=about, json_schema_extra={"cli": command_line})


def command_line_of(field: FieldInfo) -> dict[str, Any]:
    """Return how ``field`` is written on the command line: names, metavar, positional."""
    extra = field.json_schema_extra
    cli_extra = extra.get("cli") if isinstance(extra, dict) else None
    return dict(cli_extra) if isinstance(cli_extra, dict) else {}


def comma_list(value: Any) -> Any:
    """Split ``a,b`` into its parts, each once; what is no string is left as it is."""
    if not isinstance(value, str):
        return value
    return tuple(dict.fromkeys(part.strip() for part in value.split(",") if part.strip()))


_Part = TypeVar("_Part")
#: A comma-separated list: ``full,window`` → ``("full", "window")``.
Commas = Annotated[tuple[_Part, ...], BeforeValidator(comma_list)]
CommaList = Commas[str]
Overrides = Annotated[
    tuple[str, ...],
    option((), "Change the config; repeatable.", "--set", metavar="SLOT.FIELD=VALUE"),
]
ConfigName = Annotated[str, option(..., "A preset or a YAML file.")]


def _file_to_write(target: str | None) -> str | None:
    """Refuse a folder before the work whose outcome the file is to hold."""
    if target is not None and user_path(target).is_dir():
        raise UserError(f"--json: '{target}' is a folder: name a file in it, or - for stdout")
    return target


def _question(text: str) -> str:
    """Refuse a question without words before anything is read or loaded."""
    if not any(map(str.isalnum, text)):
        raise UserError("the question is empty: ask something")
    return text


Question = Annotated[str, AfterValidator(_question)]
JsonFile = Annotated[
    str | None,
    AfterValidator(_file_to_write),
    option(None, "Write all of it; - is stdout.", "--json", metavar="FILE", exclude=True),
]
Limit = Annotated[int | None, option(None, "Only the first so many.", ge=1)]


class Shared(Settings):
    """Work that several processes, or a Ray cluster, can share."""

    workers: int = option(1, "Processes that share the work.", ge=1, exclude=True)
    ray: str | None = option(
        None,
        "Share it on a Ray cluster: auto, or its address.",
        metavar="auto|ADDRESS",
        exclude=True,
    )
    deadline: float = option(
        3600.0, "Seconds that a worker may take for one part.", ge=1, exclude=True
    )

    @property
    def is_shared(self) -> bool:
        """Whether others do the work: on a cluster one worker is one, too."""
        return self.workers > 1 or self.ray is not None
