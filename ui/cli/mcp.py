"""``stategate mcp``: memory, corpora and banks for other assistants (Model Context Protocol)."""

import os
import secrets
from typing import Any

import typer

from stategate.stores.errors import require_extra
from stategate.stores.settings import option
from stategate.ui.cli.memory import EmbedderKind, MemoryOf
from stategate.ui.cli.settings_command import command, single

app = single()
_TOKEN = "STATEGATE_MCP_TOKEN"  # noqa: S105 (the name of a variable)


class McpSettings(MemoryOf):
    """What is served, and where."""

    corpus: tuple[str, ...] = option((), "A folder or an ingested corpus; repeatable.")
    bank: str | None = option(None, "A state bank.", metavar="FOLDER")
    embedder: EmbedderKind = "minilm"
    read_only: bool = option(False, "Nothing can be remembered.")
    http: bool = option(False, "On loopback instead of stdio, with a token.")
    port: int = option(8765, "Of --http.", ge=1, le=65535)


@command(app, "stategate mcp --corpus notes/", "stategate mcp --http --port 8765 --read-only")
def mcp(settings: McpSettings) -> None:
    """Serve long-term memory, documents and experience to other assistants.

    Over stdio by default: name this command in the assistant's list of servers. The token of --http
    is made anew each time, unless $STATEGATE_MCP_TOKEN holds one.
    """
    from stategate.graph.mcp_server import http_app, mcp_server
    from stategate.graph.memory_tools import corpus_tool, experience_tool, memory_tools
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
    app_ = http_app(server, token)
    uvicorn.run(app_, host="127.0.0.1", port=settings.port, log_level="warning")
