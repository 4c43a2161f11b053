"""``stategate eval``: compare agents on the same tasks."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from evals.bench.app import bench_app
from ui.cli import evidence
from ui.cli.evaluating import command_line, evaluation, measure, names
from ui.cli.output import Config, JsonFile, Limit, Overrides, command, command_group, opt

eval_app = command_group(
    "Compare agents on the same tasks; each run is a directory that tables are made from.",
    "stategate eval live --agents full,window,query_rag --goals 0-499 --out runs/rule",
    "stategate eval report runs/rule runs/budget --out docs/results/mine.md",
)
eval_app.add_typer(bench_app, name="bench")
eval_app.command(epilog=evidence.LOCOMO)(evidence.locomo)
eval_app.command(epilog=evidence.LONGMEMEVAL)(evidence.longmemeval)
eval_app.command(epilog=evidence.DIALOGUES)(evidence.dialogues)
eval_app.command(epilog=evidence.STATEMENTS)(evidence.statements)
eval_app.command(epilog=evidence.REMEMBERED)(evidence.remembered)

_Out = Annotated[str, opt("Run directory; goes on if it is there already.", metavar="DIR")]
_Agent = Annotated[
    list[str] | None, opt("An agent of your own; repeatable.", metavar="NAME=SLOT.FIELD=VALUE,…")
]
_Goals = Annotated[str, opt("Of the world's tasks: 0-499, 3,5,8, all.", "--goals", "--tasks")]
_Only = Annotated[str, opt("Just these agents, comma-separated; all if empty.")]
_Split = Annotated[str, opt("dev to tune on, test to report.")]
_Seed = Annotated[int, opt("Of the statistics; written to args.json.")]
#: What the values of some flags of ``rerank`` may be.
_CHOICES = {
    "split": ("dev", "test"),
    "pool": ("given", "bm25"),
    "loss": ("content", "mean"),
    "states": ("fp32", "fp16", "int8"),
}


@evaluation(eval_app, "stategate eval live --agents full,window --goals 0-499 --out runs/rule")
def live(
    out: _Out,
    agents: Annotated[str, opt("Context kinds, comma-separated.")] = "",
    agent: _Agent = None,
    goals: _Goals = "0-9",
    config: Config = "webshop",
    overrides: Overrides = None,
    seed: _Seed = 0,
    json_target: JsonFile = None,
) -> None:
    """Play the same tasks with several agents: success, score, steps, tokens, paired tests."""
    from evals.worlds.live import parse_agents, run_live

    chosen = parse_agents(agents, agent or ())
    how = (overrides or (), seed, command_line())
    measure(out, json_target, partial(run_live, config, chosen, goals, out, *how))


@evaluation(
    eval_app, "stategate eval budget --goals 0-99 --budgets 100,400 --ratios 0.4 --out runs/b"
)
def budget(
    out: _Out,
    builders: Annotated[str, opt("Context kinds.")] = "full,retrieve,compress",
    agent: _Agent = None,
    budgets: Annotated[str, opt("In tokens.")] = "100,150,200,300,400,600,1000",
    ratios: Annotated[str, opt("Shares of each page, 0.3,0.5, for builders with a ratio.")] = "",
    goals: _Goals = "0-9",
    config: Config = "webshop",
    overrides: Overrides = None,
    seed: _Seed = 0,
    json_target: JsonFile = None,
) -> None:
    """Play with growing token budgets: success by budget, a curve a builder, with a plot."""
    from evals.worlds.budget import parse_budgets, parse_ratios, run_budget

    how = (overrides or (), seed, parse_ratios(ratios), command_line())
    kinds, sizes, own = builders.split(","), parse_budgets(budgets), agent or ()
    measure(out, json_target, partial(run_budget, config, kinds, own, sizes, goals, out, *how))
    typer.echo(f"plot: {out}/budget.png", err=json_target == "-")


@evaluation(eval_app, "stategate eval retry --agent w2=context.kind=window,context.events=2 --out runs/r")
def retry(
    out: _Out,
    agents: Annotated[str, opt("Context kinds, comma-separated.")] = "",
    agent: _Agent = None,
    goals: _Goals = "0-9",
    trials: Annotated[int, opt("Trials a task.", min=1)] = 3,
    config: Config = "alfworld",
    overrides: Overrides = None,
    seed: _Seed = 0,
    json_target: JsonFile = None,
) -> None:
    """Reflect and retry: up to three trials a task, each told what the failed ones found out."""
    from evals.worlds.live import parse_agents
    from evals.worlds.retry import run_retry

    chosen = parse_agents(agents, agent or ())
    how = (trials, overrides or (), seed, command_line())
    measure(out, json_target, partial(run_retry, config, chosen, goals, out, *how))


@command(eval_app, "stategate eval picture --config alfworld --task 6 --agents full --out e.png")
def picture(
    out: Annotated[str, opt("The PNG to write.", metavar="FILE")],
    task: Annotated[int, opt("Number of the world's task.", "--task", "--goal", min=0)] = 0,
    agents: Annotated[str, opt("Context kinds, comma-separated; the first one plays.")] = "",
    agent: _Agent = None,
    config: Config = "alfworld",
    overrides: Overrides = None,
) -> None:
    """Draw one episode: what each agent shows of every earlier step, and what decisions needed."""
    from evals.core.report import table
    from evals.worlds.live import parse_agents
    from evals.worlds.picture import draw_episode

    told = draw_episode(config, parse_agents(agents, agent or ()), task, out, overrides or ())
    typer.echo(table(told["rows"], "simple"))
    typer.echo(f"picture: {out}")


@evaluation(
    eval_app,
    "stategate eval wordings --split negation,typos --goals clean --actors rule --out runs/w",
)
def wordings(
    out: _Out,
    split: Annotated[
        str, opt("train, develop, held-out, or families, comma-separated.")
    ] = "develop",
    actors: Annotated[str, opt("Kinds of actors.")] = "rule,policy",
    contexts: Annotated[str, opt("Of full, compress.")] = "full,compress",
    goals: _Goals = "developing:40",
    config: Config = "webshop",
    overrides: Overrides = None,
    seed: _Seed = 0,
    json_target: JsonFile = None,
) -> None:
    """Play WebShop's goals in many wordings: success by family, with full and with compress."""
    from evals.webshop.wordings import run_wordings

    how = (names(contexts), overrides or (), seed, command_line())
    measure(out, json_target, lambda: run_wordings(config, split, names(actors), goals, out, *how))


@evaluation(
    eval_app, "stategate eval experience --state-bank banks/s --only state,gated --out runs/e"
)
def experience(
    out: _Out,
    state_bank: Annotated[str | None, opt("Made of other tasks.", metavar="FOLDER")] = None,
    trace_bank: Annotated[str | None, opt("Likewise.", metavar="FOLDER")] = None,
    goals: _Goals = "0-299",
    inner: Annotated[str, opt("The context that is wrapped.")] = "full",
    only: _Only = "",
    config: Config = "webshop-experience",
    overrides: Overrides = None,
    seed: _Seed = 0,
    json_target: JsonFile = None,
) -> None:
    """Compare no advice, state, gated, trace, random and shuffled-worth advice on the same goals."""
    from evals.worlds.experience import run_experience

    how = (state_bank, trace_bank, inner, overrides or (), names(only), seed, command_line())
    measure(out, json_target, partial(run_experience, config, goals, out, *how))


@evaluation(eval_app, "stategate eval retrieval --data traces.jsonl --updater none --out runs/r")
def retrieval(
    data: Annotated[str, opt("See stategate data trajectories.", metavar="FILE")],
    out: _Out,
    updater: Annotated[str, opt("gru, ssm or none.")] = "gru",
    config: Config = "webshop",
    seed: _Seed = 0,
    json_target: JsonFile = None,
) -> None:
    """Rank the chunks of the pages on which an expert acted: recall of the one it acted on."""
    from evals.worlds.retrieval import run_retrieval

    how = (updater, config, seed, command_line())
    measure(out, json_target, partial(run_retrieval, data, out, *how))


@evaluation(eval_app, "stategate eval qa --data FOLDER --experiments A,C --limit 20 --out runs/qa")
def qa(
    out: _Out,
    data: Annotated[str, opt("'sample', or a folder with corpus/ and questions.")] = "sample",
    experiments: Annotated[str, opt("A size, B kind, C retrieval, D memory.")] = "A,B,C,D",
    only: _Only = "",
    limit: Limit = None,
    config: Config = "qa",
    overrides: Overrides = None,
    seed: _Seed = 0,
    json_target: JsonFile = None,
) -> None:
    """Measure retrieval, answers, latency, tokens and cost; without a model unless actor is set."""
    from evals.qa.experiments import run_qa

    what = (data, names(experiments), config, _extractive(overrides), limit, names(only))
    measure(out, json_target, partial(run_qa, out, *what, seed, command_line()))


@evaluation(
    eval_app, "stategate eval memory --policies stm,both --set actor.kind=answer --out runs/m"
)
def memory(
    out: _Out,
    dialogues: Annotated[str, opt("'sample' or a YAML file.")] = "sample",
    policies: Annotated[str, opt("Of neither, stm, ltm, both.")] = "neither,stm,ltm,both",
    limit: Limit = None,
    config: Config = "qa",
    overrides: Overrides = None,
    seed: _Seed = 0,
    json_target: JsonFile = None,
) -> None:
    """Measure memory where it matters: follow-ups and questions about earlier sessions."""
    from evals.memory.dialogues import run_memory

    what = (dialogues, names(policies), config, _extractive(overrides), limit)
    measure(out, json_target, partial(run_memory, out, *what, seed, command_line()))


@evaluation(eval_app, "stategate eval entities --agents rules,spacy,model --out runs/entities")
def entities(
    out: _Out,
    agents: Annotated[str, opt("Of rules, spacy, model.")] = "rules,spacy",
    data: Annotated[str, opt("'articles' of many fields, or 'sample'.")] = "articles",
    split: _Split = "test",
    config: Config = "qa",
    overrides: Overrides = None,
    json_target: JsonFile = None,
) -> None:
    """Compare the extractors of names, and their follow-ups, with what was marked by hand."""
    from evals.qa.entities import run_entities

    what = (names(agents), data, split, config, overrides or ())
    measure(out, json_target, partial(run_entities, out, *what, command_line()))


@evaluation(eval_app, "stategate eval agents --split dev --n 60 --out runs/agents-dev")
def agents(
    out: _Out,
    split: _Split = "dev",
    n: Annotated[int, opt("Tasks, as many of each family.", min=1)] = 60,
    arms: Annotated[str, opt("Comma-separated; see evals/agents/arms.py.")] = "",
    budget: Annotated[int, opt("Tokens of a prompt, the same for every arm.", min=500)] = 8000,
    seed: Annotated[int, opt("Of the first task of each family.")] = 0,
    json_target: JsonFile = None,
) -> None:
    """Give other people's agents our middleware and others': success, billed cost, tokens, time."""
    from evals.agents.run import DEFAULT_ARMS, run_agents

    what = (split, n, names(arms) or DEFAULT_ARMS, budget, (), seed, command_line())
    measure(out, json_target, partial(run_agents, out, *what))


@evaluation(eval_app, "stategate eval rerank --split dev --limit 20 --rankers bm25 --out runs/dev")
def rerank(
    out: _Out,
    split: _Split = "dev",
    datasets: Annotated[str, opt("Comma-separated.")] = "hotpotqa,2wikimultihopqa,musique",
    limit: Annotated[int | None, opt("The first so many of each dataset.", min=1)] = None,
    rankers: Annotated[str, opt("a+b adds z-scores. Default: BM25, MiniLM, RICO.")] = "",
    pool: Annotated[str, opt("given, or bm25: the best of all documents.")] = "given",
    depth: Annotated[int, opt("Documents in a bm25 pool.", min=1)] = 20,
    model: Annotated[str, opt("Asset, folder, .gguf file or hub name.")] = "smollm2-135m",
    loss: Annotated[str, opt("content words only, or mean over all.")] = "content",
    steps: Annotated[int, opt("AdamW steps (multistep, warm_*).", min=1)] = 5,
    learning_rate: Annotated[float, opt("AdamW's learning rate.")] = 0.1,
    states: Annotated[str, opt("How states are kept: fp32, fp16, int8.")] = "fp16",
    data: Annotated[str | None, opt("The questions; or $STATEGATE_DATA.", metavar="FOLDER")] = None,
    states_folder: Annotated[str | None, opt("Of the documents' states.", metavar="DIR")] = None,
    threads: Annotated[int | None, opt("Cores for the model.", min=1)] = None,
    seed: _Seed = 0,
    json_target: JsonFile = None,
) -> None:
    """Rank the documents of multi-hop questions: nDCG@10, MAP, precision, recall, paired tests."""
    from evals.rerank.rankers import DEFAULT_RANKERS, Settings, run_rerank
    from stores.errors import UserError

    chosen: dict[str, Any] = {
        "split": split, "datasets": tuple(names(datasets)), "limit": limit, "pool": pool,
        "rankers": tuple(names(rankers)) or DEFAULT_RANKERS, "depth": depth, "model": model,
        "loss": loss, "steps": steps, "learning_rate": learning_rate, "states": states,
        "seed": seed,
    }  # fmt: skip
    for name, choices in _CHOICES.items():
        if chosen[name] not in choices:
            raise UserError(f"--{name} is one of {', '.join(choices)}, not '{chosen[name]}'")
    if threads:
        import torch

        torch.set_num_threads(threads)
    how = (data, states_folder, command_line())
    measure(out, json_target, partial(run_rerank, Settings(**chosen), out, *how))


@command(eval_app, "stategate eval report runs/rule runs/budget --out docs/results/mine.md")
def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Finished run directories.")],
    out: Annotated[Path, opt("The page to write.", metavar="FILE.md")],
) -> None:
    """Write a page of tables and plots from run directories, and copies of what they came from."""
    from evals.core.report import report as write_report

    write_report(runs, out)
    typer.echo(f"page: {out}")


def _extractive(overrides: list[str] | None) -> list[str]:
    """Answer without a language model unless the caller names an actor."""
    return ["actor.kind=extract", *(overrides or ())]
