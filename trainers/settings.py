"""The settings of every trainer: a recipe of ``recipes.yaml`` or a file, with overrides.

Nothing here needs torch, so a mistake is told, and help given, before anything heavy is loaded.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml
from pydantic import Field, ValidationError
from pydantic.config import JsonDict

from stategate.nodes.registry import first_problem
from stategate.nodes.write_memory.short_term import ShortTerm
from stategate.stores.errors import UserError, user_error_context
from stategate.stores.files import read_pair, read_yaml
from stategate.stores.settings import Settings as BaseSettings
from stategate.stores.settings import option

RECIPES = Path(__file__).with_name("recipes.yaml")
_IS_DATA: JsonDict = {"is_data": True}
#: Decorates readers of people's data: what they raise becomes one line.
reads_data = user_error_context("people's data are not as expected", "see docs/training.md")


def data_field(about: str) -> Any:
    """Return a field that names a file or folder of people's data, which does not come with us."""
    return Field(description=about, json_schema_extra=_IS_DATA)


class Settings(BaseSettings):
    """Settings of every trainer; a subclass's docstring is the command's help."""

    run: str = Field(description="run directory: history, state to resume from")
    checkpoint: str = Field(description="where the result goes, without suffix")
    seed: int = 0
    epochs: int = Field(default=30, ge=1)
    patience: int = Field(default=5, ge=1, description="epochs without gain before it stops")
    batch: int = Field(default=32, ge=1)
    learning_rate: float = Field(default=1e-3, gt=0)

    def require_data(self) -> None:
        """Raise ``UserError`` for the first of people's data that is missing."""
        for name, field in type(self).model_fields.items():
            path = str(getattr(self, name))
            exists = path in ("sample", "official") or Path(path).exists()
            if field.json_schema_extra == _IS_DATA and not exists:
                raise UserError(
                    f"'{path}' is missing ({name}: {field.description}): name yours with "
                    f"--set {name}=PATH; docs/training.md says where to get such data"
                )


class RecordedSettings(Settings):
    """Settings of trainers that learn from recorded episodes."""

    data: str = Field(description="JSON lines of `stategate data trajectories` or a trace export")
    heldout: str = Field(default="", description="the same, of episodes to report on")
    embedder: str | dict[str, Any] = "minilm"
    validation: float = Field(default=0.1, gt=0, lt=1, description="share of groups held back")


class StateSettings(RecordedSettings):
    """A state that foresees the next action: comes first."""

    d_state: int = Field(default=512, ge=8)
    d_event: int = Field(default=256, ge=8)
    drop_inputs: float = Field(default=0.1, ge=0, lt=1, description="share of input numbers zeroed")


class RetrieverSettings(RecordedSettings):
    """The query by which the state, which stays frozen, ranks chunks."""

    state: str = Field(description="the state model's checkpoint, name or path")


class DaggerSettings(Settings):
    """The policy actor, by a teacher's word on its own play.

    An epoch is ``games`` episodes, ``passes`` over their decisions and one held-out play.
    """

    data: str = Field(description="'sample', 'official' or a folder of the world's files")
    course: str = Field(description="the module that names tasks, those held out, and the teacher")
    also: dict[str, list[str]] = Field(
        default={},
        description="settings of further worlds that are played beside, as --config takes them, each "
        "with what of data, course, builders, games, exam and max_steps is set otherwise (FIELD=VALUE)",
    )
    builders: dict[str, float] = Field(
        default={"full": 1, "window": 1, "compress": 1},
        description="what makes the contexts, KIND or KIND:FIELD=VALUE,…, and how often",
    )
    memory: ShortTerm = Field(
        default=ShortTerm(), description="of earlier steps, as the preset of the world has it"
    )
    low: int = Field(default=80, ge=1, description="the least budget, in tokens")
    high: int = Field(default=2000, ge=1, description="the largest budget, in tokens")
    start: str = Field(default="", description="a checkpoint to go on from; '' for none")
    last: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="share of the last epoch's weights in the result, the best epoch's being the rest",
    )
    hidden: int = Field(default=128, ge=8)
    games: int = Field(default=300, ge=1, description="episodes an epoch")
    passes: int = Field(default=3, ge=1, description="over the decisions that are learned from")
    keep: int = Field(default=1, ge=1, description="epochs whose episodes are learned from")
    exam: int = Field(default=100, ge=1, description="tasks held out that decide what is kept")
    max_steps: int = Field(default=20, ge=1)


class NeedSettings(Settings):
    """What calls will need of earlier results, for any agent's threads."""

    threads: list[str] = Field(
        default=[], description="files of recorded threads, as `stategate replay` reads them"
    )
    tool_tasks: int = Field(
        default=10, ge=0, le=10, description="made-up tasks of each of seven services"
    )


class AdapterSettings(Settings):
    """An adapter on the sentence model."""

    rank: int = Field(default=16, ge=1, description="of the adapter's matrices")
    start: str = Field(default="", description="a checkpoint whose weights are trained further")
    share: float = Field(
        default=1.0,
        ge=0,
        le=1,
        description="of the new weights in the result, the rest being start's",
    )
    held_out: tuple[str, ...] = Field(
        default=(), description="tested on alone: splits of wordings, scenarios, titles of articles"
    )


class ReaderSettings(Settings):
    """What both trainers of the reader of instructions read."""

    people: str = data_field(
        "people's sentences with ALFRED's plans, split<TAB>sentence<TAB>plan, .gz"
    )
    games: str = data_field("ALFWorld's games, .tar.xz; goals of valid_unseen are left out")


class TaggerSettings(AdapterSettings, ReaderSettings):
    """What each word of an instruction is: comes before the next."""

    shop: str = data_field("'sample', 'official' or a folder of WebShop's files")
    tests: tuple[str, ...] = Field(default=(), description="splits of wordings never read here")
    rooms: int = Field(default=2000, ge=0, description="sentences of tasks in rooms, an epoch")
    texts: int = Field(default=2500, ge=1, description="recombined texts of the shop, an epoch")
    written: int = Field(
        default=10000, ge=0, description="other writers' requests with parts exchanged, an epoch"
    )


class InstructionSettings(ReaderSettings):
    """What a task in a room asks for, as goals and names."""

    meanings: str = Field(
        description="the checkpoint whose meanings of words, choices and subjects are kept"
    )
    rooms: int = Field(default=12000, ge=0, description="recombined sentences of tasks in rooms")


class UtteranceSettings(AdapterSettings):
    """What an utterance is for: to tell, to ask, to wish, to correct, to forget."""

    people: str = data_field("people's conversations with an assistant, as BFCL has them, .json.gz")
    questions: str = data_field("people's questions about articles, as SQuAD has them, .json.gz")


class JudgeSettings(AdapterSettings):
    """Whether a passage answers a question: for memories, documents."""

    questions: str = data_field(
        "people's questions about articles, as SQuAD 2.0 has them, .json.gz"
    )
    paragraphs: str = data_field("a folder of HotpotQA's questions with documents, *.dev.jsonl.gz")


class UpdateSettings(AdapterSettings):
    """Whether a later statement ends an earlier one, for memories."""


class TrajectorySettings(BaseSettings):
    """Who plays which tasks, and how many."""

    out: Path = option(..., "Where the JSON lines go.", metavar="FOLDER")
    world: Literal["webshop", "alfworld"] = option("webshop", "Whose tasks are played.")
    source: str = option("sample", "'sample', 'official' or a folder.", "--data")
    episodes: int = option(1000, "Of training.", "-n", "--episodes", ge=1)
    heldout: int = option(100, "Episodes to report on.", ge=1)
    actor: tuple[str, ...] = option(
        (), "Who plays, in turn; repeatable.", metavar="KIND[:FIELD=VALUE,…]"
    )
    seed: int = 0


#: Modules and settings of trainers by what follows ``stategate train``, which names a recipe, too.
TRAINERS: dict[str, tuple[str, type[Settings]]] = {
    "state": ("state", StateSettings),
    "retriever": ("retriever", RetrieverSettings),
    "tagger": ("instruction.tags", TaggerSettings),
    "instruction": ("instruction.fit", InstructionSettings),
    "dagger": ("dagger", DaggerSettings),
    "need": ("need", NeedSettings),
    "judge": ("judge", JudgeSettings),
    "update": ("update", UpdateSettings),
    "utterance": ("utterance", UtteranceSettings),
}
S = TypeVar("S", bound=Settings)
_WRONG = (OSError, yaml.YAMLError, TypeError, ValueError)  # what a file of settings may raise


def read_settings(cls: type[S], name: str | Path, overrides: Sequence[str] = ()) -> S:
    """Return the settings of the recipe ``name`` (or of a YAML file), with ``field=value`` overrides.

    Raises ``UserError`` for an unknown recipe or a wrong field.
    """
    recipes = read_yaml(RECIPES.read_text("utf-8"))
    with user_error_context(
        f"cannot read the settings '{name}'", f"name a YAML file, or {', '.join(recipes)}", _WRONG
    ):
        if Path(name).is_file() or name not in recipes:
            values = dict(read_yaml(Path(name).read_text("utf-8")) or {})
        else:
            base = recipes[name].pop("like", None)
            values = {**(recipes[base] if base else {}), **recipes[name]}
    values |= [read_pair(item, "an override as field=value") for item in overrides]
    try:
        return cls(**values)
    except ValidationError as error:
        raise UserError(f"'{name}': {first_problem(error, cls.model_fields)}") from None
