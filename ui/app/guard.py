"""Who may ask the app what: hosts, origins, browsers, accounts, folders.

A page of another site can send requests to this machine (and, by DNS rebinding, read the answers). So a
request must name a host that the app is served under, and come from a page of that host. Every browser
has a name of its own in a cookie that no script reads; what is made in the app belongs to the account,
or to the browser where there are no accounts.
"""

import contextlib
import hashlib
import ipaddress
import os
import re
import secrets
import socket
import tempfile
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import Any

from stategate.graph.config import PLACES
from stategate.stores.errors import UserError
from stategate.stores.loopback import named_host

COOKIE = "stategate-browser"
#: Beyond this machine's names: ``STATEGATE_HOSTS=lab.example.org``; folders: ``STATEGATE_ROOTS=/data``.
HOSTS, ROOTS = "STATEGATE_HOSTS", "STATEGATE_ROOTS"
_LOOPBACK = frozenset(("127.0.0.1", "localhost", "::1"))
_OWN = "web-"
_URL = re.compile(r"(?:https?|postgres(?:ql)?)://")
Scope = MutableMapping[str, Any]


@dataclass
class Bounds:
    """What this server lets in: ``is_local`` if only this machine can connect."""

    is_local: bool = True
    hosts: frozenset[str] = field(default_factory=frozenset)

    def knows(self, host: str) -> bool:
        """Say whether ``host`` (a Host header) is a name that this app is served under."""
        name = named_host(host)
        if name in _LOOPBACK or name in self.hosts:
            return True
        if self.is_local:
            return False
        with contextlib.suppress(ValueError):  # an address cannot be rebound
            return bool(ipaddress.ip_address(name))
        return name == socket.gethostname().lower()

    def require_inside(self, path: str | Path) -> Path:
        """Return ``path`` where the app may read and write. Raises ``UserError`` anywhere else."""
        real = Path(path).expanduser().resolve()
        if not any(real.is_relative_to(root) for root in self.roots()):
            raise UserError(f"'{path}' is outside of this app's folders: set {ROOTS} to allow it")
        return real

    def roots(self) -> list[Path]:
        """Return the folders that browsers may name places in."""
        from stategate.stores.home import cache, home

        named = [Path(part) for part in os.environ.get(ROOTS, "").split(os.pathsep) if part]
        own = [home(), cache(), Path("runs"), Path("banks"), Path(__file__).resolve().parents[2]]
        mine = [Path(), Path.home(), Path(tempfile.gettempdir())] if self.is_local else []
        return [root.expanduser().resolve() for root in (*named, *own, *mine)]

    def require_config(self, values: Any, key: str = "") -> None:
        """Check every place that a config from a browser names. Raises ``UserError``."""
        if isinstance(values, Mapping):
            for name, value in values.items():
                self.require_config(value, str(name))
        elif isinstance(values, list | tuple):
            for value in values:
                self.require_config(value, key)
        elif isinstance(values, str) and key in PLACES:
            place = values.removeprefix("sqlite:///")
            is_url = _URL.match(place) and ".." not in place.split("/")
            if ("/" in place or place.startswith(("~", "."))) and not is_url:
                self.require_inside(place)


#: The bounds of the server in this process.
bounds = Bounds()


def bound_to(host: str) -> Bounds:
    """Set the bounds of a server that listens on ``host``."""
    named = (name.strip().lower() for name in os.environ.get(HOSTS, "").split(","))
    bounds.is_local = host in _LOOPBACK
    bounds.hosts = frozenset(name for name in (*named, host.lower()) if name and name != "0.0.0.0")  # noqa: S104
    return bounds


class Guard:
    """Refuses requests of other hosts and other sites' pages; names each browser."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Any, send: Callable[[Any], Any]) -> None:
        """Pass the request on, or answer 403."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        problem = refusal(headers, scope.get("method", "GET"))
        if problem:
            await _refuse(scope, send, problem)
            return
        browser = cookie_of(headers.get("cookie", ""))
        fresh = "" if browser else secrets.token_urlsafe(24)
        if fresh:  # this very request is that browser's, too
            own = f"{COOKIE}={fresh}".encode()
            kept = [(n, v) for n, v in scope["headers"] if n != b"cookie"]
            old = headers.get("cookie", "").encode("latin-1")
            scope["headers"] = [*kept, (b"cookie", b"; ".join(part for part in (old, own) if part))]

        async def send_named(message: MutableMapping[str, Any]) -> None:
            if fresh and message["type"] == "http.response.start":
                cookie = f"{COOKIE}={fresh}; Path=/; HttpOnly; SameSite=Strict; Max-Age=31536000"
                message["headers"] = [*message.get("headers", ()), (b"set-cookie", cookie.encode())]
            await send(message)

        await self._app(scope, receive, send_named)


def refusal(headers: Mapping[str, str], method: str) -> str:
    """Say why a request is refused, "" where it is not."""
    host = headers.get("host", "")
    if not bounds.knows(host):
        return f"this app is not served as '{host[:80]}': set {HOSTS} to allow that name"
    origin = headers.get("origin", "")
    if origin and origin.lower().partition("://")[2] != host.lower():
        return "a page of another site may not ask this"
    site = headers.get("sec-fetch-site", "same-origin")
    is_visit = method == "GET" and headers.get("sec-fetch-mode", "navigate") == "navigate"
    if site not in ("same-origin", "none") and not is_visit:
        return "a page of another site may not ask this"
    return ""


async def _refuse(scope: Scope, send: Callable[[Any], Any], problem: str) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008})
        return
    kind = [(b"content-type", b"text/plain; charset=utf-8")]
    await send({"type": "http.response.start", "status": 403, "headers": kind})
    await send({"type": "http.response.body", "body": problem.encode()})


def cookie_of(header: str) -> str:
    """Return the browser's name from a Cookie header, "" if it has none."""
    try:
        found = SimpleCookie(header).get(COOKIE)
    except CookieError:
        return ""
    return found.value if found is not None and len(found.value) >= 16 else ""


def owner_of(request: Any) -> str:
    """Return whose a request is: a short hash of the account, else of the browser; "" of neither."""
    if request is None:
        return ""
    if name := getattr(request, "username", None):
        return _digest(f"account {name}")
    try:
        header = dict(request.headers).get("cookie", "")
    except (AttributeError, TypeError, ValueError):
        return ""
    browser = cookie_of(header)
    return _digest(f"browser {browser}") if browser else ""


def owned(owner: str, name: str) -> str:
    """Return the name under which ``owner`` keeps what it calls ``name``."""
    if not owner or name.startswith(f"{_OWN}{owner}-"):
        return name
    return f"{_OWN}{owner}-{name}"


def is_seen(owner: str, name: str) -> bool:
    """Say whether ``owner`` may know of ``name``: its own; here also what no browser made."""
    if name.startswith(_OWN):
        return bool(owner) and name.startswith(f"{_OWN}{owner}-")
    return bounds.is_local


def apart(owner: str, name: str | None) -> str | None:
    """Return ``name`` where ``owner`` may know of it, else what it keeps under that name itself."""
    return name if name is None or is_seen(owner, name) else owned(owner, name)


def require_seen(owner: str, name: str) -> str:
    """Return ``name``. Raises ``UserError`` where it is another's."""
    if not is_seen(owner, name):
        raise UserError(f"there is no '{name[:60]}' of yours here")
    return name


def seen(owner: str, names: Iterable[str]) -> list[str]:
    """Return those of ``names`` that ``owner`` may know of."""
    return [name for name in names if is_seen(owner, name)]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:12]
