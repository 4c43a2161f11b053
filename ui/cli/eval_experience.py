"""``stategate eval experience``: the same goals with and without advice from a bank."""

from typing import Annotated

import typer

from ui.cli.output import examples

EXPERIENCE_EXAMPLES = examples(
    "stategate eval experience --state-bank banks/state --trace-bank banks/trace --out runs/e",
    "stategate eval experience --state-bank banks/s --only state,gated --goals 0-49 --out runs/f",
)


def experience(
    out: Annotated[
        str, typer.Option(metavar="DIR", help="Run directory; goes on if it is there already.")
    ],
    state_bank: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="From other products than the goals'.")
    ] = None,
    trace_bank: Annotated[str | None, typer.Option(metavar="FOLDER", help="Likewise.")] = None,
    same_state_bank: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="From the goals' own products.")
    ] = None,
    same_trace_bank: Annotated[str | None, typer.Option(metavar="FOLDER", help="Likewise.")] = None,
    goals: Annotated[str, typer.Option(help="Such as 0-499 or 3,5,8.")] = "0-299",
    inner: Annotated[str, typer.Option(help="Inner contexts, comma-separated.")] = "full",
    only: Annotated[str, typer.Option(help="Agents, such as state,gated; all if empty.")] = "",
    config: Annotated[str, typer.Option(help="A preset or a YAML file.")] = "webshop-experience",
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="SLOT.FIELD=VALUE", help="For every agent; repeatable."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the paired tests.")] = 0,
) -> None:
    """Compare no advice, state, gated, trace, random and shuffled-worth advice on the same goals."""
    import json
    import sys
    from pathlib import Path

    from evals.experience import run_experience
    from evals.live import parse_goals
    from ui.cli.episodes import show_summary
    from ui.cli.output import console

    banks = {"": (state_bank, trace_bank)}
    if same_state_bank or same_trace_bank:
        banks["same-products"] = (same_state_bank, same_trace_bank)
    summary = run_experience(
        config,
        parse_goals(goals),
        out,
        banks,
        inner.split(","),
        overrides or (),
        [name for name in only.split(",") if name],
        seed,
        ["stategate", *sys.argv[1:]],
    )
    failed = Path(out) / "errors.jsonl"
    lines = failed.read_text(encoding="utf-8").splitlines() if failed.exists() else []
    show_summary(console(), summary, [json.loads(line) for line in lines], out)
