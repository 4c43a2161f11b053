"""Settings of every evaluation: each model is a command's flags and help, a form, and ``args.json``.

What runs an evaluation is imported when it is needed.
"""

from pathlib import Path
from pkgutil import resolve_name
from typing import Any, ClassVar, Literal

from stategate.evals.core.task import run_task
from stategate.stores.runs import RunDirectory, provenance, public_config
from stategate.stores.settings import (
    CommaList,
    Commas,
    JsonFile,
    Limit,
    Overrides,
    Settings,
    Shared,
    argument,
    comma_list,
    option,
)

_RANKERS = comma_list(
    "bm25,bm25_stem,minilm,bm25_stem+minilm,single_gradient,bm25_stem+minilm+single_gradient"
)
LEAST_BUDGET = 500  # tokens of a replayed prompt
_ARMS = comma_list("nothing,last,clear,mask,summary,window,compress:need=,compress,oracle")


class Evaluation(Settings):
    """An evaluation: ``run`` fills the run directory ``out`` and returns its summary.

    The class's name is that of the command, its docstring the help, ``examples`` whole command lines,
    ``maker`` (``module:function`` under ``stategate.evals``) what makes its :class:`Task` of settings.
    """

    examples: ClassVar[tuple[str, ...]] = ()
    maker: ClassVar[str]

    out: str = option(..., "Run directory; goes on if it is there.", metavar="DIR", exclude=True)
    seed: int = option(0, "Of the statistics; written to args.json.")
    json_target: JsonFile = None

    def run(self) -> dict[str, Any]:
        """Do what the run directory does not hold yet; return the summary."""
        return run_task(self.make, self.out, self if isinstance(self, Shared) else None)

    def make(self) -> Any:
        """Return the task."""
        return resolve_name(f"stategate.evals.{self.maker}")(self)

    def args(self) -> dict[str, Any]:
        """Return the settings as ``args.json`` has them, without what is particular to a machine."""
        plain: dict[str, Any] = public_config(self.model_dump(mode="json"))
        return plain


class Configured(Evaluation):
    """An evaluation of what a config builds."""

    config: str = option("qa", "A preset or a YAML file.")
    overrides: Overrides = ()


class Worlds(Configured, Shared):
    """Play the same tasks with several agents: success, score, steps, tokens, paired tests."""

    maker = "worlds:worlds_task"
    examples = (
        "stategate eval worlds --agents full,window --goals 0-499 --out runs/rule",
        "stategate eval worlds --agent none=context.kind=full"
        " --agent gated=context.kind=experience,context.bank=banks/state --out runs/e",
    )
    config: str = option("webshop", "A preset or a YAML file.")
    agents: CommaList = option((), "Context kinds, comma-separated.")
    agent: tuple[str, ...] = option((), "Your own; repeatable.", metavar="NAME=SLOT.FIELD=VALUE,…")
    goals: str = option("0-9", "Of the world's tasks: 0-499, 3,5,8, all.", "--goals", "--tasks")
    say: Path | None = option(
        None, 'Other sentences, JSON lines {"goal": 3, "say": "…"}: they name the goals.'
    )


class Qa(Configured, Shared):
    """Measure retrieval, answers, latency, tokens and cost; without a model unless actor is set."""

    maker = "qa:qa_task"
    examples = ("stategate eval qa --data FOLDER --limit 20 --out runs/qa",)
    data: str = option("sample", "'sample', or a folder with corpus/ and questions.")
    limit: Limit = None


class Memory(Configured, Shared):
    """Measure memory where it matters: follow-ups and questions about earlier sessions."""

    maker = "qa:memory_task"
    examples = ("stategate eval memory --policies stm,both --set actor.kind=answer --out runs/m",)
    dialogues: str = option("sample", "'sample' or a YAML file.")
    policies: Commas[Literal["neither", "stm", "ltm", "both"]] = option(
        ("neither", "stm", "ltm", "both"), "Of neither, stm, ltm, both."
    )
    limit: Limit = None


class Evidence(Configured):
    """Evidence recall on published conversations: the turns that each ranking brings.

    Of LoCoMo, LongMemEval or BFCL's memory questions: turns and sessions, any and all, by category.
    """

    maker = "memory.evidence:evidence_task"
    examples = (
        "stategate eval evidence locomo10.json --out runs/locomo",
        "stategate eval evidence home --agents bm25,hybrid,memory --out runs/home",
    )
    file: str = argument(
        ..., "The published JSON or folder; or home, work, written, which ship.", metavar="FILE"
    )
    agents: Commas[Literal["bm25", "minilm", "hybrid", "memory"]] = option(
        ("bm25", "minilm", "hybrid", "memory"), "Of bm25, minilm, hybrid, memory."
    )
    limit: int | None = option(None, "The first so many conversations.", ge=1)


class Answers(Configured):
    """What memory is worth to a model: right answers, tokens, seconds with four contexts."""

    maker = "memory.answers:answers_task"
    examples = (
        "stategate eval answers BFCL_FOLDER --out runs/answers",
        "stategate eval answers longmemeval_oracle.json --agents last,recall --out runs/answers",
    )
    file: str = argument(..., "LongMemEval's JSON, or BFCL's folder.", metavar="FILE")
    agents: Commas[Literal["nothing", "last", "all", "recall"]] = option(
        ("nothing", "last", "all", "recall"), "Of nothing, last, all, recall."
    )
    room: int = option(8000, "Tokens of `all` where the model's context is not known.", ge=500)
    limit: int | None = option(None, "The first so many conversations.", ge=1)


class Rerank(Evaluation, Shared):
    """Rank the documents of multi-hop questions: nDCG@10, MAP, precision, recall, paired tests."""

    maker = "rerank:rerank_task"
    examples = ("stategate eval rerank --data FOLDER --limit 20 --rankers bm25 --out runs/dev",)
    split: Literal["dev", "test"] = option("dev", "dev to tune on, test to report.")
    datasets: CommaList = option(("hotpotqa", "2wikimultihopqa", "musique"), "Comma-separated.")
    limit: int | None = option(None, "The first so many of each dataset.", ge=1)
    rankers: CommaList = option(_RANKERS, "a+b adds z-scores.")
    model: str = option("smollm2-135m", "Asset, folder, .gguf file or hub name.")
    max_tokens: int = option(300, "The model's tokens a document may have.", ge=8)
    data: str = option(".", "The files of the data sets.", metavar="FOLDER", exclude=True)


class Replay(Evaluation, Shared):
    """Read recorded threads again under each arm: tokens, billed cost, what calls needed."""

    maker = "replay:replay_task"
    examples = ("stategate replay threads.jsonl --arms nothing,compress --out runs/replay",)
    data: str = argument(..., "JSON lines, JSON, or a checkpoint database.", metavar="THREADS")
    arms: CommaList = option(
        _ARMS,
        "KIND[@BUDGET][:FIELD=VALUE]; nothing, last, clear, mask, summary, oracle or a context kind.",
    )
    budget: int = option(8000, "Tokens of a prompt, the same for every arm.", ge=LEAST_BUDGET)
    limit: Limit = None


class Bench(Evaluation):
    """Measure how long things take; compare figures of one machine and one table only.

    webshop: load its world, walk it at random, search; step: a step without the model.
    """

    examples = ("stategate eval bench step --out runs/bench-step",)
    what: Literal["webshop", "step"] = argument(...)
    data: str = option("sample", "'sample', or a folder of the shop's data.")

    def run(self) -> dict[str, Any]:
        """Measure every row."""
        rows = resolve_name(f"stategate.evals.bench:bench_{self.what}")(self)
        run = RunDirectory(self.out, {**provenance(), **self.args()})
        with run.alone():
            return run.summarise(list(rows), [])


#: The evaluations of ``stategate eval``.
EVALUATIONS: tuple[type[Evaluation], ...] = (
    Worlds,
    Qa,
    Memory,
    Evidence,
    Answers,
    Rerank,
    Bench,
)
