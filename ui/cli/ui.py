"""``stategate ui``: the app in a browser."""

import threading
from pathlib import Path
from typing import Any

import typer

from stategate.stores.errors import UserError, require_extra
from stategate.stores.settings import Overrides, Settings, option
from stategate.ui.cli.settings_command import command, single

app = single()
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


class UiSettings(Settings):
    """What the app begins with, and who may connect."""

    config: str = option("ui", "A preset or a YAML file to begin with.")
    overrides: Overrides = ()
    port: int | None = option(None, "Else the first free one from 7860.", ge=1, le=65535)
    host: str = option("127.0.0.1", "Who may connect: this machine only, by default.")
    auth: str | None = option(
        None,
        "Ask who it is: a file of accounts (--new-account), or one.",
        metavar="FILE|USER:PASSWORD",
    )
    new_account: str | None = option(
        None, "Print a line for the accounts file, and end.", metavar="USER"
    )
    messages: str = option("", "An agent's thread to look into.", metavar="FILE|DATABASE#THREAD")


@command(
    app,
    "stategate ui --config webshop",
    "stategate ui --new-account ann >> accounts",
    "stategate ui --host 0.0.0.0 --auth accounts",
)
def ui(settings: UiSettings) -> None:
    """Open the app: play, fork and compare, look into the state, the memory and the runs."""
    from stategate.graph.config import load_config

    if settings.new_account is not None:
        typer.echo(account_line(settings.new_account))
        return
    config = load_config(settings.config, settings.overrides)
    login, host, messages = parse_auth(settings.auth), settings.host, settings.messages
    if messages:
        from stategate.graph.exported import read_messages

        read_messages(messages)  # a wrong file is told here, not in the browser
    if host not in _LOOPBACK:
        how = "over plain HTTP" if login else "without a password (add --auth user:password)"
        typer.echo(f"warning: {host} lets other machines in, {how}", err=True)
    with require_extra("ui"):
        from stategate.ui.app.web import serve

    typer.echo("starting …", err=True)
    url = serve(config, host=host, port=settings.port, auth=login, block=False, messages=messages)
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
