"""LangChain tools served over the Model Context Protocol, by its official SDK.

Over stdio for a program on this machine that starts it; over HTTP on loopback for others, with a token.
"""

import hmac
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any

from langchain_core.tools import BaseTool, StructuredTool

from stategate.stores.errors import UserError, require_extra

if TYPE_CHECKING:
    from mcp.server import MCPServer

_Scope = MutableMapping[str, Any]
_App = Callable[[_Scope, Any, Any], Awaitable[None]]
_ABOUT = "Memory, documents and experience that outlive a conversation."


def mcp_server(tools: Sequence[BaseTool]) -> "MCPServer[Any]":
    """Return a server of ``tools``. Raises ``MissingExtra`` without the SDK."""
    with require_extra("mcp"):
        from mcp.server import MCPServer

    server: MCPServer[Any] = MCPServer("stategate", instructions=_ABOUT, log_level="WARNING")
    for tool in tools:
        if not isinstance(tool, StructuredTool) or tool.func is None:
            raise UserError(f"tool '{tool.name}' is no plain function, and cannot be served")
        server.add_tool(
            tool.func, name=tool.name, description=tool.description, structured_output=False
        )
    return server


def http_app(server: "MCPServer[Any]", token: str) -> _App:
    """Return the ASGI app of ``server`` at ``/mcp``; calls without ``Bearer token`` get a 401."""
    app: Any = server.streamable_http_app(host="127.0.0.1")

    async def guarded(scope: _Scope, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and not _is_known(scope, token):
            headers = [(b"www-authenticate", b"Bearer"), (b"content-type", b"text/plain")]
            await send({"type": "http.response.start", "status": 401, "headers": headers})
            await send({"type": "http.response.body", "body": b"give the token that was printed\n"})
            return
        await app(scope, receive, send)

    return guarded


def _is_known(scope: _Scope, token: str) -> bool:
    given = dict(scope["headers"]).get(b"authorization", b"")
    return hmac.compare_digest(given, f"Bearer {token}".encode())
