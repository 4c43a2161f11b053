"""Calls of a chat model: failures in a user's words, JSON out of replies, usage and its cost."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, BaseMessage

from stores.errors import ModelUnavailable, UserError

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from nodes.resources import Resources

_FENCE = re.compile(r"```(?:json)?\s*(.*?)```", re.DOTALL)


@dataclass
class Usage:
    """Calls and tokens so far."""

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0

    def count(self, answer: Any) -> None:
        """Add one answer's usage, where the server tells it."""
        self.calls += 1
        told = getattr(answer, "usage_metadata", None)
        if told:
            self.tokens_in += told["input_tokens"]
            self.tokens_out += told["output_tokens"]


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

    more: dict[str, Any] = {} if max_tokens is None else {"max_tokens": max_tokens}

    if schema is not None:
        form = {"type": "json_schema", "json_schema": {"name": "reply", "schema": schema}}
        try:
            answer = model.invoke(list(messages), response_format=form, **more)
        except openai.BadRequestError:  # a server without structured output: the prompt says it too
            answer = model.invoke(list(messages), **more)
    else:
        answer = model.invoke(list(messages), **more)
    if usage is not None:
        usage.count(answer)
    return str(answer.text)


def asking_problems() -> tuple[type[Exception], ...]:
    """Return what a model call may raise that is no fault of this program."""
    import httpx2
    import openai

    return (openai.OpenAIError, httpx2.HTTPError, UserError)


def json_in(reply: str, wanted: type) -> Any:
    """Return the first JSON value of type ``wanted`` in ``reply``, None where there is none."""
    opening = "[" if wanted is list else "{"
    for text in (*_FENCE.findall(reply), reply):
        start = text.find(opening)
        while start >= 0:
            try:
                value, _ = json.JSONDecoder().raw_decode(text[start:])
            except ValueError:
                start = text.find(opening, start + 1)
                continue
            if isinstance(value, wanted):
                return value
            start = text.find(opening, start + 1)
    return None


def objects_in(reply: str) -> list[dict[str, Any]]:
    """Return the whole JSON objects in ``reply``, in order: what is left of a list that broke off."""
    found: list[dict[str, Any]] = []
    start = reply.find("{")
    while start >= 0:
        try:
            value, end = json.JSONDecoder().raw_decode(reply, start)
        except ValueError:
            end = start + 1
        else:
            found.append(value)
        start = reply.find("{", end)
    return found


def call_model(resources: "Resources", call: "Callable[[BaseChatModel], BaseMessage]") -> AIMessage:
    """Make one call of the configured model, telling its failures in the words of a user.

    Raises ``ModelUnavailable`` when the server does not answer (the next call starts it anew), and
    ``UserError`` when it refuses.
    """
    import openai

    model = resources.llm
    try:
        reply = call(model)
        return reply if isinstance(reply, AIMessage) else AIMessage(str(reply.content))
    except (openai.APIConnectionError, openai.RateLimitError, openai.InternalServerError) as e:
        problem = " ".join(str(e).split())[:160]
        resources.forget(resources.llm_params)  # a retry starts a dead server anew
        raise ModelUnavailable(
            f"the model server at {_address(model)} does not answer ({problem}): "
            "start it, or set llm.base_url"
        ) from e
    except openai.APIStatusError as e:
        problem = " ".join(str(e).split())[:200]
        raise UserError(f"the model server refused the request: {problem}") from e


def usage_of(answer: AIMessage) -> tuple[int, int]:
    """Return the tokens that a reply cost: read, written."""
    used = answer.usage_metadata
    return (used["input_tokens"], used["output_tokens"]) if used is not None else (0, 0)


def _address(model: "BaseChatModel") -> str:
    return str(getattr(model, "openai_api_base", None) or "its default address")


def cost_of(model: "BaseChatModel", tokens_in: int, tokens_out: int) -> float | None:
    """Return US dollars by the public list; 0 for a model on this machine, None if unknown."""
    from genai_prices import Usage as Tokens
    from genai_prices import calc_price

    base = getattr(model, "openai_api_base", None) or ""
    if "127.0.0.1" in base or "localhost" in base:
        return 0.0
    name = str(getattr(model, "model_name", ""))
    try:
        found = calc_price(Tokens(input_tokens=tokens_in, output_tokens=tokens_out), model_ref=name)
    except LookupError:
        return None
    return float(found.total_price)
