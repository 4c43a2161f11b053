"""Calls of a chat model: failures in a user's words, JSON out of replies, usage and its cost."""

import asyncio
import json
import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from langchain_core.messages import AIMessage, BaseMessage

from stategate.nodes.models.faults import guarded
from stategate.nodes.models.transport import arun, run
from stategate.nodes.resources import Resources
from stategate.stores.errors import ModelUnavailable, UserError, describe_error
from stategate.stores.loopback import on_loopback

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel


T = TypeVar("T")
_FENCE = re.compile(r"```(?:json)?(.*?)```", re.DOTALL)
#: Brackets of a reply that may turn out to begin nothing.
_STARTS = 1_000


@dataclass
class Usage:
    """Calls and tokens so far."""

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0

    def count(self, answer: Any) -> None:
        """Add one answer's usage, where the server says it."""
        tokens_in, tokens_out = usage_of(answer)
        self.calls += 1
        self.tokens_in += tokens_in
        self.tokens_out += tokens_out


def ask(
    model: "BaseChatModel",
    messages: Sequence[BaseMessage],
    schema: dict[str, Any] | None = None,
    usage: Usage | None = None,
    max_tokens: int | None = None,
) -> str:
    """Return the model's reply. Raises whatever the client raises; see :func:`asking_problems`.

    ``max_tokens`` is what the reply may have, where that is not the model's own setting.
    """
    import openai

    settings: dict[str, Any] = {} if max_tokens is None else {"max_tokens": max_tokens}
    form = response_format("reply", schema)
    try:
        answer = run(guarded(model, lambda m: m.ainvoke(list(messages), **settings, **form)))
    except openai.BadRequestError:
        if schema is None:
            raise
        # A server without structured output: the prompt says it too.
        answer = run(guarded(model, lambda m: m.ainvoke(list(messages), **settings)))
    if usage is not None:
        usage.count(answer)
    return str(answer.text)


def response_format(name: str, schema: dict[str, Any] | None) -> dict[str, Any]:
    """Return the call's settings that hold a reply to ``schema``, none without one."""
    if schema is None:
        return {}
    form = {"type": "json_schema", "json_schema": {"name": name, "schema": schema}}
    return {"response_format": form}


def asking_problems() -> tuple[type[Exception], ...]:
    """Return what a model call may raise that is no fault of this program."""
    import openai

    return (openai.OpenAIError, UserError)


def json_in(reply: str, wanted: type) -> Any:
    """Return the first JSON value of type ``wanted`` in ``reply``, None where there is none."""
    opening = "[" if wanted is list else "{"
    for text in (*_FENCE.findall(reply), reply):
        for value, _ in _values(text, opening):
            if isinstance(value, wanted):
                return value
    return None


def objects_in(reply: str) -> list[dict[str, Any]]:
    """Return the whole JSON objects in ``reply``, in order: what is left of a list that broke off."""
    objects: list[dict[str, Any]] = []
    covered = 0
    for value, (start, end) in _values(reply, "{"):
        if start >= covered:  # not inside the one before
            objects.append(value)
            covered = end
    return objects


def _values(text: str, opening: str) -> Iterator[tuple[Any, tuple[int, int]]]:
    """Yield the JSON values that begin at each ``opening`` bracket, and from where to where."""
    start, failed = text.find(opening), 0
    while start >= 0 and failed < _STARTS:
        try:
            value, end = json.JSONDecoder().raw_decode(text, start)
            yield value, (start, end)
        except (ValueError, RecursionError):
            failed += 1
        start = text.find(opening, start + 1)


@dataclass(frozen=True)
class Ask:
    """One call of the configured chat model: messages, and settings such as a response format."""

    messages: Sequence[BaseMessage]
    settings: Mapping[str, Any] = field(default_factory=dict)


#: What asks a model, perhaps several times, and comes to a result: yields calls and is sent replies. A
#: refused form (``openai.BadRequestError``) is thrown into it, so that it may ask in another.
Talk = Generator[Ask, AIMessage, T]


def talk(resources: Resources, steps: Talk[T]) -> T:
    """Make the calls of ``steps``; failures are put in the words of a user.

    Raises ``ModelUnavailable`` when the server does not answer (the next call starts it anew), and
    ``UserError`` when it refuses.
    """
    return run(_talk(resources, steps))


async def atalk(resources: Resources, steps: Talk[T]) -> T:
    """Do as :func:`talk` does, without keeping a thread while the model thinks."""
    return await arun(_talk(resources, steps))


async def _talk(resources: Resources, steps: Talk[T]) -> T:
    import openai

    def renewed() -> "BaseChatModel":
        resources.forget(resources.llm_params)  # a dead server is started anew
        return resources.llm

    step: Callable[[], Ask] = partial(next, steps)
    while True:
        try:
            ask = step()
        except StopIteration as end:
            return cast("T", end.value)
        except openai.BadRequestError as e:
            problem = f"the model server refused the request: {describe_error(e)}"
            raise UserError(problem) from e
        model = await asyncio.to_thread(lambda: resources.llm)  # building may start a server
        messages, settings = list(ask.messages), ask.settings
        try:
            call = partial(_invoke, messages=messages, settings=settings)
            step = partial(steps.send, _message(await guarded(model, call, renewed)))
        except openai.BadRequestError as refused:
            step = partial(steps.throw, refused)
        except ModelUnavailable:
            resources.forget(resources.llm_params)
            raise


async def _invoke(
    model: "BaseChatModel", messages: list[BaseMessage], settings: Mapping[str, Any]
) -> BaseMessage:
    return await model.ainvoke(messages, **settings)


def _message(reply: BaseMessage) -> AIMessage:
    return reply if isinstance(reply, AIMessage) else AIMessage(str(reply.content))


def usage_of(answer: Any) -> tuple[int, int]:
    """Return the tokens that a reply cost: read, written; 0 where the server does not say it."""
    used = getattr(answer, "usage_metadata", None)
    return (used["input_tokens"], used["output_tokens"]) if used else (0, 0)


def cached_of(answer: Any) -> tuple[int, int]:
    """Return how many of the tokens read came from a provider's cache, and how many went into it."""
    used = getattr(answer, "usage_metadata", None) or {}
    details = used.get("input_token_details") or {}
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
        amount = calc_price(tokens, model_ref=name)
    except (LookupError, ValueError):
        return None
    return float(amount.total_price)
