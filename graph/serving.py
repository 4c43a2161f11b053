"""The graph and the authentication that ``langgraph.json`` names.

    langgraph dev
    client = get_client(url="http://127.0.0.1:2024")

Only this machine may ask, and not from a page of another site: whoever may ask is the person whose home
it is, and can swap any node for one of theirs. For several people set LangGraph's own authentication in
``langgraph.json``, as ``examples/server_accounts.py`` shows.
"""

import os
from collections.abc import Mapping

from langgraph_sdk import Auth

from stategate.graph.build import build_graph
from stategate.stores.http import named_host, on_loopback

#: Without a checkpointer: `langgraph dev` and LangGraph Platform bring theirs.
graph = build_graph(os.environ.get("STATEGATE_CONFIG", "webshop"), checkpointer=False)
auth = Auth()


@auth.authenticate
async def authenticate(headers: Mapping[bytes | str, bytes | str]) -> Auth.types.MinimalUserDict:
    """Return this machine's user. Raises 401 for a request from elsewhere."""
    by_name = {_text(name).lower(): _text(value) for name, value in headers.items()}
    name, origin = named_host(by_name.get("host", "")), by_name.get("origin", "")
    host_url = f"http://[{name}]" if ":" in name else f"http://{name}"
    is_local = on_loopback(host_url) and (not origin or on_loopback(origin))
    is_cross_site = by_name.get("sec-fetch-site") == "cross-site" and not origin
    if not is_local or is_cross_site:
        detail = "only this machine may ask: see examples/server_accounts.py"
        raise Auth.exceptions.HTTPException(status_code=401, detail=detail)
    # No identity of its own: long-term memory is the call's `user_id`'s, else the thread's.
    return {"identity": ""}


def _text(header: bytes | str) -> str:
    """Return a header's name or value; Aegra hands them over as text."""
    return header if isinstance(header, str) else bytes(header).decode("latin-1")
