"""``stategate train``: make the checkpoints that nodes load."""

from collections.abc import Callable
from typing import Annotated, Any

import typer

from stategate.ui.cli.output import command_group, console, examples, opt

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
train_app = command_group(
    "Train a checkpoint; the same command goes on where a stopped run ended.",
    "stategate train state && stategate train retriever && stategate train allocator",
    "stategate train dagger --config dagger_webshop",
)


def _command(name: str, module: str) -> Callable[..., None]:
    def command(
        config: Annotated[str, opt("A recipe's name, or a YAML file.")] = name,
        overrides: Annotated[
            list[str] | None, opt("Repeatable.", "--set", metavar="FIELD=VALUE")
        ] = None,
        show: Annotated[bool, opt("List every field, train nothing.", "--settings")] = False,
    ) -> None:
        from stategate.trainers.settings import TRAINERS, read_settings

        settings = read_settings(TRAINERS[name], config, overrides or ())
        if show:
            _list(settings)
            return
        from importlib import import_module

        from stategate.stores.errors import needs

        try:
            with needs("train"):
                summary = import_module(module).train(settings)
        except KeyboardInterrupt:
            typer.echo("stategate: stopped; the same command goes on from the last epoch", err=True)
            raise typer.Exit(130) from None
        from stategate.evals.core.report import table

        typer.echo(table(summary["rows"], "simple"))
        typer.echo(f"checkpoint: {settings.checkpoint}; curves: {settings.run}/curves.png")

    return command


for _name, (_module, _help) in _TRAINERS.items():
    _lines = (f"stategate train {_name} --settings", f"stategate train {_name} --set epochs=3")
    train_app.command(_name, help=_help, epilog=examples(*_lines))(_command(_name, _module))


def _list(settings: Any) -> None:
    from rich.table import Table

    table = Table("field", "value", "", box=None, pad_edge=False)
    for field, info in type(settings).model_fields.items():
        table.add_row(field, str(getattr(settings, field)), info.description or "")
    console().print(table, markup=False)
