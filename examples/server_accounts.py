"""Several people on one ``langgraph dev``: LangGraph's own authentication, by bearer tokens.

    TOKENS="ann=secret-of-ann bob=secret-of-bob" langgraph dev

with ``"auth": {"path": "./examples/server_accounts.py:auth", "disable_studio_auth": true}`` in
``langgraph.json``. Threads, runs and store items are their owner's, and so is long-term memory that
names no user. Nodes name files, so only the server's own config may swap nodes.
"""

import hmac
import os
from typing import Any

from langgraph_sdk import Auth

auth = Auth()
TOKENS = dict(pair.split("=", 1) for pair in os.environ.get("TOKENS", "").split())


@auth.authenticate
async def who_asks(authorization: str | None) -> Auth.types.MinimalUserDict:
    """Return whose token it is. Raises 401 for anybody else's."""
    key = (authorization or "").removeprefix("Bearer ")
    for user, token in TOKENS.items():
        if hmac.compare_digest(key.encode(), token.encode()):
            return {"identity": user}
    raise Auth.exceptions.HTTPException(status_code=401, detail="give your token")


@auth.on
async def own(ctx: Auth.types.AuthContext, value: dict[str, Any]) -> dict[str, str] | None:
    """Give what is made to its maker, and show each what is its own; refuse other nodes."""
    user = ctx.user.identity
    fields = value.get("kwargs") or value
    if fields.get("context") or (
        ctx.resource in ("assistants", "crons") and ctx.action in ("create", "update")
    ):
        raise Auth.exceptions.HTTPException(status_code=403, detail="the nodes are the server's")
    if ctx.resource == "store":
        value["namespace"] = (user, *(value.get("namespace") or ()))
        return None
    if ctx.action in ("create", "create_run", "update"):
        if value.get("metadata") is None:
            value["metadata"] = {}
        value["metadata"]["owner"] = user  # in place: the server keeps this very mapping
    return {"owner": user}
