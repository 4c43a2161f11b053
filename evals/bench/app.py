"""Benchmarks, each into a run directory: ``stategate eval bench step --out runs/bench-step``.

``python -m evals.bench step --out runs/bench-step`` is the same. Nothing here is asserted by tests.
"""

from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from stores.runs import parse_numbers, shown_path

_EXAMPLES = """[bold]Examples[/bold]
  stategate eval bench step --data sample --out runs/bench-step
  stategate eval bench bank --bank banks/state --sizes 10000,100000 --out runs/bench-bank"""
bench_app = typer.Typer(
    epilog=_EXAMPLES,
    add_completion=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)
_Out = Annotated[
    str, typer.Option(metavar="DIR", help="Run directory; goes on if it is there already.")
]
_Data = Annotated[str, typer.Option(help="'sample', or a folder of the world's data.")]
_Seed = Annotated[int, typer.Option(help="Of whatever is drawn at random.")]


@bench_app.callback(invoke_without_command=True, epilog=_EXAMPLES)
def bench(context: typer.Context) -> None:
    """Measure how long things take; compare figures of one machine and one table only."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@bench_app.command(epilog=_EXAMPLES)
def webshop(out: _Out, data: _Data = "sample", seed: _Seed = 0) -> None:
    """Load WebShop's world, walk it at random, and search."""
    from evals.webshop.bench import measure_world

    _run("webshop", {"world": lambda: measure_world(data, seed=seed)}, out, data=data, seed=seed)


@bench_app.command(epilog=_EXAMPLES)
def alfworld(
    out: _Out,
    data: _Data = "sample",
    seed: _Seed = 0,
    walkthroughs: Annotated[bool, typer.Option(help="Play the games' own walkthroughs.")] = False,
) -> None:
    """Load ALFWorld's games and walk them at random, or play every walkthrough."""
    from evals.alfworld.speed import measure_games, play_walkthroughs

    parts = {"speed": lambda: measure_games(data, seed=seed)}
    if walkthroughs:
        parts = {"walkthroughs": lambda: play_walkthroughs(data)}
    _run("alfworld", parts, out, data=data, seed=seed)


@bench_app.command(epilog=_EXAMPLES)
def step(out: _Out, data: _Data = "sample", seed: _Seed = 0) -> None:
    """Measure a step without the model, part by part, beside a bare LangGraph loop."""
    from evals.webshop.bench import beside_bare_loop, step_parts

    _run("step", step_parts(data, seed), out, beside_bare_loop, data=data, seed=seed)


@bench_app.command(epilog=_EXAMPLES)
def workers(
    out: _Out,
    goals: Annotated[int, typer.Option(help="Episodes to play.", min=1)] = 40,
    count: Annotated[int, typer.Option("--workers", help="Processes.", min=2)] = 2,
    config: Annotated[str, typer.Option(help="A preset or a YAML file.")] = "webshop",
    seed: _Seed = 0,
) -> None:
    """Play the same episodes in one process and in several, and give out jobs that do nothing."""
    from evals.bench.workers import worker_parts

    _run("workers", worker_parts(config, goals, count), out, seed=seed)


@bench_app.command(epilog=_EXAMPLES)
def bank(
    out: _Out,
    bank: Annotated[str, typer.Option(metavar="FOLDER", help="A state bank to take vectors from.")],
    sizes: Annotated[str, typer.Option(help="Numbers of states.")] = "10000,100000",
    config: Annotated[str, typer.Option(help="A preset or a YAML file: its embedder.")] = "webshop",
    seed: _Seed = 0,
) -> None:
    """Search in state banks of growing size, and embed one text."""
    from evals.bench.bank import bank_parts
    from graph.config import load_config
    from nodes.resources import Resources
    from stores.bank.state_bank import StateBank

    resources = Resources(None, load_config(config).embedder)
    parts = bank_parts(StateBank(bank), parse_numbers(sizes, "sizes"), resources, seed)
    _run("bank", parts, out, bank=bank, sizes=sizes, seed=seed)


@bench_app.command(epilog=_EXAMPLES)
def memory(
    out: _Out,
    sizes: Annotated[str, typer.Option(help="Turns written, comma-separated.")] = (
        "500,1000,2000,4000,6000,8000,10000"
    ),
    db: Annotated[
        str | None, typer.Option(metavar="URL", help="A PostgreSQL database; else SQLite.")
    ] = None,
    most: Annotated[
        int | None, typer.Option(help="Also a memory of at most so many facts.", min=20)
    ] = None,
    seed: _Seed = 0,
) -> None:
    """Write and recall as one user's long-term memory grows, with a plot; no model is timed."""
    from pathlib import Path

    from evals.bench.memory import memory_parts, plot_growth
    from stores.runs import read_rows

    parts = memory_parts(parse_numbers(sizes), db, seed, most)
    _run("memory", parts, out, sizes=sizes, db="PostgreSQL" if db else None, most=most, seed=seed)
    rows = [row for part in read_rows(Path(out) / "parts.jsonl") for row in part["rows"]]
    if rows:
        plot_growth(rows, Path(out) / "growth.png")


@bench_app.command(epilog=_EXAMPLES)
def embedding(
    out: _Out,
    count: Annotated[int, typer.Option(help="Texts.", min=16)] = 256,
    seed: _Seed = 0,
) -> None:
    """Embed texts one by one and together, with the local model and no cache."""
    from evals.bench.memory import embedding_parts

    _run("embedding", embedding_parts(count, seed), out, count=count, seed=seed)


@bench_app.command(epilog=_EXAMPLES)
def middleware(
    out: _Out,
    messages: Annotated[int, typer.Option(help="Length of the history.")] = 200,
    budget: Annotated[int, typer.Option(help="Tokens that force a cut.")] = 16_000,
    seed: _Seed = 0,
) -> None:
    """Decide what one model call of another's agent reads, beside LangChain's own middleware."""
    from evals.bench.middleware import middleware_parts

    parts = middleware_parts(messages, budget, seed)
    _run("middleware", parts, out, messages=messages, budget=budget, seed=seed)


_Db = Annotated[
    str | None, typer.Option(metavar="URL", help="A PostgreSQL database, or $STATEGATE_POSTGRES.")
]


@bench_app.command(epilog=_EXAMPLES)
def sessions(
    out: _Out,
    count: Annotated[int, typer.Option("--sessions", help="Conversations at once.", min=1)] = 64,
    turns: Annotated[int, typer.Option(help="Questions of each, in a row.", min=1)] = 5,
    seconds: Annotated[float, typer.Option(help="The stand-in model's time to think.")] = 0.5,
    db: _Db = None,
    seed: _Seed = 0,
) -> None:
    """Serve many conversations in one process, on each saver; the model is a stand-in."""
    from evals.bench.serving import session_parts

    parts = session_parts(count, turns, seconds, _database(db))
    named = "PostgreSQL" if db else None
    _run("sessions", parts, out, sessions=count, turns=turns, seconds=seconds, db=named, seed=seed)


@bench_app.command(epilog=_EXAMPLES)
def checkpoints(
    out: _Out,
    steps: Annotated[int, typer.Option(help="Steps of the episode.", min=1)] = 100,
    db: _Db = None,
    seed: _Seed = 0,
) -> None:
    """Sum what a step of WebShop writes into checkpoints, without and with a recurrent state."""
    from evals.bench.serving import checkpoint_parts

    parts = checkpoint_parts(steps, _database(db))
    _run("checkpoints", parts, out, steps=steps, db="PostgreSQL" if db else None, seed=seed)


@bench_app.command(epilog=_EXAMPLES)
def endurance(
    out: _Out,
    steps: Annotated[int, typer.Option(help="Steps to play.", min=1)] = 10_000,
    every: Annotated[int, typer.Option(help="Steps between two looks.", min=1)] = 1000,
    seed: _Seed = 0,
) -> None:
    """Play many episodes in one process, and look at its memory, files, descriptors and threads."""
    from evals.bench.serving import endurance_parts, growth

    _run(
        "endurance", endurance_parts(steps, every), out, growth, steps=steps, every=every, seed=seed
    )


def _database(db: str | None) -> str | None:
    from stores.loopback import from_environment

    return None if db is None else from_environment(db)


def _run(
    what: str,
    parts: Any,
    out: str,
    finish: Callable[[Sequence[dict[str, Any]]], list[dict[str, Any]]] = list,
    **settings: Any,
) -> None:
    from evals.core.report import table
    from evals.core.task import run_bench

    shown = {key: shown_path(v) if isinstance(v, str) else v for key, v in settings.items()}
    args = {"what": what, "out": shown_path(out), **shown}
    summary = run_bench(what, parts, out, args, finish)
    typer.echo(table(summary["rows"], "simple"))
