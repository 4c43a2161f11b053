"""What a URL says: whether it points at this machine, and how it may be shown.

A proxy named in the environment must not see what is meant for this machine.
"""

import ipaddress
import re
from urllib.parse import urlsplit

_PASSWORD = re.compile(r"(?<=://)([^/\s@:]*):([^/\s]*)@")
_NAMED = re.compile(r"(?i)\b(password|passwd|api_key|token)=[^&\s'\"]+")


def on_loopback(url: str) -> bool:
    """Say whether ``url`` points at this machine."""
    host = urlsplit(url).hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def without_password(text: str) -> str:
    """Return ``text`` (a URL, or an error that holds one) without the passwords of its URLs."""
    return _NAMED.sub(r"\1=***", _PASSWORD.sub(r"\1:***@", text))
