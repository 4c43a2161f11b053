"""The door of the app: which requests are let in, and which places a browser may name.

A page of another site can send requests to this machine and, by DNS rebinding, read the answers. So a
request must name a host that the app is served under, and come from a page of that host. One home is
one person's; whoever else is let in (``--auth``, another host) names no place outside of it.
"""

import contextlib
import ipaddress
import os
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stategate.graph.config import PLACES
from stategate.stores.errors import UserError
from stategate.stores.home import cache, home
from stategate.stores.http import named_host

#: Beyond this machine's names: ``STATEGATE_HOSTS=lab.example.org``; folders: ``STATEGATE_ROOTS=/data``.
HOSTS, ROOTS = "STATEGATE_HOSTS", "STATEGATE_ROOTS"
LOOPBACK = frozenset(("127.0.0.1", "localhost", "::1"))
#: The run directories and the recorded threads that ship, which anybody may read.
PUBLISHED = Path(__file__).resolve().parents[2] / "docs" / "results"
MADE_UP = Path(__file__).resolve().parents[2] / "trainers" / "data" / "made-up.jsonl.gz"
#: The browser itself refuses to fetch anything from elsewhere, whatever a page or a model says.
CONTENT_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; "
    "connect-src 'self'; worker-src 'self' blob:; frame-ancestors 'self'; form-action 'self'"
)


@dataclass
class Bounds:
    """What the server of this process lets in.

    ``is_local`` says that only the person at this machine uses it, ``is_open`` that other machines
    can connect. ``named`` holds the places that the config of the start names.
    """

    is_local: bool = True
    is_open: bool = False
    hosts: frozenset[str] = LOOPBACK
    named: frozenset[str] = frozenset()

    def knows(self, host: str) -> bool:
        """Say whether ``host`` (a Host header) is a name that this app is served under."""
        name = named_host(host)
        if self.is_open:
            with contextlib.suppress(ValueError):  # an address cannot be rebound
                return bool(ipaddress.ip_address(name))
        return name in self.hosts

    def require_place(self, place: str) -> str:
        """Return ``place``, which a browser names. Raises ``UserError`` where it may not.

        A place is a file, a folder, a database's URL, or a name of something in the home. A thread or
        a store inside it stands behind ``#``.
        """
        where = place.partition("#")[0].removeprefix("sqlite:///")
        is_path = "/" in where or "\\" in where or where.startswith(("~", ".", "$"))
        is_named = place in self.named or where in self.named
        if self.is_local or is_named or not where or not (is_path or Path(where).exists()):
            return place
        real = Path(os.path.expandvars(where)).expanduser().resolve()
        named = [Path(part) for part in os.environ.get(ROOTS, "").split(os.pathsep) if part]
        roots = [*named, home(), cache(), Path("runs"), Path("banks"), PUBLISHED, MADE_UP]
        inside = (real.is_relative_to(root.expanduser().resolve()) for root in roots)
        if "://" in where or not any(inside):
            raise UserError(
                f"'{place[:200]}' is outside of this app's folders: set {ROOTS} to allow it"
            )
        return place

    def require_config(self, values: object) -> None:
        """Check every place that the plain values of a config name. Raises ``UserError``."""
        for place in places_in(values):
            self.require_place(place)


#: The bounds of the server in this process.
bounds = Bounds()


def bind(host: str, *, has_accounts: bool = False, config: object = None) -> None:
    """Set the bounds of a server that listens on ``host`` and starts as ``config`` (plain values)."""
    hosts = {name.strip().lower() for name in os.environ.get(HOSTS, "").split(",")} - {""}
    bounds.is_open = host not in LOOPBACK
    bounds.is_local = not (bounds.is_open or has_accounts or hosts)
    own = {host.lower(), socket.gethostname().lower()} if bounds.is_open else set()
    bounds.hosts = frozenset({*LOOPBACK, *hosts, *own})
    bounds.named = frozenset(places_in(config))


def places_in(values: object, key: str = "") -> Iterator[str]:
    """Yield every place that the plain values of a config name."""
    if isinstance(values, Mapping):
        for name, value in values.items():
            yield from places_in(value, str(name))
    elif isinstance(values, list | tuple):
        for value in values:
            yield from places_in(value, key)
    elif isinstance(values, str) and key in PLACES and key != "base_url":
        yield values


def guard(app: ASGIApp) -> ASGIApp:
    """Return ``app`` without requests of other hosts and other sites' pages, with a content policy."""

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_policy(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["content-security-policy"] = CONTENT_POLICY
                headers["referrer-policy"] = "no-referrer"
            await send(message)

        is_asked = scope["type"] in ("http", "websocket")
        if is_asked and (problem := refusal(Headers(scope=scope), scope.get("method", "GET"))):
            await PlainTextResponse(problem, 403)(scope, receive, send)
        else:
            await app(scope, receive, send_with_policy)

    return guarded


def refusal(headers: Mapping[str, str], method: str) -> str:
    """Return why a request is refused, "" where it is not."""
    host = headers.get("host", "")
    if not bounds.knows(host):
        return f"this app is not served as '{host[:80]}': set {HOSTS} to allow that name"
    origin = headers.get("origin", "")
    site = headers.get("sec-fetch-site", "same-origin")
    is_visit = method == "GET" and headers.get("sec-fetch-mode", "navigate") == "navigate"
    is_own = not origin or origin.lower().partition("://")[2] == host.lower()
    if not is_own or (site not in ("same-origin", "none") and not is_visit):
        return "a page of another site may not ask this"
    return ""
