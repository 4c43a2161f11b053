"""Ask a chat model for JSON or a line of text, and count what it cost."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from langchain_core.messages import BaseMessage

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

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
    import httpx
    import openai

    from stores.errors import UserError

    return (openai.OpenAIError, httpx.HTTPError, UserError)


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


def price_of(model: "BaseChatModel", tokens_in: int, tokens_out: int) -> float | None:
    """Return US dollars by the public price list; 0 on this machine, None if unknown."""
    base = getattr(model, "openai_api_base", None) or ""
    if "127.0.0.1" in base or "localhost" in base:
        return 0.0
    from genai_prices import Usage as Priced
    from genai_prices import calc_price

    try:
        name = str(getattr(model, "model_name", ""))
        price = calc_price(Priced(input_tokens=tokens_in, output_tokens=tokens_out), model_ref=name)
    except LookupError:
        return None
    return float(price.total_price)
