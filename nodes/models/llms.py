"""Chat models: ``embedded`` (llama.cpp in this process), ``openai`` (any server), ``fake``."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from stategate.nodes.models.keys import KeyVariable, key_from
from stategate.nodes.models.transport import http_client
from stategate.nodes.protocols import LlmParams
from stategate.nodes.resources import Resources
from stategate.stores.errors import UserError

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel


OPENAI = "https://api.openai.com/v1"


class EmbeddedLlm(LlmParams):
    """A model in this process, served by llama.cpp on loopback (``nodes.models.server``).

    ``model`` is an asset's name, ``default`` (qwen2.5-coder-1.5b), ``small`` (smollm2-135m, for
    smoke tests only), or the path of a .gguf file. Building it fetches the file and starts the
    server. Temperature 0 picks the likeliest token each time; still, a prompt read partly from the
    prefix cache can round differently from the same prompt read whole.
    """

    ALIASES: ClassVar = {"default": "qwen2.5-coder-1.5b", "small": "smollm2-135m"}

    hint: ClassVar[str] = "a language model on this machine, started when it is needed"
    kind: Literal["embedded"] = "embedded"
    model: str = Field(default="default", description="asset, alias, or path of a .gguf file")
    n_ctx: int = Field(default=4096, ge=256, description="tokens of prompt and answer together")
    threads: int | None = Field(default=None, ge=1, description="cores; all of them if not set")
    port: int = Field(default=0, ge=0, le=65535, description="0 takes a free port")
    temperature: float = Field(default=0.0, ge=0)
    seed: int = 0
    max_tokens: int = Field(default=256, ge=1, description="tokens an answer may have")
    timeout: float = Field(default=300.0, gt=0, description="seconds for one answer")

    def assets(self) -> tuple[str, ...]:
        """Name the model, where it is an asset."""
        return (self.ALIASES.get(self.model, self.model),)

    def model_file(self) -> Path:
        """Return the GGUF file, fetched if it is an asset. Raises ``UserError``."""
        from stategate.stores.assets.fetch import ASSETS, asset_path

        name = self.ALIASES.get(self.model, self.model)
        if name.endswith(".gguf"):
            return Path(name)
        models = [a.name for a in ASSETS.values() if not a.is_folder]
        if name not in models:
            known = ", ".join([*self.ALIASES, *models])
            raise UserError(
                f"unknown model {name!r}: known are {known}, or the path of a .gguf file"
            )
        return asset_path(name)

    def build(self, resources: Resources) -> "BaseChatModel":
        """Start the server, or join the one that runs, and return its client."""
        from stategate.nodes.models.server import require_library, serve

        require_library()  # before a model is fetched that nothing could run
        wanted = self.model_dump(include={"n_ctx", "threads", "port", "timeout"})
        server = serve(self.model_file(), **wanted)
        settings = self.model_dump(include={"temperature", "seed", "max_tokens", "timeout"})
        model = server.model.stem
        return _client(server.base_url, server.api_key, model=model, stream_usage=True, **settings)


class OpenAILlm(LlmParams):
    """OpenAI, or any server that speaks its protocol (vLLM, Ollama, llama.cpp) at ``base_url``.

    The key is read from the environment only; a server on loopback needs none.
    """

    hint: ClassVar[str] = "OpenAI, or any server that speaks its protocol"
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


class FakeLlm(LlmParams):
    """LangChain's own fake: says ``replies`` in order, then from the start. For tests."""

    hint: ClassVar[str] = "fixed replies, for tests"
    kind: Literal["fake"] = "fake"
    replies: tuple[str, ...] = Field(default=("ok",), min_length=1)

    def build(self, resources: Resources) -> "BaseChatModel":
        """Return the fake model; it takes and ignores any settings of a call."""
        from langchain_core.language_models import FakeListChatModel

        return FakeListChatModel(responses=list(self.replies))


def _client(base_url: str, key: str, **settings: Any) -> "BaseChatModel":
    from langchain_openai import ChatOpenAI
    from pydantic import SecretStr

    return ChatOpenAI(
        base_url=base_url,
        api_key=SecretStr(key),
        use_responses_api=False,
        http_client=http_client(base_url, settings["timeout"], is_async=False),
        http_async_client=http_client(base_url, settings["timeout"]),
        max_retries=0,  # `faults.guarded` asks again, within one deadline
        **settings,
    )
