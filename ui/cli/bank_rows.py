"""``stategate bank show|search|edit|prune|merge|export``: the rows of a bank."""

from pathlib import Path
from typing import Annotated, Any

import typer

from stores.errors import UserError
from ui.cli.output import console, examples, write_json

Folder = Annotated[Path, typer.Argument(metavar="BANK", help="The bank's folder.")]
AsJson = Annotated[bool, typer.Option("--json", help="Write JSON to stdout.")]


def add_row_commands(app: typer.Typer) -> None:
    """Add the commands that look at and tend rows."""
    app.command(epilog=examples("stategate bank show banks/state --limit 5"))(show)
    app.command(
        epilog=examples("stategate bank search banks/state 'Find me a red wool scarf' -k 3")
    )(search)
    app.command(epilog=examples("stategate bank edit banks/state 1f2e3d --q 0"))(edit)
    app.command(
        epilog=examples(
            "stategate bank prune banks/state --keep 50000",
            "stategate bank prune banks/state --min-q 5 --useless --older-than-days 90",
        )
    )(prune)
    app.command(epilog=examples("stategate bank merge banks/a banks/b --out banks/all"))(merge)
    app.command(epilog=examples("stategate bank export banks/state rows.jsonl"))(export)


def show(
    folder: Folder,
    limit: Annotated[int, typer.Option(min=0, help="Rows to show, those of most worth.")] = 5,
    episode: Annotated[str | None, typer.Option(help="Only rows of this episode.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show what a bank holds: numbers, what it was made with, and its rows of most worth."""
    from collections import Counter

    from stores.bank.bank import open_bank

    bank = open_bank(folder)
    rows = bank.rows()
    if episode is not None:
        rows = [row for row in rows if row.data.get("episode") == episode]
    facts: dict[str, Any] = {
        "kind": bank.kind,
        "rows": len(rows),
        "tasks": len({row.task for row in rows}),
        "made_with": bank.makes(),
        "version": bank.meta("version"),
        "annotators": dict(Counter(str(row.data.get("by", "–")) for row in rows)),
        "moves": dict(Counter(str(row.data.get("move", "–")) for row in rows).most_common()),
        "mean_q": sum(row.q for row in rows) / len(rows) if rows else 0.0,
        "used": sum(row.uses for row in rows),
    }
    best = sorted(rows, key=lambda row: (row.n if episode else -row.q, row.n))[:limit]
    if as_json:
        write_json("-", {**facts, "shown": [_plain(row) for row in best]})
        return
    out = console()
    for key, value in facts.items():
        told = f"{value:.2f}" if isinstance(value, float) else value
        if isinstance(told, dict):
            told = ", ".join(f"{name} {count}" for name, count in told.items())
        out.print(f"{key:<11}{told}", markup=False, soft_wrap=True)
    for row in best:
        _print(row)


def search(
    folder: Folder,
    text: Annotated[str, typer.Argument(help="A question, or a whole state as text.")],
    k: Annotated[int, typer.Option("-k", min=1, max=100, help="How many rows.")] = 5,
    config: Annotated[str, typer.Option(help="Preset or YAML file: its embedder.")] = "webshop",
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="SLOT.FIELD=VALUE", help="Repeatable.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Find the rows nearest to a text."""
    from graph.config import load_config
    from nodes.experience.grow import make_of
    from nodes.experience.states import state_text
    from nodes.resources import Resources
    from stores.bank.bank import open_bank
    from stores.bank.state_bank import StateBank
    from stores.bank.trace_bank import TraceBank

    if not text.strip():
        raise UserError("nothing to search for: give a question or a state")
    settled = load_config(config, overrides or ())
    embedder = Resources(settled.llm, settled.embedder).embedder
    kind = open_bank(folder).kind
    if kind == "trace":
        hits = TraceBank(folder, make_of(embedder)).search(embedder.embed([text]), k)
    else:
        is_state = "Question: " in text
        written = text if is_state else state_text(text, [], start="WebShop Search")
        vector = embedder.embed([written])[0]
        hits = StateBank(folder, make_of(embedder)).nearest_text(vector, k)
    if as_json:
        write_json("-", [{"score": hit.score, **_plain(hit.row)} for hit in hits])
        return
    for hit in hits:
        _print(hit.row, hit.score)


def edit(
    folder: Folder,
    row: Annotated[str, typer.Argument(help="The row's id (see show).")],
    q: Annotated[float | None, typer.Option(min=0, max=10, help="Its new worth.")] = None,
    experience: Annotated[str | None, typer.Option(help="Its new advice; '' for none.")] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the row.")] = False,
) -> None:
    """Change the worth or the advice of one row, or remove it."""
    from stores.bank.bank import open_bank

    bank = open_bank(folder)
    if remove:
        bank.remove([bank.row(row).n])
        console().print("1 row removed")
        return
    if q is None and experience is None:
        raise UserError("nothing to change: give --q, --experience or --remove")
    changes = {} if experience is None else {"experience": experience, "by": "edited"}
    _print(bank.change(row, q=q, **changes))


def prune(
    folder: Folder,
    keep: Annotated[int | None, typer.Option(min=0, help="Rows to keep at most.")] = None,
    min_q: Annotated[float | None, typer.Option(help="Remove rows worth less.")] = None,
    older_than_days: Annotated[
        float | None, typer.Option(min=0, help="Remove older rows that never advised.")
    ] = None,
    useless: Annotated[
        bool, typer.Option("--useless", help="Remove advice that was tried and earned nothing.")
    ] = False,
) -> None:
    """Let go of rows by worth, age or uselessness."""
    from nodes.experience.prune import prune as let_go
    from stores.bank.bank import open_bank

    if keep is None and min_q is None and older_than_days is None and not useless:
        raise UserError("nothing to prune by: give --keep, --min-q, --older-than-days or --useless")
    age = None if older_than_days is None else older_than_days * 86400
    bank = open_bank(folder)
    gone = let_go(bank, keep=keep, min_q=min_q, older_than=age, useless=useless)
    console().print(f"{gone} rows removed, {len(bank)} left")


def merge(
    folders: Annotated[list[Path], typer.Argument(metavar="BANKS", help="Banks to put together.")],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="The bank they go to.")],
) -> None:
    """Put banks of one make together; a row that is in several comes once."""
    from stores.bank.bank import merge as put_together
    from stores.bank.bank import open_bank

    sources = [open_bank(folder) for folder in folders]
    added = sum(put_together(source, out) for source in sources)
    console().print(f"{added} new rows in {out}", markup=False, soft_wrap=True)


def export(
    folder: Folder,
    target: Annotated[Path, typer.Argument(help="The JSONL file to write.")],
) -> None:
    """Write all rows, without vectors, as JSON lines."""
    from stores.bank.bank import export_rows, open_bank

    count = export_rows(open_bank(folder), target)
    console().print(f"{count} rows in {target}", markup=False, soft_wrap=True)


def _plain(row: Any) -> dict[str, Any]:
    return {key: value for key, value in vars(row).items() if key != "n"}


def _print(row: Any, score: float | None = None) -> None:
    from rich.text import Text

    out = console()
    data = row.data
    likeness = "" if score is None else f"  likeness {score:.3f}"
    used = f"  used {row.uses}x, earned {row.helped:.2f}" if row.uses else ""
    out.print(Text(f"\n{row.id}  q {row.q:.2f}{likeness}  {row.task}{used}", "bold cyan"))
    out.print(Text(str(data.get("state") or data.get("question") or "")))
    if "plan" in data:
        out.print(Text(" > ".join(data["plan"]), "green"))
    else:
        out.print(Text(f"{data.get('action')}: {data.get('experience') or '(no advice)'}", "green"))
