"""``stategate train``: checkpoints that nodes load; ``stategate data``: what worlds, trainers read."""

import json
from collections.abc import Callable
from importlib import import_module

import typer

from stategate.evals.core.reports import table as summary_table
from stategate.stores.assets.fetch import ASSETS, asset_path
from stategate.stores.settings import Settings, option
from stategate.trainers.collect import collect
from stategate.trainers.settings import TRAINERS, TrajectorySettings, read_settings
from stategate.ui.cli.output import console, say, stoppable, table, wrote
from stategate.ui.cli.settings_command import command, command_group

app = command_group(
    "Train a checkpoint; the same command goes on where a stopped run ended.",
    "stategate train state && stategate train retriever",
    "stategate train dagger --config dagger_joint",
)
data_app = command_group(
    "Fetch the data that worlds read.",
    "stategate data webshop",
    "stategate run webshop --goal 3 --set env.data=official",
)


class TrainSettings(Settings):
    """Which recipe, and what is changed of it."""

    config: str | None = option(None, "A recipe's name, or a YAML file.")
    overrides: tuple[str, ...] = option((), "Repeatable.", "--set", metavar="FIELD=VALUE")
    threads: tuple[str, ...] = option((), "Recorded threads (need); repeatable.", metavar="FILE")
    show: bool = option(False, "List every field, train nothing.", "--settings")


def _trainer(name: str) -> Callable[[TrainSettings], None]:
    module, recipe_settings = TRAINERS[name]

    def train(settings: TrainSettings) -> None:
        files = [f"threads={json.dumps(settings.threads)}"] if settings.threads else []
        overrides = [*files, *settings.overrides]
        recipe = read_settings(recipe_settings, settings.config or name, overrides)
        if settings.show:
            fields = type(recipe).model_fields.items()
            rows = [(f, str(getattr(recipe, f)), info.description or "") for f, info in fields]
            console().print(table(("field", "value", ""), rows))
            return
        with stoppable("the same command goes on from the last epoch"):
            summary = import_module(f"stategate.trainers.{module}").train(recipe)
        typer.echo(summary_table(summary["rows"]))
        typer.echo(f"checkpoint: {recipe.checkpoint}; its epochs: {recipe.run}/history.json")

    train.__doc__ = (recipe_settings.__doc__ or "").partition("\n")[0]
    return train


for _name in TRAINERS:
    _lines = (f"stategate train {_name} --settings", f"stategate train {_name} --set epochs=3")
    command(*_lines, group=app, name=_name)(_trainer(_name))


def _fetcher(world: str) -> Callable[[Settings], None]:
    def fetch(settings: Settings) -> None:
        say(f"{asset_path(world)}: use it with --set env.data=official")

    fetch.__doc__ = f"Fetch {ASSETS[world].description} now; `env.data=official` does at first use."
    return fetch


for _world in ("webshop", "alfworld"):
    command(f"stategate data {_world}", group=data_app, name=_world)(_fetcher(_world))


@command(
    "stategate data trajectories --data official --actor policy --out runs/real", group=data_app
)
def trajectories(settings: TrajectorySettings) -> None:
    """Let a world's actors play, to train from; nothing that a test goal aims at is played."""
    wrote("-", collect(settings))
