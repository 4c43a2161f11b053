"""Settings of evaluations: each model is a command's flags and help, a form, and ``args.json``."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar

from stategate.stores.settings import JsonFile, Overrides, Ray, Settings, Workers, option


class Evaluation(Settings):
    """An evaluation: ``run`` fills the run directory ``out`` and returns its summary.

    ``command`` is its name in ``stategate eval``, the class's docstring its help, ``examples`` whole
    command lines.
    """

    command: ClassVar[str]
    examples: ClassVar[tuple[str, ...]] = ()
    #: ``module:function`` of what takes the settings and runs them, where ``run`` is not its own.
    runner: ClassVar[str] = ""

    out: str = option(
        ..., "Run directory; goes on if it is there already.", metavar="DIR", exclude=True
    )
    seed: int = option(0, "Of the statistics; written to args.json.")
    json_target: JsonFile = None

    def run(self) -> dict[str, Any]:
        """Do what the run directory does not hold yet; return the summary."""
        summary: dict[str, Any] = self.load_runner()(self)
        return summary

    def load_runner(self) -> Any:
        """Import the function that ``runner`` names."""
        module, _, name = self.runner.partition(":")
        return getattr(import_module(module), name)

    def args(self) -> dict[str, Any]:
        """Return the settings as ``args.json`` has them, without what is particular to a machine."""
        from stategate.stores.runs import public_config

        plain: dict[str, Any] = public_config(self.model_dump(mode="json"))
        return plain

    def render(self, summary: Mapping[str, Any]) -> str:
        """Return a summary as a terminal shows it."""
        from stategate.evals.core.report import summary_text

        return summary_text(summary)


class Shared(Evaluation):
    """An evaluation whose samples several workers can solve."""

    workers: Workers = 1
    ray: Ray = None
    deadline: float = option(
        3600.0, "Seconds that a worker may take for one of them.", ge=1, exclude=True
    )


class Configured(Evaluation):
    """An evaluation of what a config builds."""

    config: str = option("webshop", "A preset or a YAML file.")
    overrides: Overrides = ()


class AgentEvaluation(Shared, Configured):
    """An evaluation of agents."""
