"""Questions to a chat model: calls, JSON out of replies, usage and its cost."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from langchain_core.messages import AIMessage, BaseMessage

from stategate.nodes.models.calls import RequestRefused, arun, guarded, run
from stategate.nodes.resources import Resources
from stategate.stores.errors import ModelUnavailable
from stategate.stores.http import on_loopback

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

T = TypeVar("T")
_FENCE = re.compile(r"```(?:json)?(.*?)```", re.DOTALL)
#: Brackets of a reply that may turn out to begin nothing.
_STARTS = 1_000


# Asking -------------------------------------------------------------------------------------------


def ask(
    model: "BaseChatModel",
    messages: Sequence[BaseMessage],
    schema: dict[str, Any] | None = None,
    max_tokens: int | None = None,
) -> str:
    """Return the model's reply. Raises ``UserError`` (see :func:`calls.guarded`).

    ``max_tokens`` is what the reply may have, where that is not the model's own setting.
    """
    settings: dict[str, Any] = {} if max_tokens is None else {"max_tokens": max_tokens}

    def reply(**form: Any) -> Any:
        return run(guarded(model, lambda m: m.ainvoke(list(messages), **settings, **form)))

    try:
        answer = reply(**response_format("reply", schema))
    except RequestRefused:
        if schema is None:
            raise
        answer = reply()  # a server without structured output: the prompt says it too
    return str(answer.text)


def response_format(name: str, schema: dict[str, Any] | None) -> dict[str, Any]:
    """Return the call's settings that hold a reply to ``schema``, none without one."""
    if schema is None:
        return {}
    form = {"type": "json_schema", "json_schema": {"name": name, "schema": schema}}
    return {"response_format": form}


class Ask(Protocol):
    """Asks the configured chat model, with settings of the call such as a response format."""

    def __call__(self, messages: Sequence[BaseMessage], **settings: Any) -> Awaitable[AIMessage]:
        """Return the reply."""
        ...


#: What asks a model, perhaps several times, and comes to a result.
Talk = Callable[[Ask], Coroutine[Any, Any, T]]


def talk(resources: Resources, plan: Talk[T]) -> T:
    """Return what ``plan`` comes to; keeps this thread while the model thinks. Raises ``UserError``."""

    async def ask(messages: Sequence[BaseMessage], **settings: Any) -> AIMessage:
        return run(_reply(resources, messages, settings))

    steps = plan(ask)
    try:
        steps.send(None)  # what it awaits is done when it returns, so that no loop is needed
    except StopIteration as end:
        result: T = end.value
        return result
    raise TypeError("a plan awaits nothing but the model")


async def atalk(resources: Resources, plan: Talk[T]) -> T:
    """Do as :func:`talk` does, without keeping a thread while the model thinks."""

    async def ask(messages: Sequence[BaseMessage], **settings: Any) -> AIMessage:
        return await arun(_reply(resources, messages, settings))

    return await plan(ask)


async def _reply(
    resources: Resources, messages: Sequence[BaseMessage], settings: dict[str, Any]
) -> AIMessage:
    """Ask the configured model; where it is gone it is built anew, an embedded one at once."""
    for is_last in (resources.llm_params.kind != "embedded", True):
        model = await asyncio.to_thread(lambda: resources.llm)  # building may start a server
        try:
            reply = await guarded(model, lambda m: m.ainvoke(list(messages), **settings))
            break
        except ModelUnavailable as error:
            resources.forget(resources.llm_params)
            if is_last or isinstance(error.__cause__, TimeoutError):
                raise
    return reply if isinstance(reply, AIMessage) else AIMessage(str(reply.content))


# JSON ---------------------------------------------------------------------------------------------


def json_in(reply: str) -> dict[str, Any]:
    """Return the first JSON object in ``reply``, an empty one where there is none."""
    for text in (*_FENCE.findall(reply), reply):
        start, failed = text.find("{"), 0
        while start >= 0 and failed < _STARTS:
            try:
                value: dict[str, Any] = json.JSONDecoder().raw_decode(text, start)[0]
                return value
            except (ValueError, RecursionError):
                failed += 1
            start = text.find("{", start + 1)
    return {}


# Usage and cost -----------------------------------------------------------------------------------


def usage_of(answer: BaseMessage) -> tuple[int, int]:
    """Return the tokens that a reply cost: read, written; 0 where the server does not say it."""
    used = answer.usage_metadata if isinstance(answer, AIMessage) else None
    return (used["input_tokens"], used["output_tokens"]) if used else (0, 0)


def cached_of(answer: BaseMessage) -> tuple[int, int]:
    """Return how many of the tokens read came from a provider's cache, and how many went into it."""
    used = answer.usage_metadata if isinstance(answer, AIMessage) else None
    details = cast("Mapping[str, int]", used.get("input_token_details") or {}) if used else {}
    written = (details.get(name) or 0 for name in _WRITES)
    return int(details.get("cache_read") or 0), int(sum(written))


#: What LangChain's clients call tokens written to a cache (some by how long they stay there).
_WRITES = ("cache_creation", "ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens")


def cost_of(
    model: "BaseChatModel",
    tokens_in: int,
    tokens_out: int,
    cache_read: int = 0,
    cache_write: int = 0,
) -> float | None:
    """Return US dollars by the public list; 0 for a model on this machine, None if unknown.

    ``tokens_in`` counts all that was read, also what came from a provider's cache or went into it.
    """
    from genai_prices import Usage as Tokens
    from genai_prices import calc_price

    if on_loopback(getattr(model, "openai_api_base", None) or ""):
        return 0.0
    name = str(getattr(model, "model_name", None) or getattr(model, "model", None) or "")
    tokens = Tokens(
        input_tokens=tokens_in,
        output_tokens=tokens_out,
        cache_read_tokens=cache_read,
        cache_write_tokens=cache_write,
    )
    try:
        return float(calc_price(tokens, model_ref=name).total_price)
    except (LookupError, ValueError):
        return None
