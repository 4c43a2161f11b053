"""``stategate bank``: make banks of experience from recorded episodes."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stores.errors import UserError
from ui.cli.bank_rows import add_row_commands
from ui.cli.output import console, examples

if TYPE_CHECKING:
    from nodes.resources import Resources
    from trainers.bank.build import Built
    from trainers.bank.hindsight import Hindsight

_BUILD = examples(
    "stategate bank build runs/practice.sqlite --out banks/state --include-incorrect",
    "stategate bank build traces.jsonl --kind trace --out banks/trace",
    "stategate bank build traces/ --out banks/told --annotator hindsight",
    "stategate bank build traces/ --out banks/told --annotator hindsight --set llm.kind=openai",
)
bank_app = typer.Typer(
    epilog=examples(
        "stategate bank build traces.jsonl --out banks/state",
        "stategate bank search banks/state 'Find me a red wool scarf'",
        "stategate run webshop-experience --goal 3 --set context.bank=banks/state",
    )
)
Traces = Annotated[
    list[Path], typer.Argument(help="Trace databases, JSON or JSONL files, or folders of them.")
]
Config = Annotated[str, typer.Option(help="Preset or YAML file: its embedder, llm, updater.")]
Overrides = Annotated[
    list[str] | None, typer.Option("--set", metavar="SLOT.FIELD=VALUE", help="Repeatable.")
]


@bank_app.callback(invoke_without_command=True)
def bank(context: typer.Context) -> None:
    """Make, look at, and tend banks of experience."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@bank_app.command(epilog=_BUILD)
def build(
    traces: Traces,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="The bank; goes on if it is there.")],
    kind: Annotated[
        str, typer.Option(help="'state' (advice a step) or 'trace' (a task).")
    ] = "state",
    annotator: Annotated[
        str, typer.Option(help="'return' (no model calls) or 'hindsight' (one call an episode).")
    ] = "return",
    include_incorrect: Annotated[
        bool, typer.Option("--include-incorrect", help="Failed episodes too, with blame.")
    ] = False,
    updater: Annotated[
        bool, typer.Option("--updater", help="Keep the recurrent states of the config's updater.")
    ] = False,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first so many.")] = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Model calls at once.")] = 1,
    per_minute: Annotated[float, typer.Option(min=0, help="Model calls a minute; 0: any.")] = 0,
    config: Config = "webshop",
    overrides: Overrides = None,
) -> None:
    """Build a bank from recorded episodes; run it again after a kill and it goes on."""
    from trainers.bank.build import build_state_bank, build_trace_bank
    from trainers.bank.sources import read_episodes

    if kind not in ("state", "trace") or annotator not in ("return", "hindsight"):
        raise UserError("--kind is state or trace, --annotator is return or hindsight")
    settled, resources = _resources(config, overrides)
    read = read_episodes(traces, include_incorrect)
    episodes = read.found[:limit]
    _tell_problems(read.problems, "not read")
    if not episodes:
        raise UserError(
            "no episode to learn from: give other traces, or --include-incorrect for failures"
        )
    if any(episode.images for episode in episodes):
        from trainers.bank.captions import Captions

        captions = Captions(resources.llm, resources.llm_params.model_dump_json())
        episodes = [captions.caption(episode) for episode in episodes]
        _tell_problems(captions.problems, "without a caption")
    if kind == "trace":
        _tell(build_trace_bank(out, episodes, resources), out)
        return
    judge = None
    if annotator == "hindsight":
        judge = _judge(resources, episodes, concurrency, per_minute)
    params = settled.updater if updater else None
    _tell(build_state_bank(out, episodes, resources, judge, params), out)
    _tell_cost(judge)


@bank_app.command(
    epilog=examples(
        "stategate bank hindsight banks/state runs/traces.sqlite",
        "stategate bank hindsight banks/state runs/traces.sqlite --watch 60 &",
    )
)
def hindsight(
    folder: Annotated[Path, typer.Argument(help="The state bank.")],
    traces: Traces,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first so many.")] = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Model calls at once.")] = 1,
    per_minute: Annotated[float, typer.Option(min=0, help="Model calls a minute; 0: any.")] = 0,
    watch: Annotated[
        float, typer.Option(min=0, help="Look again every so many seconds, until stopped; 0: once.")
    ] = 0,
    config: Config = "webshop",
    overrides: Overrides = None,
) -> None:
    """Replace return-based advice by a model's, while agents go on using the bank."""
    from trainers.bank.build import upgrade, waiting_in
    from trainers.bank.sources import read_episodes

    _, resources = _resources(config, overrides)
    tried: set[str] | None = None
    while True:
        read = read_episodes(traces, include_incorrect=True)
        there = waiting_in(folder)
        todo = [e for e in read.found[:limit] if e.id in there and e.id not in (tried or ())]
        if todo or tried is None:
            _tell_problems(read.problems, "not read")
            judge = _judge(resources, todo, concurrency, per_minute)
            done = upgrade(folder, todo, judge, resources.view)
            told = f"{done.rows} rows of {done.read} episodes have a model's advice now"
            console().print(told, markup=False)
            _tell_problems(done.problems, "left as they were")
            _tell_cost(judge)
        tried = (tried or set()) | {episode.id for episode in todo}
        if not watch:
            return
        time.sleep(watch)


@bank_app.command(
    epilog=examples(
        "stategate bank practice --goals 0-99 --out runs/practice.sqlite",
        "stategate bank practice --goals train --out runs/train.sqlite --set env.data=official",
    )
)
def practice(
    out: Annotated[Path, typer.Option(metavar="FILE", help="Trace database; goes on if there.")],
    goals: Annotated[
        str,
        typer.Option(help="0-99; or of the official data: train (other products), beside (same)."),
    ] = "0-99",
    styles: Annotated[
        str, typer.Option(help="How the rule actor plays, comma-separated.")
    ] = "careful,hasty,picky,no_options,kind_options,kind,slips",
    config: Config = "webshop",
    overrides: Overrides = None,
) -> None:
    """Play goals with the rule actor in several styles, mistakes included, to learn from."""
    from trainers.webshop.practice import practise

    played = practise(config, goals, out, overrides or (), styles.split(","))
    console().print(f"{played} episodes played, in {out}", markup=False, soft_wrap=True)


add_row_commands(bank_app)


def _resources(config: str, overrides: list[str] | None) -> "tuple[Any, Resources]":
    from graph.config import load_config
    from nodes.resources import Resources

    settled = load_config(config, overrides or ())
    return settled, Resources(settled.llm, settled.embedder, env=settled.env)


def _judge(
    resources: "Resources", episodes: list[Any], concurrency: int, per_minute: float
) -> "Hindsight":
    from trainers.bank.hindsight import Hindsight

    params = resources.llm_params
    name = str(getattr(params, "model", params.kind))
    tokens = int(getattr(params, "n_ctx", 16_000)) - 300
    judge = Hindsight(resources.llm, resources.view, name, tokens, concurrency, per_minute)
    tokens_in, tokens_out, cost = judge.estimate(episodes)
    price = "of unknown price" if cost is None else f"${cost:.4f}"
    console().print(
        f"{len(episodes)} calls at most once each: about {tokens_in} tokens in, {tokens_out} out, "
        f"{price}",
        markup=False, soft_wrap=True,
    )  # fmt: skip
    return judge


def _tell(built: "Built", folder: Path) -> None:
    out = console()
    known = f", {built.known} were there already" if built.known else ""
    leaks = (
        f"; {built.leaks} pieces of advice told the answer and were dropped" if built.leaks else ""
    )
    out.print(
        f"{built.rows} rows from {built.read} episodes in {folder}{known}{leaks}",
        markup=False, soft_wrap=True,
    )  # fmt: skip
    _tell_problems(built.problems, "not added")


def _tell_problems(problems: list[str], what: str) -> None:
    out = console(stderr=True)
    for line in problems[:5]:
        out.print(f"{what}: {line}", style="yellow", markup=False, soft_wrap=True)
    if len(problems) > 5:
        out.print(f"… and {len(problems) - 5} more {what}", style="yellow", markup=False)


def _tell_cost(judge: "Hindsight | None") -> None:
    if judge is None:
        return
    cost = judge.cost()
    price = "of unknown price" if cost is None else f"${cost:.4f}"
    used = judge.usage
    console().print(
        f"used: {used.calls} calls, {used.tokens_in} tokens in, {used.tokens_out} out, {price}",
        markup=False, soft_wrap=True,
    )  # fmt: skip
