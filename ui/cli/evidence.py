"""``stategate eval locomo | longmemeval | dialogues``: memory on conversations with marked evidence."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ui.cli.output import JsonFile, Overrides, check_target, examples, say

if TYPE_CHECKING:
    from evals.memory.evidence import Settings

_DEFAULT = "bm25,bm25_sessions,minilm,minilm_sessions,hybrid,parent,memory"
LOCOMO = examples(
    "stategate eval locomo locomo10.json --out runs/locomo",
    "stategate eval locomo home --agents bm25,hybrid,memory --out runs/home",
    "stategate eval locomo locomo10.json --agents bm25"
    " --agent raw=kind=bm25,stem=false,speaker=false --out runs/bm25",
)
LONGMEMEVAL = examples(
    "stategate eval longmemeval longmemeval_oracle.json --agents bm25,memory --out runs/oracle",
    "stategate eval longmemeval longmemeval_s.json --limit 50 --out runs/lme",
)
DIALOGUES = examples("stategate eval dialogues home --conversations 12 --out home.json")
STATEMENTS = examples(
    "stategate eval statements --out runs/statements",
    "stategate eval statements --agents rules,model --set llm.kind=embedded --out runs/s2",
)
REMEMBERED = examples(
    "stategate eval remembered --set env.data=official --goals 0-49 --out runs/remembered",
)

_File = Annotated[
    str, typer.Argument(metavar="FILE", help="The published JSON; or home, work: made by rule.")
]
_Out = Annotated[
    str, typer.Option(metavar="DIR", help="Run directory; goes on if it is there already.")
]
_Agents = Annotated[str, typer.Option(help="Comma-separated; see `evals/memory/rankers.py`.")]
_Agent = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=kind=bm25,stem=false", help="One of your own; repeatable."),
]
_Limit = Annotated[int | None, typer.Option(min=1, help="The first so many conversations.")]
_Answer = Annotated[
    bool, typer.Option("--answer", help="Also ask the chat model: token F1 and abstention.")
]
_Config = Annotated[str, typer.Option(help="Of the chat model: a preset or a YAML file.")]
_Seed = Annotated[int, typer.Option(help="Of the statistics; written to args.json.")]


def locomo(
    file: _File,
    out: _Out,
    agents: _Agents = _DEFAULT,
    agent: _Agent = None,
    limit: _Limit = None,
    answer: _Answer = False,
    config: _Config = "qa",
    overrides: Overrides = None,
    seed: _Seed = 0,
    json_target: JsonFile = None,
) -> None:
    """Evidence recall on LoCoMo's file: turns, turns ± 1 and sessions, any and all, by category."""
    _run("locomo", file, out, agents, agent, limit, answer, config, overrides, seed, json_target)


def longmemeval(
    file: _File,
    out: _Out,
    agents: _Agents = "bm25,bm25_sessions,memory",
    agent: _Agent = None,
    limit: _Limit = None,
    answer: _Answer = False,
    config: _Config = "qa",
    overrides: Overrides = None,
    seed: _Seed = 0,
    json_target: JsonFile = None,
) -> None:
    """Evidence recall on a file of LongMemEval; a question whose id ends in _abs asks to abstain."""
    _run("longmemeval", file, out, agents, agent, limit, answer, config, overrides, seed,
         json_target)  # fmt: skip


def dialogues(
    family: Annotated[str, typer.Argument(help="home (to tune on) or work (held out).")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The JSON to write.")],
    conversations: Annotated[int, typer.Option(min=1)] = 12,
    seed: _Seed = 0,
) -> None:
    """Write made-up conversations in LoCoMo's format; the same words make the same file."""
    from evals.memory.generated import generated_text
    from stores.files import write_text

    text = generated_text(family, conversations, seed)
    out.expanduser().parent.mkdir(parents=True, exist_ok=True)
    write_text(out.expanduser(), text)
    say(f"wrote {conversations} conversations to {out}")


def _run(
    form: str,
    file: str,
    out: str,
    agents: str,
    own: list[str] | None,
    limit: int | None,
    answers: bool,
    config: str,
    overrides: list[str] | None,
    seed: int,
    json_target: str | None,
) -> None:
    from evals.memory.evidence import run_evidence, settings_of
    from ui.cli.evaluating import command_line, finish, names, resumable

    check_target(json_target)
    settings: Settings = settings_of(file, form, names(agents), own or (), limit, seed)
    answer: Callable[[str, Sequence[str]], str] | None = None
    if answers:
        from evals.memory.answering import answerer

        answer = answerer(config, overrides or ())
    with resumable(out):
        summary = run_evidence(settings, out, answer, command_line())
    finish(summary, out, json_target, show_evidence)


def show_evidence(summary: Mapping[str, Any]) -> None:
    """Print the main figures; all of them are in the run directory."""
    from evals.memory.evidence import compact

    typer.echo(compact(summary))


def statements(
    out: _Out,
    agents: Annotated[
        str, typer.Option(help="Readers: rules, model (needs llm), times, dateparser.")
    ] = "rules",
    split: Annotated[
        str, typer.Option(help="dev to develop on, test to report, fresh: its newest part, all.")
    ] = "test",
    config: _Config = "qa",
    overrides: Overrides = None,
    json_target: JsonFile = None,
) -> None:
    """Compare what memory reads, merges and refuses with marks made by hand."""
    from evals.memory.marking import run_statements
    from graph.config import load_config
    from nodes.resources import Resources
    from ui.cli.evaluating import command_line, measure, names

    loaded = load_config(config, list(overrides or ()))

    def resources() -> Resources:
        return Resources(loaded.llm, loaded.embedder)

    embedder = resources().embedder
    how = (names(agents), split, embedder, resources, command_line())
    measure(out, json_target, lambda: run_statements(out, *how))


def remembered(
    out: _Out,
    goals: Annotated[str, typer.Option(help="Numbers of the world's tasks, five a user.")] = "0-49",
    config: _Config = "webshop",
    overrides: Overrides = None,
    seed: _Seed = 0,
    json_target: JsonFile = None,
) -> None:
    """Ask again for what a user settled on in a world, without saying it, and see if memory knows."""
    from evals.memory.worlds import run_remembered
    from ui.cli.evaluating import command_line, measure

    how = (goals, config, list(overrides or ()), seed, command_line())
    measure(out, json_target, lambda: run_remembered(out, *how))
