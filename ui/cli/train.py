"""``stategate train``: make the checkpoints that nodes load."""

from collections.abc import Callable
from typing import Annotated, Any

import typer

from ui.cli.evaluating import command_line
from ui.cli.output import command_group, console, examples, opt

#: What each trainer makes, the module that makes it, and an example beside the plain command.
_TRAINERS = {
    "state": (
        "A recurrent state (gru or ssm) that foresees the next action: comes first.",
        "trainers.state.model",
        "--config state_sample --set epochs=3",
    ),
    "retriever": (
        "The query by which the state ranks what a page shows.",
        "trainers.state.retriever",
        "--config retriever_ssm",
    ),
    "allocator": (
        "The learned shares of compress; after state and retriever.",
        "trainers.state.allocator",
        "--config allocator_ssm",
    ),
    "actor": (
        "The policy actor, by imitation of an expert.",
        "trainers.webshop.imitation",
        "--config actor_sample",
    ),
    "reinforce": (
        "The policy actor further, by the world's own reward.",
        "trainers.webshop.reinforce",
        "--config reinforce_sample --set epochs=5",
    ),
}
train_app = command_group(
    "Train a checkpoint; the same command goes on where a stopped run ended.",
    "stategate train state && stategate train retriever && stategate train allocator",
    "stategate train actor && stategate train reinforce",
)


def _command(name: str, module: str) -> Callable[..., None]:
    def command(
        config: Annotated[str, opt("YAML file or a name in configs/train.")] = name,
        overrides: Annotated[
            list[str] | None, opt("Repeatable.", "--set", metavar="FIELD=VALUE")
        ] = None,
        show: Annotated[bool, opt("List every field, train nothing.", "--settings")] = False,
    ) -> None:
        from trainers.settings import TRAINERS, read_settings

        settings = read_settings(TRAINERS[name], config, overrides or ())
        if show:
            _list(settings)
            return
        from importlib import import_module

        from stores.errors import needs

        try:
            with needs("train"):
                summary = import_module(module).train(settings, command_line())
        except KeyboardInterrupt:
            typer.echo("stategate: stopped; the same command goes on from the last epoch", err=True)
            raise typer.Exit(130) from None
        from evals.core.report import table

        typer.echo(table(summary["rows"], "simple"))
        typer.echo(f"checkpoint: {settings.checkpoint}; curves: {settings.run}/curves.png")

    return command


for _name, (_help, _module, _example) in _TRAINERS.items():
    train_app.command(
        _name,
        help=_help,
        epilog=examples(f"stategate train {_name}", f"stategate train {_name} {_example}"),
    )(_command(_name, _module))


def _list(settings: Any) -> None:
    from rich.table import Table

    table = Table("field", "value", "", box=None, pad_edge=False)
    for field, info in type(settings).model_fields.items():
        table.add_row(field, str(getattr(settings, field)), info.description or "")
    console().print(table, markup=False)
