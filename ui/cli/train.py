"""``stategate train``: make the checkpoints that nodes load."""

from collections.abc import Callable
from importlib import import_module

import typer
from pydantic import BaseModel

from stategate.stores.settings import Settings, option
from stategate.ui.cli.output import console
from stategate.ui.cli.settings_command import command, command_group

#: The module of each trainer, and what it makes.
_TRAINERS = {
    "aligner": (
        "stategate.trainers.webshop.alignment",
        "What an instruction asks, excludes or leaves open, however it is said.",
    ),
    "state": (
        "stategate.trainers.state.model",
        "A state (gru, ssm) that foresees the next action: comes first.",
    ),
    "retriever": (
        "stategate.trainers.state.retriever",
        "The query by which the state ranks chunks.",
    ),
    "allocator": (
        "stategate.trainers.state.allocator",
        "The shares of compress; after state and retriever.",
    ),
    "actor": (
        "stategate.trainers.policy.imitation",
        "The policy actor, by imitation of an expert.",
    ),
    "dagger": (
        "stategate.trainers.policy.dagger",
        "The policy actor, by a teacher's word on its own play.",
    ),
}
app = command_group(
    "Train a checkpoint; the same command goes on where a stopped run ended.",
    "stategate train state && stategate train retriever && stategate train allocator",
    "stategate train dagger --config dagger_webshop",
)


class TrainSettings(Settings):
    """Which recipe, and what is changed of it."""

    config: str | None = option(None, "A recipe's name, or a YAML file.")
    overrides: tuple[str, ...] = option((), "Repeatable.", "--set", metavar="FIELD=VALUE")
    show: bool = option(False, "List every field, train nothing.", "--settings")


def _trainer(name: str) -> Callable[[TrainSettings], None]:
    def train(settings: TrainSettings) -> None:
        from stategate.stores.errors import require_extra
        from stategate.trainers.settings import TRAINERS, read_settings

        recipe = read_settings(TRAINERS[name], settings.config or name, settings.overrides)
        if settings.show:
            _list(recipe)
            return
        try:
            with require_extra("train"):
                summary = import_module(_TRAINERS[name][0]).train(recipe)
        except KeyboardInterrupt:
            typer.echo("stategate: stopped; the same command goes on from the last epoch", err=True)
            raise typer.Exit(130) from None
        from stategate.evals.core.report import table

        typer.echo(table(summary["rows"], "simple"))
        typer.echo(f"checkpoint: {recipe.checkpoint}; curves: {recipe.run}/curves.png")

    train.__doc__ = _TRAINERS[name][1]
    return train


for _name in _TRAINERS:
    _lines = (f"stategate train {_name} --settings", f"stategate train {_name} --set epochs=3")
    command(app, *_lines, name=_name)(_trainer(_name))


def _list(recipe: BaseModel) -> None:
    from rich.table import Table

    table = Table("field", "value", "", box=None, pad_edge=False)
    for field, info in type(recipe).model_fields.items():
        table.add_row(field, str(getattr(recipe, field)), info.description or "")
    console().print(table, markup=False)
