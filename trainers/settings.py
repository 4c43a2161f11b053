"""A trainer's settings from YAML, with overrides, checked field by field."""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from stores.errors import UserError, mistakes_in_one_line

TRAINING_CONFIGS = Path(__file__).resolve().parent.parent / "configs" / "train"


class Settings(BaseModel):
    """What every trainer is told; unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    data: str = Field(
        description="trajectories to train on, JSON lines of trainers.episodes.collect"
    )
    heldout: str = Field(default="", description="trajectories to report on")
    run: str = Field(description="run directory: history, curves, state to resume from")
    checkpoint: str = Field(description="where the result goes, without suffix")
    seed: int = 0
    epochs: int = Field(default=30, ge=1)
    patience: int = Field(default=5, ge=1, description="epochs without gain before it stops")
    batch: int = Field(default=32, ge=1)
    learning_rate: float = Field(default=1e-3, gt=0)
    validation: float = Field(default=0.1, gt=0, lt=1, description="share of products held back")
    device: str = Field(default="auto", description="auto, cpu or cuda")


S = TypeVar("S", bound=Settings)


def read_settings(cls: type[S], path: str | Path, overrides: Sequence[str] = ()) -> S:
    """Read ``path`` (a file, or a name in ``configs/train``) with ``field=value`` overrides."""
    place = Path(path)
    if not place.exists() and (TRAINING_CONFIGS / f"{path}.yaml").exists():
        place = TRAINING_CONFIGS / f"{path}.yaml"
    try:
        values: dict[str, Any] = yaml.safe_load(place.read_text("utf-8")) or {}
    except OSError as error:
        raise UserError(f"cannot read the settings '{path}': {error.strerror}") from None
    except yaml.YAMLError as error:
        raise UserError(f"'{path}' is no YAML: {' '.join(str(error).split())}") from None
    for item in overrides:
        key, equals, value = item.partition("=")
        if not equals:
            raise UserError(f"write an override as field=value, not '{item}'")
        values[key] = yaml.safe_load(value)
    try:
        return cls(**values)
    except (ValidationError, TypeError) as error:
        from nodes.registry import first_problem

        problem = first_problem(error) if isinstance(error, ValidationError) else str(error)
        raise UserError(f"'{path}': {problem}") from None


def command_line(
    module: str, doc: str | None, cls: type[S], train: Callable[[S, Sequence[str]], Any],
    argv: Sequence[str] | None = None,
) -> None:  # fmt: skip
    """Run a trainer from the command line; a user's mistake is one line and exit code 2."""
    parser = argparse.ArgumentParser(
        module, description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    default = module.rpartition(".")[2]
    parser.add_argument("--config", default=default, help="YAML file, or a name in configs/train")
    parser.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE")
    words = list(sys.argv[1:] if argv is None else argv)
    given = parser.parse_args(words)
    try:
        with mistakes_in_one_line():
            train(read_settings(cls, given.config, given.set), ["python", "-m", module, *words])
    except KeyboardInterrupt:
        sys.stderr.write("stategate: stopped; the same command goes on from the last epoch\n")
        sys.exit(130)
