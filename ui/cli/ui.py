"""``stategate ui``: the app in a browser."""

import threading
from pathlib import Path
from typing import Annotated, Any

import typer

from stategate.stores.errors import UserError, needs
from stategate.ui.cli.output import Overrides, opt

EXAMPLES = (
    "stategate ui --config webshop",
    "stategate ui --new-account ann >> accounts",
    "stategate ui --host 0.0.0.0 --auth accounts",
)
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def ui(
    config: Annotated[str, opt("A preset or a YAML file to begin with.")] = "ui",
    overrides: Overrides = None,
    port: Annotated[int | None, opt("Else the first free one from 7860.", min=1, max=65535)] = None,
    host: Annotated[str, opt("Who may connect: this machine only, by default.")] = "127.0.0.1",
    auth: Annotated[
        str | None,
        opt(
            "Ask who it is: a file of accounts (--new-account), or one.",
            metavar="FILE|USER:PASSWORD",
        ),
    ] = None,
    new_account: Annotated[
        str | None, opt("Print a line for the accounts file, and end.", metavar="USER")
    ] = None,
    messages: Annotated[
        str, opt("An agent's thread to look into.", metavar="FILE|DATABASE#THREAD")
    ] = "",
) -> None:
    """Open the app: play, fork and compare, look into the state, the memory and the runs."""
    from stategate.graph.config import load_config

    if new_account is not None:
        typer.echo(account_line(new_account))
        return
    settled = load_config(config, overrides or ())
    login = parse_auth(auth)
    if messages:
        from stategate.graph.exported import read_messages

        read_messages(messages)  # a wrong file is told here, not in the browser
    if host not in _LOOPBACK:
        how = "over plain HTTP" if login else "without a password (add --auth user:password)"
        typer.echo(f"warning: {host} lets other machines in, {how}", err=True)
    with needs("ui"):
        from stategate.ui.app.web import serve

    typer.echo("starting …", err=True)
    url = serve(settled, host=host, port=port, auth=login, block=False, messages=messages)
    typer.echo(f"Stategate is at {url} (stop it with Ctrl-C)")
    wait()


def wait() -> None:
    """Wait until interrupted."""
    threading.Event().wait()


def account_line(user: str) -> str:
    """Ask for a password and return the line that keeps its hash. Raises ``UserError``."""
    from stategate.stores.accounts import hashed

    if not user or ":" in user:
        raise UserError("an account's name is not empty and holds no ':'")
    password = typer.prompt("password", hide_input=True, confirmation_prompt=True, err=True)
    if len(password) < 8:
        raise UserError("a password has eight characters or more")
    return hashed(user, password)


def parse_auth(auth: str | None) -> Any:
    """Read a file of accounts, or ``user:password``. Raises ``UserError``."""
    if auth is None:
        return None
    if Path(auth).expanduser().is_file():
        from stategate.stores.accounts import checks, read_accounts

        return checks(read_accounts(auth))
    user, colon, password = auth.partition(":")
    if not (colon and user and password):
        raise UserError("write --auth as user:password, with neither of them empty")
    line = (
        "other programs of this machine see a password on the command line: name a file of accounts"
    )
    typer.echo(f"warning: {line}", err=True)
    return user, password
