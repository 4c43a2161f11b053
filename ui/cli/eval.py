"""``stategate eval``: compare agents on the same tasks."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from evals.bench.app import bench_app
from ui.cli import evidence
from ui.cli.evaluating import command_line as _command
from ui.cli.evaluating import finish as _finish
from ui.cli.evaluating import names as _names
from ui.cli.evaluating import resumable as _resumable
from ui.cli.output import check_target, console, examples

_LIVE = examples(
    "stategate eval live --agents full,window,query_rag --goals 0-499 --out runs/rule",
    "stategate eval live --agent short=context.kind=full,context.budget=300 --out runs/s",
    "stategate eval live --config mine.yaml --tasks all --agents full,compress --out runs/mine",
)
_BUDGET = examples(
    "stategate eval budget --goals 0-99 --budgets 100,200,400 --ratios 0.4,0.6 --out runs/budget",
    "stategate eval budget --builders full --agent u=context.kind=compress,context.allocator=uniform"
    " --budgets 150,300 --out runs/uniform",
)
_EXPERIENCE = examples(
    "stategate eval experience --state-bank banks/state --trace-bank banks/trace --out runs/e",
    "stategate eval experience --state-bank banks/s --only state,gated --goals 0-49 --out runs/f",
)
_RETRIEVAL = examples(
    "stategate eval retrieval --data runs/trajectories/real/heldout.jsonl --out runs/retrieval",
    "stategate eval retrieval --data traces.jsonl --updater none --out runs/instruction-only",
)
_QA = examples(
    "stategate eval qa --out runs/qa-sample",
    "stategate eval qa --data FOLDER --experiments A,C --out runs/qa",
    "stategate eval qa --experiments A --only fixed-256 --set actor.kind=answer --out runs/chat",
)
_MEMORY = examples(
    "stategate eval memory --out runs/memory",
    "stategate eval memory --limit 2 --policies stm,both --set actor.kind=answer --out runs/m",
)
_ENTITIES = examples(
    "stategate eval entities --out runs/entities",
    "stategate eval entities --agents rules,spacy,model --out runs/three",
)
_RERANK = examples(
    "stategate eval rerank --split dev --limit 20 --out runs/rerank-dev",
    "stategate eval rerank --split test --out runs/rerank-test",
    "stategate eval rerank --rankers bm25,loss,leave_one_out --limit 10 --out runs/slow",
)
_REPORT = examples("stategate eval report runs/rule runs/budget --out docs/results/mine.md")

eval_app = typer.Typer(epilog=_LIVE)
eval_app.add_typer(bench_app, name="bench")
eval_app.command(epilog=evidence.LOCOMO)(evidence.locomo)
eval_app.command(epilog=evidence.LONGMEMEVAL)(evidence.longmemeval)
eval_app.command(epilog=evidence.DIALOGUES)(evidence.dialogues)

_Out = Annotated[
    str, typer.Option(metavar="DIR", help="Run directory; goes on if it is there already.")
]
_Agent = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=SLOT.FIELD=VALUE,…", help="An agent of your own; repeatable."),
]
_Goals = Annotated[
    str, typer.Option("--goals", "--tasks", help="Numbers of the world's tasks: 0-499, 3,5,8, all.")
]
_Config = Annotated[str, typer.Option(help="A preset or a YAML file.")]
_Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="SLOT.FIELD=VALUE", help="For every agent; repeatable."),
]
_Seed = Annotated[int, typer.Option(help="Of the statistics; written to args.json.")]
_Json = Annotated[
    str | None, typer.Option("--json", metavar="FILE", help="Write the summary; - is stdout.")
]


@eval_app.callback(invoke_without_command=True)
def evaluate(context: typer.Context) -> None:
    """Compare agents on the same tasks; each run is a directory that tables are made from."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@eval_app.command(epilog=_LIVE)
def live(
    out: _Out,
    agents: Annotated[str, typer.Option(help="Context kinds, comma-separated.")] = "",
    agent: _Agent = None,
    goals: _Goals = "0-9",
    config: _Config = "webshop",
    overrides: _Set = None,
    seed: _Seed = 0,
    json_target: _Json = None,
) -> None:
    """Play the same tasks with several agents: success, score, steps, tokens, paired tests."""
    from evals.worlds.live import parse_agents, run_live

    check_target(json_target)
    with _resumable(out):
        summary = run_live(
            config, parse_agents(agents, agent or ()), goals, out, overrides or (), seed, _command()
        )
    _finish(summary, out, json_target, _show_episodes)


@eval_app.command(epilog=_BUDGET)
def budget(
    out: _Out,
    builders: Annotated[str, typer.Option(help="Context kinds.")] = "full,retrieve,compress",
    agent: _Agent = None,
    budgets: Annotated[str, typer.Option(help="In tokens.")] = "100,150,200,300,400,600,1000",
    ratios: Annotated[
        str, typer.Option(help="Shares of each page, such as 0.3,0.5, for builders with a ratio.")
    ] = "",
    goals: _Goals = "0-9",
    config: _Config = "webshop",
    overrides: _Set = None,
    seed: _Seed = 0,
    json_target: _Json = None,
) -> None:
    """Play with growing token budgets: success by budget, a curve a builder, with a plot."""
    from evals.worlds.budget import parse_budgets, parse_ratios, run_budget

    check_target(json_target)
    with _resumable(out):
        summary = run_budget(
            config, builders.split(","), agent or (), parse_budgets(budgets), goals, out,
            overrides or (), seed, parse_ratios(ratios), _command(),
        )  # fmt: skip
    _finish(summary, out, json_target, _show_episodes)
    typer.echo(f"plot: {out}/budget.png", err=json_target == "-")


@eval_app.command(epilog=_EXPERIENCE)
def experience(
    out: _Out,
    state_bank: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Best made of other tasks than --goals.")
    ] = None,
    trace_bank: Annotated[str | None, typer.Option(metavar="FOLDER", help="Likewise.")] = None,
    goals: _Goals = "0-299",
    inner: Annotated[str, typer.Option(help="The context that is wrapped.")] = "full",
    only: Annotated[str, typer.Option(help="Agents, such as state,gated; all if empty.")] = "",
    config: _Config = "webshop-experience",
    overrides: _Set = None,
    seed: _Seed = 0,
    json_target: _Json = None,
) -> None:
    """Compare no advice, state, gated, trace, random and shuffled-worth advice on the same goals."""
    from evals.worlds.experience import run_experience

    check_target(json_target)
    with _resumable(out):
        summary = run_experience(
            config, goals, out, state_bank, trace_bank, inner, overrides or (), _names(only), seed,
            _command(),
        )  # fmt: skip
    _finish(summary, out, json_target, _show_episodes)


@eval_app.command(epilog=_RETRIEVAL)
def retrieval(
    data: Annotated[str, typer.Option(metavar="FILE", help="See stategate data trajectories.")],
    out: _Out,
    updater: Annotated[str, typer.Option(help="gru, ssm or none.")] = "gru",
    config: _Config = "webshop",
    seed: _Seed = 0,
    json_target: _Json = None,
) -> None:
    """Rank the chunks of the pages on which an expert acted: recall of the one it acted on."""
    from evals.worlds.retrieval import run_retrieval

    check_target(json_target)
    with _resumable(out):
        summary = run_retrieval(data, out, updater, config, seed, _command())
    _finish(summary, out, json_target)


@eval_app.command(epilog=_QA)
def qa(
    out: _Out,
    data: Annotated[
        str, typer.Option(help="'sample', or a folder with corpus/ and evaluation_dataset.json.")
    ] = "sample",
    experiments: Annotated[
        str,
        typer.Option(
            help="A chunk size, B chunking, C embedding and retrieval, D memory, E reranking."
        ),
    ] = "A,B,C,D",
    only: Annotated[str, typer.Option(help="Just these agents of them, comma-separated.")] = "",
    limit: Annotated[int | None, typer.Option(min=1, help="The first so many questions.")] = None,
    config: _Config = "qa",
    overrides: _Set = None,
    seed: _Seed = 0,
    json_target: _Json = None,
) -> None:
    """Measure retrieval, answers, latency, tokens and cost; without a model unless actor is set."""
    from evals.qa.experiments import run_qa

    check_target(json_target)
    with _resumable(out):
        summary = run_qa(
            out, data, _names(experiments), config, _extractive(overrides), limit, _names(only),
            seed, _command(),
        )  # fmt: skip
    _finish(summary, out, json_target)


@eval_app.command(epilog=_MEMORY)
def memory(
    out: _Out,
    dialogues: Annotated[str, typer.Option(help="'sample' or a YAML file.")] = "sample",
    policies: Annotated[
        str, typer.Option(help="Comma-separated: neither, stm, ltm, both.")
    ] = "neither,stm,ltm,both",
    limit: Annotated[int | None, typer.Option(min=1, help="The first so many dialogues.")] = None,
    config: _Config = "qa",
    overrides: _Set = None,
    seed: _Seed = 0,
    json_target: _Json = None,
) -> None:
    """Measure memory where it matters: follow-ups and questions about earlier sessions."""
    from evals.memory.dialogues import run_memory

    check_target(json_target)
    with _resumable(out):
        summary = run_memory(
            out, dialogues, _names(policies), config, _extractive(overrides), limit, seed,
            _command(),
        )  # fmt: skip
    _finish(summary, out, json_target)


@eval_app.command(epilog=_ENTITIES)
def entities(
    out: _Out,
    agents: Annotated[str, typer.Option(help="Of rules, spacy, model.")] = "rules,spacy",
    data: Annotated[str, typer.Option(help="'articles' of many fields, or 'sample'.")] = "articles",
    split: Annotated[str, typer.Option(help="dev to tune on, test to report.")] = "test",
    config: _Config = "qa",
    overrides: _Set = None,
    json_target: _Json = None,
) -> None:
    """Compare the extractors of names, and their follow-ups, with what was marked by hand."""
    from evals.qa.entities import run_entities

    check_target(json_target)
    with _resumable(out):
        summary = run_entities(
            out, _names(agents), data, split, config, overrides or (), _command()
        )
    _finish(summary, out, json_target)


@eval_app.command(epilog=_RERANK)
def rerank(
    out: _Out,
    split: Annotated[str, typer.Option(help="dev to tune on, test to report.")] = "dev",
    datasets: Annotated[
        str, typer.Option(help="Comma-separated.")
    ] = "hotpotqa,2wikimultihopqa,musique",
    limit: Annotated[
        int | None, typer.Option(min=1, help="The first so many questions of each dataset.")
    ] = None,
    rankers: Annotated[
        str, typer.Option(help="Comma-separated; a+b adds z-scores. Default: BM25, MiniLM, RICO.")
    ] = "",
    pool: Annotated[str, typer.Option(help="given, or bm25: the best of all documents.")] = "given",
    depth: Annotated[int, typer.Option(min=1, help="Documents in a bm25 pool.")] = 20,
    model: Annotated[
        str, typer.Option(help="Asset, folder, .gguf file or hub name.")
    ] = "smollm2-135m",
    loss: Annotated[str, typer.Option(help="content words only, or mean over all.")] = "content",
    steps: Annotated[int, typer.Option(min=1, help="AdamW steps (multistep, warm_*).")] = 5,
    learning_rate: Annotated[float, typer.Option(help="AdamW's learning rate.")] = 0.1,
    states: Annotated[str, typer.Option(help="How states are kept: fp32, fp16, int8.")] = "fp16",
    data: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Of the questions; or $STATEGATE_DATA.")
    ] = None,
    states_folder: Annotated[
        str | None, typer.Option(metavar="DIR", help="Of the documents' states.")
    ] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Cores for the model.")] = None,
    seed: _Seed = 0,
    json_target: _Json = None,
) -> None:
    """Rank the documents of multi-hop questions: nDCG@10, MAP, precision, recall, paired tests."""
    from evals.rerank.rankers import DEFAULT_RANKERS, Settings, run_rerank

    check_target(json_target)
    chosen: dict[str, Any] = {
        "split": split, "datasets": tuple(_names(datasets)), "limit": limit, "pool": pool,
        "rankers": tuple(_names(rankers)) or DEFAULT_RANKERS, "depth": depth, "model": model,
        "loss": loss, "steps": steps, "learning_rate": learning_rate, "states": states,
        "seed": seed,
    }  # fmt: skip
    _check_choices(chosen)
    if threads:
        import torch

        torch.set_num_threads(threads)
    with _resumable(out):
        summary = run_rerank(Settings(**chosen), out, data, states_folder, _command())
    _finish(summary, out, json_target)


@eval_app.command(epilog=_REPORT)
def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Finished run directories.")],
    out: Annotated[Path, typer.Option(metavar="FILE.md", help="The page to write.")],
) -> None:
    """Write a page of tables and plots from run directories, and copies of what they came from."""
    from evals.core.report import report as write_report

    write_report(runs, out)
    typer.echo(f"page: {out}")


def _check_choices(chosen: Mapping[str, Any]) -> None:
    from stores.errors import UserError

    for name, choices in {
        "split": ("dev", "test"),
        "pool": ("given", "bm25"),
        "loss": ("content", "mean"),
        "states": ("fp32", "fp16", "int8"),
    }.items():
        if chosen[name] not in choices:
            raise UserError(f"--{name} is one of {', '.join(choices)}, not '{chosen[name]}'")


def _extractive(overrides: "list[str] | None") -> list[str]:
    """Answer without a language model unless the caller names an actor."""
    return ["actor.kind=extract", *(overrides or ())]


def _show_episodes(summary: Mapping[str, Any]) -> None:
    from ui.cli.output import show_summary

    show_summary(console(), summary, (), None)
