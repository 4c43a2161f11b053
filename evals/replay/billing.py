"""What a provider would bill for a run of prompts, by its published rules of prefix caching.

Anthropic: what stands before a breakpoint can be read again at a tenth, from 1024 tokens on, in whole
blocks; what is new is written to the cache at one and a quarter. OpenAI: automatic, from 1024 tokens on
in steps of 128; nothing is charged for writing. Rates come from the public list (``cost_of``).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from stategate.envs.messages.history import text_of, tokens_of
from stategate.nodes.models.asking import cost_of
from stategate.stores.tokens import count_tokens

_LEAST = 1024  # tokens from which a prefix is cached
_STEP = 128  # OpenAI counts a cached prefix in steps of so many


@dataclass(frozen=True)
class _Named:
    """A stand-in for a chat model of this name, for the public list."""

    model_name: str


#: Who bills, and the model whose rates are taken.
BILLERS = {"anthropic": "claude-sonnet-4-5", "openai": "gpt-5"}


@dataclass
class Bill:
    """US dollars by biller and tokens of one run; every prompt is compared with those before it."""

    fixed: int
    dollars: dict[str, float] = field(default_factory=lambda: dict.fromkeys(BILLERS, 0.0))
    read: int = 0
    cached: int = 0
    _last: list[tuple[Any, int]] = field(default_factory=list)

    def call(self, messages: Sequence[BaseMessage], answer: BaseMessage | str) -> None:
        """Add one call: ``fixed`` tokens of tools lead every prompt."""
        rows = [(_face(message), tokens_of(message, count_tokens)) for message in messages]
        equal = 0
        while equal < min(len(rows), len(self._last)) and rows[equal][0] == self._last[equal][0]:
            equal += 1
        tokens = self.fixed + sum(size for _, size in rows)
        shared = (self.fixed + sum(size for _, size in rows[:equal])) if self._last else 0
        out = count_tokens(answer) if isinstance(answer, str) else tokens_of(answer, count_tokens)
        blocks = shared if shared >= _LEAST else 0
        steps = (shared - shared % _STEP) if shared >= _LEAST else 0
        self.dollars["anthropic"] += _dollars("anthropic", tokens, out, blocks, tokens - blocks)
        self.dollars["openai"] += _dollars("openai", tokens, out, steps, 0)
        self.read += tokens
        self.cached += blocks
        self._last = rows

    def row(self, calls: int, orphans: int, seconds: float) -> dict[str, float]:
        """Return what a row says of a thread; ``seconds`` are those of all decisions together."""
        count = max(calls, 1)
        return {
            "calls": float(calls),
            "orphans": float(orphans),
            "dollars_anthropic": self.dollars["anthropic"],
            "dollars_openai": self.dollars["openai"],
            "model_tokens": float(self.read),
            "tokens_per_call": self.read / count,
            "cached_share": self.cached / max(self.read, 1),
            "decide_ms": 1000 * seconds / count,
        }


def _dollars(biller: str, tokens: int, out: int, cached: int, new: int) -> float:
    model: Any = _Named(BILLERS[biller])
    if tokens < _LEAST:
        new = 0  # too short to be written to a cache
    return cost_of(model, tokens, out, cached, new) or 0.0


def _face(message: BaseMessage) -> tuple[Any, ...]:
    """Return what a provider sees of a message."""
    calls = [str(c) for c in message.tool_calls] if isinstance(message, AIMessage) else []
    answers = message.tool_call_id if isinstance(message, ToolMessage) else None
    return message.type, text_of(message), *calls, answers
