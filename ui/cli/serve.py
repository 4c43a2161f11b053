"""``stategate ui``: the app in a browser; ``stategate mcp``: tools for other assistants."""

import os
import socket
import threading
from typing import Any

import typer

from stategate.graph.config import load_config
from stategate.graph.memory_tools import corpus_tool, mcp_server, memory_tools
from stategate.nodes.registry import registry
from stategate.stores.corpus.corpus import open_corpus
from stategate.stores.errors import UserError, user_error_context
from stategate.stores.files import user_path
from stategate.stores.home import this_user
from stategate.stores.settings import Overrides, Settings, option
from stategate.ui.cli.memory import EmbedderKind
from stategate.ui.cli.settings_command import command


class UiSettings(Settings):
    """What the app begins with, and who may connect."""

    config: str = option("ui", "A preset or a YAML file to begin with.")
    overrides: Overrides = ()
    port: int | None = option(None, "Else the first free one from 7860.", ge=1, le=65535)
    host: str = option("127.0.0.1", "Who may connect: this machine only, by default.")
    auth: str | None = option(None, "Who gets in; or $STATEGATE_AUTH.", metavar="USER:PASSWORD")


@command(
    "stategate ui --config webshop",
    "STATEGATE_AUTH=ann:a-long-password stategate ui --host 0.0.0.0",
)
def ui(settings: UiSettings) -> None:
    """Open the app: play, fork and compare, look into the state, the memory and the runs."""
    config = load_config(settings.config, settings.overrides)
    login, host = read_auth(settings.auth), settings.host
    from stategate.ui.app.guard import LOOPBACK

    if host not in LOOPBACK:
        how = "over plain HTTP" if login else "without a password (add --auth user:password)"
        typer.echo(f"warning: {host} lets other machines in, {how}", err=True)
    with user_error_context(f"--host: this machine has no address '{host}'", kinds=OSError):
        socket.getaddrinfo(host, None)
    from stategate.ui.app.web import serve

    typer.echo("starting …", err=True)
    url = serve(config, host=host, port=settings.port, auth=login)
    typer.echo(f"Stategate is at {url} (stop it with Ctrl-C)")
    threading.Event().wait()


def read_auth(flag: str | None) -> tuple[str, str] | None:
    """Read ``user:password``, given or in $STATEGATE_AUTH. Raises ``UserError``."""
    auth = flag or os.environ.get("STATEGATE_AUTH")
    if auth is None:
        return None
    user, colon, password = auth.partition(":")
    if not (colon and user and password):
        raise UserError("write --auth as user:password, with neither of them empty")
    if flag:
        typer.echo("warning: other programs see a password here: set STATEGATE_AUTH", err=True)
    return user, password


class McpSettings(Settings):
    """What is served, and where."""

    db: str | None = option(None, "SQLite file or postgresql:// URL.", metavar="FILE|URL")
    user: str | None = option(None, "Whose memory; by default yours.")
    corpus: tuple[str, ...] = option((), "A folder or an ingested corpus; repeatable.")
    embedder: EmbedderKind = "minilm"
    read_only: bool = option(False, "Nothing can be remembered.")


@command("stategate mcp --corpus notes/", "stategate mcp --read-only")
def mcp(settings: McpSettings) -> None:
    """Serve long-term memory and documents to other assistants.

    Over stdio: name this command in the assistant's list of servers.
    """
    model: Any = registry().parse("embedder", settings.embedder)
    place = {"url": settings.db, "user": settings.user or this_user()}
    tools = memory_tools(model, may_write=not settings.read_only, **place)
    for number, name in enumerate(settings.corpus, 1):
        if not user_path(name).exists():
            open_corpus(name)  # refuses now what is no corpus, not at the first question
        own_name = "corpus_search" if len(settings.corpus) == 1 else f"corpus_{number}"
        tools.append(corpus_tool(name, own_name, model))
    mcp_server(tools).run("stdio")
