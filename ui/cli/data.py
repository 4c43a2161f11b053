"""``stategate data``: fetch the files that worlds read."""

from pathlib import Path
from typing import Annotated

import typer

from ui.cli.output import console, examples

_EXAMPLES = examples(
    "stategate data webshop",
    "stategate data webshop --from ~/webshop-files",
    "stategate run webshop --goal 3 --set env.data=official",
)
data_app = typer.Typer(epilog=_EXAMPLES)


@data_app.callback(invoke_without_command=True)
def data(context: typer.Context) -> None:
    """Fetch the data that worlds read."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@data_app.command(epilog=_EXAMPLES)
def webshop(
    source: Annotated[
        Path | None,
        typer.Option("--from", metavar="FOLDER", help="Copy them from here, download nothing."),
    ] = None,
    target: Annotated[
        Path | None,
        typer.Option("--to", metavar="FOLDER", help="Keep them here, not where env.data=official."),
    ] = None,
) -> None:
    """Fetch WebShop's official data, checked by SHA-256, from their publisher."""
    from rich.table import Table

    from envs.webshop.data import fetch
    from stores.home import home

    folder = target.expanduser() if target else home() / "data" / "webshop"
    records = fetch(folder, source)
    out = console()
    table = Table(box=None, pad_edge=False)
    table.add_column("file", style="bold")
    table.add_column("MB", justify="right")
    table.add_column("SHA-256", style="dim")
    table.add_column("")
    for record in records:
        official = "[green]official[/green]" if record.official else "[yellow]differs[/yellow]"
        table.add_row(record.name, f"{record.bytes / 1e6:.1f}", record.sha256[:12], official)
    out.print(table)
    value = f"'{folder}'" if target else "official"
    out.print(f"in {folder}: use them with [bold]--set env.data={value}[/bold]", soft_wrap=True)
