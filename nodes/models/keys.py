"""API keys: which environment variable may go to which host.

A config says where a model is and which variable holds its key, and a config may come from anybody. So
a key is sent to the hosts that it is known to be for, and to those that the person at this machine
names in ``STATEGATE_KEYS``, such as ``MY_KEY@models.example.org, OTHER_KEY@127.0.0.1``.
"""

import os
import re
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import Field

from stategate.stores.errors import UserError
from stategate.stores.loopback import on_loopback
from stategate.stores.text import without_password

#: Whose key each variable holds, by the providers' own documentation.
KNOWN = {
    "OPENAI_API_KEY": ("api.openai.com",),
    "ANTHROPIC_API_KEY": ("api.anthropic.com",),
    "OPENROUTER_API_KEY": ("openrouter.ai",),
    "GROQ_API_KEY": ("api.groq.com",),
    "MISTRAL_API_KEY": ("api.mistral.ai",),
    "DEEPSEEK_API_KEY": ("api.deepseek.com",),
    "TOGETHER_API_KEY": ("api.together.xyz",),
    "FIREWORKS_API_KEY": ("api.fireworks.ai",),
    "GEMINI_API_KEY": ("generativelanguage.googleapis.com",),
    "XAI_API_KEY": ("api.x.ai",),
}
#: The name of a variable: a key that somebody wrote in its place is refused, and not shown.
KeyVariable = Annotated[str, Field(pattern="^[A-Z_][A-Z0-9_]{0,80}$")]
CONFIRMED = "STATEGATE_KEYS"
#: What a key of a model server on this machine may be called; what is kept for other ends is not sent.
_LOCAL = re.compile(r"(?!.*(?:SECRET|ACCESS|PRIVATE|SIGNING|SSH|AWS))(?:[A-Z0-9]+_)*KEY")


def key_from(variable: str, base_url: str) -> str:
    """Return the API key in the environment variable ``variable`` for the server at ``base_url``.

    A server on loopback gets a placeholder where there is none, or where the variable's name is no
    model key's. Raises ``UserError`` where the key is not for that host, would travel unencrypted, or
    is missing.
    """
    parts = urlsplit(base_url)
    host = (parts.hostname or "").lower()
    is_here = on_loopback(base_url)
    shown = without_password(base_url)
    if is_here and not (_is_for(variable, host) or _LOCAL.fullmatch(variable)):
        return "none"
    if not is_here and not _is_for(variable, host):
        raise UserError(
            f"the key in {variable} is not known to be for {host or shown}: if it is, set "
            f"{CONFIRMED}='{variable}@{host}' in your environment"
        )
    key = os.environ.get(variable, "").strip()
    if not key and not is_here:
        raise UserError(f"no API key for {shown}: set the environment variable {variable}")
    if not all("!" <= c <= "~" for c in key):  # a line break would be a header of its own
        raise UserError(
            f"the key in {variable} holds space or letters that no key has: set it anew"
        )
    if not is_here and parts.scheme != "https":
        raise UserError(f"a key is not sent unencrypted: write {shown} with https://")
    return key or "none"


def _is_for(variable: str, host: str) -> bool:
    confirmed = (item.strip().rpartition("@") for item in os.environ.get(CONFIRMED, "").split(","))
    pairs = {(name, place.lower()) for name, _, place in confirmed if name}
    return host in KNOWN.get(variable, ()) or (variable, host) in pairs
