"""``stategate eval``: compare agents on the same tasks."""

from typing import Annotated

import typer

from ui.cli import eval_experience as cli_eval_experience
from ui.cli import eval_qa as cli_eval_qa
from ui.cli.output import examples

_EXAMPLES = examples(
    "stategate eval live --agents full,window,query_rag --goals 0-499 --out runs/rule",
    "stategate eval live --agent short=context.kind=full,context.budget=300 --out runs/s",
)
eval_app = typer.Typer(epilog=_EXAMPLES)


@eval_app.callback(invoke_without_command=True)
def evaluate(context: typer.Context) -> None:
    """Compare agents on the same tasks; each run is a directory that tables are made from."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@eval_app.command(epilog=_EXAMPLES)
def live(
    out: Annotated[
        str, typer.Option(metavar="DIR", help="Run directory; goes on if it is there already.")
    ],
    agents: Annotated[str, typer.Option(help="Context kinds, comma-separated.")] = "",
    agent: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=SLOT.FIELD=VALUE,…", help="An agent of your own; repeatable."),
    ] = None,
    goals: Annotated[str, typer.Option(help="Such as 0-499 or 3,5,8.")] = "0-9",
    config: Annotated[str, typer.Option(help="A preset or a YAML file.")] = "webshop",
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="SLOT.FIELD=VALUE", help="For every agent; repeatable."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Written to the run's args.json.")] = 0,
    json_target: Annotated[
        str | None,
        typer.Option("--json", metavar="FILE", help="Write the summary; - is stdout."),
    ] = None,
) -> None:
    """Play the same goals with several agents: success, score, steps, tokens, paired tests."""
    from evals.live import parse_agents, parse_goals
    from ui.cli.episodes import play_agents

    play_agents(
        config,
        parse_agents(agents, agent or ()),
        parse_goals(goals),
        out=out,
        json_target=json_target,
        overrides=overrides or (),
        seed=seed,
    )


_RERANK = examples(
    "stategate eval rerank --split dev --limit 20 --out runs/rerank-dev",
    "stategate eval rerank --split test --out runs/rerank-test",
    "stategate eval rerank --rankers bm25,loss,leave_one_out --limit 10 --out runs/slow",
)


@eval_app.command(epilog=_RERANK)
def rerank(
    out: Annotated[
        str, typer.Option(metavar="DIR", help="Run directory; goes on if it is there already.")
    ],
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
    json_target: Annotated[
        str | None, typer.Option("--json", metavar="FILE", help="Write the summary; - is stdout.")
    ] = None,
) -> None:
    """Rank the documents of multi-hop questions: nDCG@10, MAP, precision, recall, paired tests."""
    from ui.cli.rerank import evaluate_rerank

    evaluate_rerank(
        {
            "split": split,
            "datasets": datasets,
            "limit": limit,
            "rankers": rankers,
            "pool": pool,
            "depth": depth,
            "model": model,
            "loss": loss,
            "steps": steps,
            "learning_rate": learning_rate,
            "states": states,
        },
        out=out,
        data=data,
        folder=states_folder,
        threads=threads,
        json_target=json_target,
    )


_RETRIEVAL = examples(
    "stategate eval retrieval --data runs/trajectories/real/heldout.jsonl --out runs/retrieval",
    "stategate eval retrieval --data traces.jsonl --updater none --out runs/instruction-only",
)


@eval_app.command(epilog=_RETRIEVAL)
def retrieval(
    data: Annotated[
        str, typer.Option(metavar="FILE", help="Trajectories of trainers.episodes.collect.")
    ],
    out: Annotated[str, typer.Option(metavar="DIR", help="A new run directory.")],
    updater: Annotated[str, typer.Option(help="gru, ssm or none.")] = "gru",
    seed: Annotated[int, typer.Option(help="Of the bootstrap.")] = 0,
) -> None:
    """Recall of the clicked chunk: trained, zero-shot, instruction and last-event queries."""
    from evals.report import figures
    from evals.retrieval import run_retrieval

    command = ["stategate", "eval", "retrieval", "--data", data, "--updater", updater]
    summary = run_retrieval(data, out, updater, seed, [*command, "--out", out])
    typer.echo(figures(summary["rows"]))


_BUDGET = examples(
    "stategate eval budget --goals 0-99 --budgets 100,200,400 --ratios 0.4,0.6 --out runs/budget",
    "stategate eval budget --builders full --agent u=context.kind=compress,context.allocator=uniform"
    " --budgets 150,300 --out runs/uniform",
)


@eval_app.command(epilog=_BUDGET)
def budget(
    out: Annotated[
        str, typer.Option(metavar="DIR", help="Run directory; goes on if it is there already.")
    ],
    builders: Annotated[str, typer.Option(help="Context kinds.")] = "full,retrieve,compress",
    agent: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=SLOT.FIELD=VALUE,…", help="A curve of your own; repeatable."),
    ] = None,
    budgets: Annotated[str, typer.Option(help="In tokens.")] = "100,150,200,300,400,600,1000",
    ratios: Annotated[
        str, typer.Option(help="Shares of each page, such as 0.3,0.5, for builders with a ratio.")
    ] = "",
    goals: Annotated[str, typer.Option(help="Such as 0-499 or 3,5,8.")] = "0-9",
    config: Annotated[str, typer.Option(help="A preset or a YAML file.")] = "webshop",
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="SLOT.FIELD=VALUE", help="For every agent; repeatable."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Written to the run's args.json.")] = 0,
) -> None:
    """Success against the context's token budget, a curve a builder, with a plot."""
    from evals.budget import parse_budgets, parse_ratios, run_budget
    from evals.live import parse_goals
    from evals.report import table

    command = ["stategate", "eval", "budget", "--builders", builders, "--budgets", budgets]
    command += ["--goals", goals, "--config", config]
    for name in agent or ():
        command += ["--agent", name]
    for item in overrides or ():
        command += ["--set", item]
    command += ["--ratios", ratios] if ratios else []
    summary = run_budget(
        config, builders.split(","), agent or (), parse_budgets(budgets), parse_goals(goals),
        out, overrides or (), seed, parse_ratios(ratios), [*command, "--out", out],
    )  # fmt: skip
    typer.echo(table(summary["rows"]))
    typer.echo(f"plot: {out}/budget.png")


eval_app.command(epilog=cli_eval_experience.EXPERIENCE_EXAMPLES)(cli_eval_experience.experience)
eval_app.command(epilog=cli_eval_qa.QA_EXAMPLES)(cli_eval_qa.qa)
eval_app.command(epilog=cli_eval_qa.MEMORY_EXAMPLES)(cli_eval_qa.memory)
