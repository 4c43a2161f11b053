"""URLs: which point at this machine, and where one is written down.

A proxy named in the environment must not see what is meant for this machine.
"""

import ipaddress
import os
import re
from contextlib import suppress
from urllib.parse import urlsplit

from stategate.stores.errors import UserError

_VARIABLE = re.compile(r"\$\{?(STATEGATE_[A-Z_]+)\}?")

_HOST = re.compile(r"(?:\[(?P<six>[0-9a-f:.]+)\]|(?P<name>[\w.-]+))(?::\d{0,5})?", re.IGNORECASE)


def named_host(header: str) -> str:
    """Return the name or address that a Host header says, without its port; "" where it is none."""
    match = _HOST.fullmatch(header)
    return (match["six"] or match["name"]).lower().rstrip(".") if match else ""


def is_web(place: str) -> bool:
    """Say whether ``place`` is an address on the web, and no file or folder."""
    return place.lower().startswith(("http://", "https://"))


def on_loopback(url: str) -> bool:
    """Say whether ``url`` points at this machine."""
    with suppress(ValueError):
        host = urlsplit(url).hostname or ""
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    return False


def from_environment(url: str) -> str:
    """Return ``url``, or what the variable holds that it names: ``$STATEGATE_POSTGRES``.

    So a config, and all that is written down of it, names a database without its password. Raises
    ``UserError`` where the variable is not set, or the password holds an ``@`` as it is: drivers take
    what follows it for the host, and tell that. Only names that begin with STATEGATE_ are read.
    """
    if named := _VARIABLE.fullmatch(url.strip()):
        url = os.environ.get(named[1], "").strip()
        if not url:
            raise UserError(f"the environment variable {named[1]} is not set: set it to a URL")
    if url.partition("://")[2].partition("/")[0].count("@") > 1:
        raise UserError(f"'{url}' has an '@' in its password: write that one as %40")
    return url
