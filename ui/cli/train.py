"""``stategate train``: make the checkpoints that nodes load."""

from typing import Annotated

import typer

from ui.cli.output import examples

EXAMPLES = examples(
    "stategate train next_action",
    "stategate train next_action --config next_action_sample --set epochs=3",
    "stategate train retriever --config configs/train/retriever.yaml",
    "stategate train actor && stategate train reinforce",
)
_TRAINERS = ("next_action", "retriever", "allocator", "actor", "reinforce")


def train(
    what: Annotated[
        str, typer.Argument(help="next_action, retriever, allocator, actor or reinforce.")
    ],
    config: Annotated[
        str, typer.Option(help="YAML file or a name in configs/train; by default the trainer's.")
    ] = "",
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="FIELD=VALUE", help="Repeatable.")
    ] = None,
) -> None:
    """Train a checkpoint; the same command goes on where a stopped run ended."""
    from importlib import import_module

    from stores.errors import UserError

    if what not in _TRAINERS:
        raise UserError(f"no trainer '{what}': known are {', '.join(_TRAINERS)}")
    from trainers.settings import Settings, read_settings

    module = import_module(f"trainers.{what}")
    named = {
        "next_action": "NextActionSettings",
        "retriever": "RetrieverSettings",
        "allocator": "AllocatorSettings",
        "actor": "ActorSettings",
        "reinforce": "ReinforceSettings",
    }
    cls: type[Settings] = getattr(module, named[what])
    settings = read_settings(cls, config or what, overrides or ())
    command = ["stategate", "train", what, "--config", config or what]
    for item in overrides or ():
        command += ["--set", item]
    summary = module.train(settings, command)
    from evals.core.report import table

    typer.echo(table(summary["rows"]))
    typer.echo(f"checkpoint: {settings.checkpoint}; curves: {settings.run}/curves.png")
