"""Commands made of settings: what a model's fields become on the command line."""

from typing import Annotated, Literal

import pytest
from pydantic import Field
from typer.testing import CliRunner

from stategate.stores.errors import UserError
from stategate.stores.settings import CommaList, Settings, argument, option
from stategate.ui.cli.settings_command import command, read_flags


class Base(Settings):
    """What comes last in the help."""

    seed: int = 0


class Recipe(Base):
    """One field of each form."""

    name: str = argument(about="What it is called.")
    rest: tuple[str, ...] = argument((), metavar="REST")
    mode: Literal["fast", "slow"] = "fast"
    builders: CommaList = option(("full", "window"), "By commas.", "--with")
    changes: tuple[str, ...] = option((), "Repeatable.", "--set", metavar="A=B")
    quick: bool = option(False, "Be quick.")
    clicks: bool = option(True, "Clicks, too.")
    size: Annotated[float | None, Field(gt=0, description="Above nothing.")] = None
    count: int = option(1, "One or more.", ge=1, le=9)


def run(*words):
    seen = []

    @command("recipe lamp --count 2")
    def recipe(settings: Recipe) -> None:
        """Cook."""
        seen.append(settings)

    result = CliRunner().invoke(recipe, list(words))
    return result, (seen[0] if seen else None)


def test_flags_become_settings():
    _, plain = run("lamp")
    assert plain == Recipe(name="lamp")
    words = (
        "lamp a b --mode slow --set k=1 --set l=2 --quick --no-clicks --size 2 --count 3 --seed 4"
    )
    _, settings = run(*words.split(), "--with", "x, y,x")
    lists = {"rest": ("a", "b"), "builders": ("x", "y"), "changes": ("k=1", "l=2")}
    others = {"mode": "slow", "quick": True, "clicks": False, "size": 2.0, "count": 3, "seed": 4}
    assert settings == Recipe(name="lamp", **lists, **others)


def test_help_has_defaults_limits_and_examples():
    shown = run("--help")[0].output
    parts = ("Cook.", "full, window", "1<=x<=9", "REST", "--no-clicks", "recipe lamp --count 2")
    assert all(words in shown for words in parts)
    assert "--no-quick" not in shown
    assert shown.index("--count") < shown.index("--seed")  # a model's own fields come first


def test_what_pydantic_checks_names_the_flag():
    with pytest.raises(UserError, match="^--size: input should be greater than 0"):
        read_flags(Recipe, {"name": "lamp", "size": -1})
    with pytest.raises(UserError, match="^--with: "):
        read_flags(Recipe, {"name": "lamp", "builders": 3})
