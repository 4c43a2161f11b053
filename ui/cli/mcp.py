"""``stategate mcp``: memory, corpora and banks for other assistants (Model Context Protocol)."""

import os
import secrets
from typing import Annotated, Any

import typer

from stategate.stores.errors import needs
from stategate.ui.cli.output import opt

EXAMPLES = (
    "stategate mcp --corpus notes/",
    "stategate mcp --http --port 8765 --read-only",
)
_TOKEN = "STATEGATE_MCP_TOKEN"  # noqa: S105 (the name of a variable)


def mcp(
    corpus: Annotated[list[str] | None, opt("A folder or an ingested corpus; repeatable.")] = None,
    bank: Annotated[str | None, opt("A state bank.", metavar="FOLDER")] = None,
    db: Annotated[str | None, opt("The memory: a file or a URL.", metavar="FILE|URL")] = None,
    user: Annotated[str | None, opt("Whose memory; by default yours.")] = None,
    agent: Annotated[str, opt("Which agent's memory.")] = "stategate",
    embedder: Annotated[str, opt("The one that the memory was written with.")] = "minilm",
    read_only: Annotated[bool, opt("Nothing can be remembered.")] = False,
    http: Annotated[bool, opt("On loopback instead of stdio, with a token.")] = False,
    port: Annotated[int, opt("Of --http.", min=1, max=65535)] = 8765,
) -> None:
    """Serve long-term memory, documents and experience to other assistants.

    Over stdio by default: name this command in the assistant's list of servers. The token of --http
    is made anew each time, unless $STATEGATE_MCP_TOKEN holds one.
    """
    from stategate.graph.mcp_server import http_app, mcp_server
    from stategate.graph.memory_tools import corpus_tool, experience_tool, memory_tools
    from stategate.nodes.registry import registry
    from stategate.nodes.retrieval.memory import MemoryPlace
    from stategate.stores.home import this_user

    model: Any = registry().parse("embedder", embedder)
    place = MemoryPlace(url=db, user=user or this_user(), agent=agent)
    tools = memory_tools(place, model, may_write=not read_only)
    corpora = corpus or []
    for number, name in enumerate(corpora, 1):
        own_name = "corpus_search" if len(corpora) == 1 else f"corpus_{number}"
        tools.append(corpus_tool(name, own_name, model))
    if bank is not None:
        tools.append(experience_tool(bank, model))
    server = mcp_server(tools)
    if not http:
        server.run("stdio")
        return
    token = os.environ.get(_TOKEN) or secrets.token_urlsafe(24)
    with needs("mcp"):
        import uvicorn

    typer.echo(f"Stategate is at http://127.0.0.1:{port}/mcp (stop it with Ctrl-C)", err=True)
    typer.echo(f"Authorization: Bearer {token}", err=True)
    uvicorn.run(http_app(server, token), host="127.0.0.1", port=port, log_level="warning")
