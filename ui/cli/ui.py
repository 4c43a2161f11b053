"""``stategate ui``: the app in a browser."""

import threading
from typing import Annotated

import typer

from stores.errors import UserError, needs
from ui.cli.output import Overrides, opt

EXAMPLES = ("stategate ui --config webshop --host 0.0.0.0 --auth me:a-long-password",)
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def ui(
    config: Annotated[str, opt("A preset or a YAML file to begin with.")] = "ui",
    overrides: Overrides = None,
    port: Annotated[int | None, opt("Else the first free one from 7860.", min=1, max=65535)] = None,
    host: Annotated[str, opt("Who may connect: this machine only, by default.")] = "127.0.0.1",
    auth: Annotated[str | None, opt("Ask who it is.", metavar="USER:PASSWORD")] = None,
    messages: Annotated[
        str, opt("An agent's thread to look into.", metavar="FILE|DATABASE#THREAD")
    ] = "",
) -> None:
    """Open the app: play, fork and compare, look into the state, the memory and the runs."""
    from graph.config import load_config

    settled = load_config(config, overrides or ())
    login = parse_auth(auth)
    if messages:
        from graph.exported import read_messages

        read_messages(messages)  # a wrong file is told here, not in the browser
    if host not in _LOOPBACK:
        how = "over plain HTTP" if login else "without a password (add --auth user:password)"
        typer.echo(f"warning: {host} lets other machines in, {how}", err=True)
    with needs("ui"):
        from ui.app.web import serve

    typer.echo("starting …", err=True)
    url = serve(settled, host=host, port=port, auth=login, block=False, messages=messages)
    typer.echo(f"Stategate is at {url} (stop it with Ctrl-C)")
    wait()


def wait() -> None:
    """Wait until interrupted."""
    threading.Event().wait()


def parse_auth(auth: str | None) -> tuple[str, str] | None:
    """Read ``user:password``. Raises ``UserError``."""
    if auth is None:
        return None
    user, colon, password = auth.partition(":")
    if not (colon and user and password):
        raise UserError("write --auth as user:password, with neither of them empty")
    return user, password
