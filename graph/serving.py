"""What ``langgraph.json`` names beside the graph: who may ask, whose things are whose, how texts embed.

    STATEGATE_ACCOUNTS=accounts langgraph dev
    client = get_client(url="http://127.0.0.1:2024", headers={"Authorization": "Basic ..."})

A caller is an account of the file that ``STATEGATE_ACCOUNTS`` names (``stategate ui --new-account
ann``), by HTTP's Basic scheme. Without such a file only this machine may ask, and not from a page of
another site. Threads, runs, assistants and crons belong to who made them; store items lie under their
owner's name; long-term memory is the owner's (``graph.owners``). All may use the graph's own assistant.
"""

import asyncio
import base64
import binascii
import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from langgraph_sdk import Auth

from stategate.graph.owners import LOCAL
from stategate.nodes.models.embedders import MiniLM
from stategate.nodes.resources import Resources
from stategate.stores.accounts import checks, read_accounts
from stategate.stores.loopback import named_host, on_loopback

#: The environment variable that names the file of accounts.
ACCOUNTS = "STATEGATE_ACCOUNTS"
auth = Auth()


@auth.authenticate
async def authenticate(headers: Mapping[bytes | str, bytes | str]) -> Auth.types.MinimalUserDict:
    """Return who asks. Raises 401 for anybody else."""
    given = {_text(name).lower(): _text(value) for name, value in headers.items()}
    path = os.environ.get(ACCOUNTS, "").strip()
    if not path:
        return {"identity": _only_here(given)}
    scheme, _, encoded = given.get("authorization", "").partition(" ")
    try:
        user, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        user = password = ""
    is_nobody = not user or user == LOCAL  # the name of who needs no account
    if scheme.lower() != "basic" or is_nobody or not await _is_known(path, user, password):
        raise Auth.exceptions.HTTPException(
            status_code=401, detail="give an account and its password"
        )
    return {"identity": user}


@auth.on
async def own(ctx: Auth.types.AuthContext, value: dict[str, Any]) -> dict[str, str] | bool | None:
    """Give what is made to its maker, and show each what is its own."""
    identity = ctx.user.identity
    if ctx.resource == "store":
        label = identity.replace("%", "%25").replace(".", "%2E")  # labels have no periods
        value["namespace"] = (label, *(value.get("namespace") or ()))
        return None
    if ctx.action in ("create", "create_run", "update"):
        if value.get("metadata") is None:
            value["metadata"] = {}
        value["metadata"]["owner"] = identity  # in place: the server keeps this very mapping
    return {"owner": identity}


async def embed(texts: Sequence[str]) -> list[list[float]]:
    """Return the store's vectors: those of Stategate's own embedder, from its cache."""
    rows = await asyncio.to_thread(_embedder().embed, list(texts))
    return [[float(x) for x in row] for row in rows]


def _text(header: bytes | str) -> str:
    """Return a header's name or value; Aegra hands them over as text."""
    return header if isinstance(header, str) else bytes(header).decode("latin-1")


def _only_here(headers: Mapping[str, str]) -> str:
    host, origin = headers.get("host", ""), headers.get("origin", "")
    name = named_host(host)
    own = f"http://[{name}]" if ":" in name else f"http://{name}"
    is_here = on_loopback(own) and (not origin or on_loopback(origin))
    site = headers.get("sec-fetch-site", "none")
    if not is_here or (site == "cross-site" and not origin):
        raise Auth.exceptions.HTTPException(
            status_code=401,
            detail=f"set {ACCOUNTS} to a file of accounts to be asked from elsewhere",
        )
    return LOCAL


async def _is_known(path: str, user: str, password: str) -> bool:
    """Check once and remember: the hash is made to be slow, and every request brings the password."""
    stamp = f"{path}\n{Path(path).stat().st_mtime_ns}\n{user}\n{password}"
    key = hashlib.sha256(stamp.encode("utf-8", "replace")).hexdigest()
    if key not in _known:
        check: Callable[[str, str], bool] = checks(read_accounts(path))
        if not await asyncio.to_thread(check, user, password):
            return False
        if len(_known) > 10_000:
            _known.clear()
        _known.add(key)
    return True


_known: set[str] = set()


@lru_cache(maxsize=1)
def _embedder() -> Any:
    return Resources(None, MiniLM()).embedder
