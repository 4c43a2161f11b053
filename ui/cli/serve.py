"""``stategate ui``: the app in a browser; ``stategate mcp``: tools for other assistants."""

import hashlib
import hmac
import os
import secrets
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import typer

from stategate.stores.errors import UserError, require_extra, user_error_context
from stategate.stores.settings import Overrides, Settings, option
from stategate.ui.cli.memory import EmbedderKind, MemoryOf
from stategate.ui.cli.settings_command import command, single

ui_app, mcp_app = single(), single()
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_TOKEN = "STATEGATE_MCP_TOKEN"  # noqa: S105 (the name of a variable)
_SEEN = "a password on the command line is seen by other programs: name a file of accounts"


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
    ui_app,
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
        return checks(read_accounts(auth))
    user, colon, password = auth.partition(":")
    if not (colon and user and password):
        raise UserError("write --auth as user:password, with neither of them empty")
    typer.echo(f"warning: {_SEEN}", err=True)
    return user, password


def hashed(user: str, password: str) -> str:
    """Return a line of an accounts file: the user, and scrypt of the password with its salt."""
    salt = secrets.token_bytes(16)
    return f"{user}:scrypt${salt.hex()}${_scrypt(password, salt).hex()}"


def read_accounts(path: str | Path) -> dict[str, str]:
    """Return the hashes by user of an accounts file. Raises ``UserError``."""
    with user_error_context(f"cannot read the accounts in '{path}'"):
        lines = Path(path).expanduser().read_text(encoding="utf-8").splitlines()
    accounts: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        user, _, kept = line.strip().partition(":")
        if not line.strip() or line.startswith("#"):
            continue
        if not user or kept.count("$") != 2 or not kept.startswith("scrypt$"):
            raise UserError(
                f"'{path}' line {number} is no account: stategate ui --new-account NAME"
            )
        accounts[user] = kept
    if not accounts:
        raise UserError(f"'{path}' holds no account: stategate ui --new-account NAME >> {path}")
    return accounts


def checks(accounts: Mapping[str, str]) -> Callable[[str, str], bool]:
    """Return what says whether a user and a password are one of ``accounts``, in equal time."""

    def check(user: str, password: str) -> bool:
        _, salt, expected = accounts.get(user, f"scrypt${'00' * 16}${'00' * 32}").split("$")
        found = _scrypt(password, bytes.fromhex(salt)).hex()
        return hmac.compare_digest(found, expected) and user in accounts

    return check


def _scrypt(password: str, salt: bytes) -> bytes:
    return hashlib.scrypt(
        password.encode("utf-8", "replace"), salt=salt, n=1 << 14, r=8, p=1, dklen=32
    )


class McpSettings(MemoryOf):
    """What is served, and where."""

    corpus: tuple[str, ...] = option((), "A folder or an ingested corpus; repeatable.")
    bank: str | None = option(None, "A state bank.", metavar="FOLDER")
    embedder: EmbedderKind = "minilm"
    read_only: bool = option(False, "Nothing can be remembered.")
    http: bool = option(False, "On loopback instead of stdio, with a token.")
    port: int = option(8765, "Of --http.", ge=1, le=65535)


@command(mcp_app, "stategate mcp --corpus notes/", "stategate mcp --http --port 8765 --read-only")
def mcp(settings: McpSettings) -> None:
    """Serve long-term memory, documents and experience to other assistants.

    Over stdio by default: name this command in the assistant's list of servers. The token of --http
    is made anew each time, unless $STATEGATE_MCP_TOKEN holds one.
    """
    from stategate.graph.memory_tools import (
        corpus_tool,
        experience_tool,
        http_app,
        mcp_server,
        memory_tools,
    )
    from stategate.nodes.registry import registry

    model: Any = registry().parse("embedder", settings.embedder)
    tools = memory_tools(settings.place(), model, may_write=not settings.read_only)
    for number, name in enumerate(settings.corpus, 1):
        own_name = "corpus_search" if len(settings.corpus) == 1 else f"corpus_{number}"
        tools.append(corpus_tool(name, own_name, model))
    if settings.bank is not None:
        tools.append(experience_tool(settings.bank, model))
    server = mcp_server(tools)
    if not settings.http:
        server.run("stdio")
        return
    token = os.environ.get(_TOKEN) or secrets.token_urlsafe(24)
    with require_extra("mcp"):
        import uvicorn

    typer.echo(f"Stategate is at http://127.0.0.1:{settings.port}/mcp (Ctrl-C stops it)", err=True)
    typer.echo(f"Authorization: Bearer {token}", err=True)
    uvicorn.run(http_app(server, token), host="127.0.0.1", port=settings.port, log_level="warning")
