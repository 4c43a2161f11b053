"""Which URLs point at this machine: a proxy named in the environment must not see those."""

import ipaddress
from urllib.parse import urlsplit


def on_loopback(url: str) -> bool:
    """Say whether ``url`` points at this machine."""
    host = urlsplit(url).hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
