"""Resources of nodes while they are built: other nodes, made once and shared."""

import threading
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar, cast

from stategate.nodes.protocols import (
    Embedder,
    EmbedderParams,
    EnvParams,
    LlmParams,
    Params,
    Updater,
    UpdaterParams,
    WorldProfile,
)
from stategate.stores.errors import UserError, missing_extra

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

T = TypeVar("T")
#: Slots whose nodes may use the configured models, world or updater; the others depend only on their
#: params.
_DEPENDENT_SLOTS = ("updater", "context", "actor", "memory")


class Resources:
    """Builds params into nodes and keeps what it built.

    Equal params (same class, same values, same models behind them) give the same object for the
    life of this instance, so a model or a catalogue is loaded once however often a step asks.
    """

    def __init__(
        self,
        llm: LlmParams | None = None,
        embedder: EmbedderParams | None = None,
        updater: UpdaterParams | None = None,
        env: EnvParams | None = None,
    ) -> None:
        self._llm = llm
        self._embedder = embedder
        self._updater = updater
        self._env = env
        self._built: dict[tuple[str, ...], object] = {}
        self._lock = threading.RLock()

    def with_models(self, *models: Any) -> "Resources":
        """Return resources with other ``models`` (as given when made) that share what is built."""
        other = Resources(*models)
        other._built, other._lock = self._built, self._lock
        return other

    def get(self, params: Params) -> Any:
        """Return what ``params.build`` makes, building at most once for equal params."""
        return self.once(self._key(params), lambda: params.build(self))

    def once(self, key: tuple[str, ...], make: Callable[[], T]) -> T:
        """Return what ``make`` makes, at most once for equal keys."""
        with self._lock:
            if key not in self._built:
                try:
                    self._built[key] = make()
                except ModuleNotFoundError as error:
                    raise missing_extra(error) or error from None
            return cast(T, self._built[key])

    def forget(self, params: Params) -> None:
        """Drop the node of ``params``, which died, so that the next :meth:`get` builds it again."""
        with self._lock:
            self._built.pop(self._key(params), None)

    def _key(self, params: Params) -> tuple[str, ...]:
        models = (self._llm, self._embedder, self._env, self._updater)
        used = models if params.slot in _DEPENDENT_SLOTS else ()
        key_params = [params, *(model for model in used if model is not None)]
        return tuple(
            f"{type(p).__module__}:{type(p).__qualname__}{p.model_dump_json()}" for p in key_params
        )

    @property
    def profile(self) -> WorldProfile:
        """The configured world's profile; the plain default if no world is configured."""
        make = WorldProfile if self._env is None else self._env.profile
        key = () if self._env is None else self._key(self._env)
        return self.once(("profile", *key), make)

    @property
    def env_kind(self) -> str:
        """The kind of the configured world, "" where none is configured."""
        return "" if self._env is None else self._env.kind

    @property
    def llm_params(self) -> LlmParams:
        """The parameters of the configured chat model. Raises ``UserError`` if there are none."""
        if self._llm is None:
            raise UserError("this node needs a language model: set llm.kind, as llm.kind=embedded")
        return self._llm

    @property
    def llm(self) -> "BaseChatModel":
        """The configured chat model. Raises ``UserError`` where the config names none."""
        return cast("BaseChatModel", self.get(self.llm_params))

    @property
    def embedder(self) -> Embedder:
        """The configured embedder. Raises ``UserError`` where the config names none."""
        if self._embedder is None:
            raise UserError(
                "this node needs an embedder: set embedder.kind, as embedder.kind=minilm"
            )
        return cast(Embedder, self.get(self._embedder))

    @property
    def updater(self) -> Updater | None:
        """The configured updater, None where the agent keeps no state."""
        if self._updater is None or self._updater.kind == "none":
            return None
        return cast(Updater, self.get(self._updater))


@lru_cache(maxsize=1)
def shared_resources() -> Resources:
    """Return the process-wide resources of library objects (retrievers, memories): each model once."""
    return Resources()
