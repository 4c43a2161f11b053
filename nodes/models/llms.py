"""Chat models: ``embedded`` (llama.cpp) and ``openai`` (any server); and whose key goes where.

A config says where a model is and which variable holds its key, and a config may come from anybody. So
a key is sent to the hosts that it is known to be for, and to those that the person at this machine
names in ``STATEGATE_KEYS``, such as ``MY_KEY@models.example.org, OTHER_KEY@127.0.0.1``.
"""

import os
import re
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr

from stategate.nodes.models.calls import RETRIES, http_client
from stategate.nodes.protocols import LlmParams
from stategate.nodes.resources import Resources
from stategate.stores.assets.fetch import ASSETS, asset_path
from stategate.stores.errors import UserError
from stategate.stores.http import on_loopback
from stategate.stores.text import without_password

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel


OPENAI = "https://api.openai.com/v1"
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


class EmbeddedLlm(LlmParams):
    """A language model on this machine, started when it is needed.

    llama.cpp serves it on loopback (``nodes.models.server``). ``model`` is an asset's name, ``default``
    (qwen2.5-coder-1.5b), ``small`` (smollm2-135m, for smoke tests only), or the path of a .gguf file.
    Building it fetches the file and starts the server. Temperature 0 picks the likeliest token each
    time; still, a prompt read partly from the prefix cache can round differently from the same prompt
    read whole.
    """

    ALIASES: ClassVar = {"default": "qwen2.5-coder-1.5b", "small": "smollm2-135m"}

    kind: Literal["embedded"] = "embedded"
    model: str = Field(default="default", description="asset, alias, or path of a .gguf file")
    n_ctx: int = Field(default=4096, ge=256, description="tokens of prompt and answer together")
    threads: int | None = Field(default=None, ge=1, description="cores; all of them if not set")
    temperature: float = Field(default=0.0, ge=0)
    seed: int = 0
    max_tokens: int = Field(default=256, ge=1, description="tokens an answer may have")
    timeout: float = Field(default=300.0, gt=0, description="seconds for one answer")

    def model_file(self) -> Path:
        """Return the GGUF file, fetched if it is an asset. Raises ``UserError``."""
        name = self.ALIASES.get(self.model, self.model)
        if name.endswith(".gguf"):
            return Path(name)
        models = [a.name for a in ASSETS.values() if not a.is_folder]
        if name not in models:
            names = ", ".join([*self.ALIASES, *models])
            raise UserError(
                f"unknown model {name!r}: known are {names}, or the path of a .gguf file"
            )
        return asset_path(name)

    def build(self, resources: Resources) -> "BaseChatModel":
        """Start the server, or join the one that runs, and return its client."""
        from stategate.nodes.models.server import serve

        if find_spec("xllamacpp") is None:  # before a model is fetched that nothing could run
            raise ModuleNotFoundError("xllamacpp", name="xllamacpp")
        server_settings = self.model_dump(include={"n_ctx", "threads", "timeout"})
        server = serve(self.model_file(), **server_settings)
        settings = self.model_dump(include={"temperature", "seed", "max_tokens", "timeout"})
        model = server.model.stem
        return _client(server.base_url, server.api_key, model=model, stream_usage=True, **settings)


class OpenAILlm(LlmParams):
    """OpenAI, or any server that speaks its protocol (vLLM, Ollama, llama.cpp).

    The key is read from the environment only; a server on loopback needs none.
    """

    kind: Literal["openai"] = "openai"
    model: str = "gpt-4o-mini"
    base_url: str = OPENAI
    api_key_env: KeyVariable = Field(
        default="OPENAI_API_KEY", description="variable that holds the key"
    )
    temperature: float | None = Field(default=0.0, description="null where a model refuses it")
    seed: int | None = None
    max_tokens: int | None = Field(default=None, ge=1)
    timeout: float = Field(default=60.0, gt=0, description="seconds for one answer")

    def build(self, resources: Resources) -> "BaseChatModel":
        """Return the client. Raises ``UserError`` without a key; sends nothing."""
        settings = self.model_dump(exclude={"kind", "base_url", "api_key_env"})
        return _client(self.base_url, key_from(self.api_key_env, self.base_url), **settings)


def _client(base_url: str, key: str, **settings: Any) -> "BaseChatModel":
    from langchain_openai import ChatOpenAI

    return ChatOpenAI(
        base_url=base_url,
        api_key=SecretStr(key),
        use_responses_api=False,
        http_client=http_client(base_url, settings["timeout"], is_async=False),
        http_async_client=http_client(base_url, settings["timeout"]),
        max_retries=RETRIES,
        **settings,
    )


def key_from(variable: str, base_url: str) -> str:
    """Return the API key in the environment variable ``variable`` for the server at ``base_url``.

    A server on loopback gets a placeholder where there is none, or where the variable's name is no
    model key's. Raises ``UserError`` where the key is not for that host, would travel unencrypted, or
    is missing.
    """
    parts = urlsplit(base_url)
    host = (parts.hostname or "").lower()
    is_here = on_loopback(base_url)
    url = without_password(base_url)
    if is_here and not (_is_for(variable, host) or _LOCAL.fullmatch(variable)):
        return "none"
    if not is_here and not _is_for(variable, host):
        raise UserError(
            f"the key in {variable} is not known to be for {host or url}: if it is, set "
            f"{CONFIRMED}='{variable}@{host}' in your environment"
        )
    key = os.environ.get(variable, "").strip()
    if not key and not is_here:
        raise UserError(f"no API key for {url}: set the environment variable {variable}")
    if not all("!" <= c <= "~" for c in key):  # a line break would be a header of its own
        raise UserError(
            f"the key in {variable} holds space or letters that no key has: set it anew"
        )
    if not is_here and parts.scheme != "https":
        raise UserError(f"a key is not sent unencrypted: write {url} with https://")
    return key or "none"


def _is_for(variable: str, host: str) -> bool:
    confirmed = (item.strip().rpartition("@") for item in os.environ.get(CONFIRMED, "").split(","))
    pairs = {(name, target.lower()) for name, _, target in confirmed if name}
    return host in KNOWN.get(variable, ()) or (variable, host) in pairs
