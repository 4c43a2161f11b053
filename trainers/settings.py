"""The settings of every trainer: a recipe of ``recipes.yaml`` or a file, with overrides.

Nothing here needs torch, so a mistake is told, and help given, before anything heavy is loaded.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml
from pydantic import Field, ValidationError

from stategate.nodes.registry import first_problem
from stategate.nodes.write_memory.short_term import ShortTerm
from stategate.stores.errors import UserError, user_error_context
from stategate.stores.files import read_pair, read_yaml
from stategate.stores.settings import Settings as BaseSettings
from stategate.stores.settings import option

RECIPES = Path(__file__).with_name("recipes.yaml")


def reads_data(field: str, path: str | Path) -> AbstractContextManager[None]:
    """Return a context in which what reading the file of ``field`` raises becomes one line."""
    return user_error_context(
        f"cannot read '{path}'",
        f"name yours with --set {field}=PATH; docs/training.md says where to get such data",
    )


class Settings(BaseSettings):
    """Settings of every trainer; a subclass's docstring is the command's help."""

    run: str = Field(description="run directory: history, state to resume from")
    checkpoint: str = Field(description="where the result goes, without suffix")
    seed: int = 0
    epochs: int = Field(default=30, ge=1)
    patience: int = Field(default=5, ge=1, description="epochs without gain before it stops")
    batch: int = Field(default=32, ge=1)
    learning_rate: float = Field(default=1e-3, gt=0)


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


class ReaderSettings(Settings):
    """What both trainers of the reader of instructions read."""

    people: str = Field(
        description="people's sentences with ALFRED's plans, split<TAB>sentence<TAB>plan, .gz"
    )
    games: str = Field(description="ALFWorld's games, .tar.xz; goals of valid_unseen are left out")


class TaggerSettings(AdapterSettings, ReaderSettings):
    """What each word of an instruction is: comes before the next."""

    rooms: int = Field(default=2000, ge=0, description="sentences of tasks in rooms, an epoch")
    texts: int = Field(default=2500, ge=1, description="texts of the shop, an epoch")
    written: int = Field(
        default=10000, ge=0, description="other writers' requests with parts exchanged, an epoch"
    )


class InstructionSettings(ReaderSettings):
    """What a task in a room asks for, as goals and names."""

    meanings: str = Field(
        description="the checkpoint whose meanings of words, choices and subjects are kept"
    )
    rooms: int = Field(default=12000, ge=0, description="recombined sentences of tasks in rooms")


class ClassifierSettings(AdapterSettings):
    """What all classifiers of sentences are trained by."""

    kind: Literal["judge", "update", "utterance"] = Field(description="of the checkpoint")
    data: tuple[str, ...] = Field(description="files of rows, of trainers/data or yours, .jsonl")
    validation: tuple[str, ...] = Field(description="splits of rows that choose the epoch")
    sure: float = Field(
        default=0.5, gt=0, lt=1, description="probability above which a pair counts"
    )
    held_out: tuple[str, ...] = Field(
        default=(), description="scenarios, or titles of articles, that are tested on alone"
    )
    people: str = Field(
        default="", description="people's conversations, as BFCL has them, .json.gz"
    )
    questions: str = Field(
        default="", description="people's questions about articles, as SQuAD 2.0 has them, .json.gz"
    )
    paragraphs: str = Field(
        default="", description="a folder of HotpotQA's questions with documents, *.dev.jsonl.gz"
    )


class UtteranceSettings(ClassifierSettings):
    """What an utterance is for: to tell, to ask, to wish, to correct, to forget."""


class JudgeSettings(ClassifierSettings):
    """Whether a passage answers a question: for memories, documents."""


class UpdateSettings(ClassifierSettings):
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
    "judge": ("classifier", JudgeSettings),
    "update": ("classifier", UpdateSettings),
    "utterance": ("classifier", UtteranceSettings),
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
