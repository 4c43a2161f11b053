"""What stands between an agent and its model in each arm: nothing, others' middleware, ours."""

from collections.abc import Callable, Sequence
from typing import Any

from langchain.agents.middleware import (
    ClearToolUsesEdit,
    ContextEditingMiddleware,
    SummarizationMiddleware,
)
from langchain.agents.middleware.types import AgentMiddleware

from stategate.envs.messages.history import instruction_of, text_of
from stategate.evals.agents.billing import Bill
from stategate.evals.agents.trimming import LastMessages, sizes
from stategate.graph.middleware import ContextMiddleware
from stategate.graph.tool_results import shorten_results
from stategate.nodes.retrieval.history import HistorySource, shown_text
from stategate.stores.errors import UserError
from stategate.stores.tokens import count_tokens

_SUMMARY_TOKENS = 1000

#: Makes the middleware of one run; ``bill`` is for calls beside the agent's own.
Make = Callable[[int, Bill], Sequence[AgentMiddleware[Any, Any, Any]]]


def _summariser(bill: Bill) -> Callable[[list[Any]], str]:
    """Return a summariser without a model: the parts that share most words with the task, in order.

    It is billed as a model would be that reads the messages and writes its words.
    """

    def summarise(messages: list[Any]) -> str:
        results = [(str(i), text_of(message)) for i, message in enumerate(messages)]
        source = HistorySource(results)
        ranked = source.find(instruction_of(messages), len(source.all()))
        left = _SUMMARY_TOKENS
        chosen: set[str] = set()
        for chunk, _ in ranked:
            cost = count_tokens(shown_text(chunk) + "\n")
            if cost <= left:
                left -= cost
                chosen.add(chunk.id)
        parts = [c for chunks in source.by_result.values() for c in chunks if c.id in chosen]
        summary = "\n".join(shown_text(chunk) for chunk in parts)
        bill.aside(sizes(messages), count_tokens(summary))
        return summary

    return summarise


def _summarize(budget: int, bill: Bill) -> Sequence[AgentMiddleware[Any, Any, Any]]:
    from langchain_core.language_models import FakeListChatModel

    return [
        SummarizationMiddleware(
            FakeListChatModel(responses=[""]),
            trigger=("tokens", budget),
            keep=("tokens", budget // 2),
            token_counter=sizes,
            trim_tokens_to_summarize=None,
            summarizer=_summariser(bill),
        )
    ]


def _clear(budget: int, bill: Bill) -> Sequence[AgentMiddleware[Any, Any, Any]]:
    edit = ClearToolUsesEdit(trigger=budget, keep=3)
    return [ContextEditingMiddleware(edits=[edit], token_counter=sizes)]


def _ours(**settings: Any) -> Make:
    def make(budget: int, bill: Bill) -> Sequence[AgentMiddleware[Any, Any, Any]]:
        # Pages of a world are acted on: what they offer must be read.
        chosen = {"budget": budget, "timeout": 60.0, "whole": ("reset", "step"), **settings}
        return [ContextMiddleware(**chosen)]

    return make


#: The arm that needs weights of its own.
LINGUA = "llmlingua"
ARMS: dict[str, Make] = {
    "nothing": lambda budget, bill: [],
    "last": lambda budget, bill: [LastMessages(budget)],
    "summarize": _summarize,
    "clear": _clear,
    "compress": _ours(kind="compress"),
    "compress_no_recall": _ours(kind="compress", recall=False),
    "compress_whole": _ours(kind="compress", max_new_result=10**9),
    "compress_tail": _ours(kind="compress", appendix_tokens=300),
    "window": _ours(kind="window", events=3),
    "stored": lambda budget, bill: [
        shorten_results(max(budget // 40, 150), keep_original="store"),
        *_ours(kind="compress")(budget, bill),
    ],
    "recall": _ours(kind="recall", extractor="rules"),
    "query_rag": _ours(kind="query_rag", timeout=600.0),
    "retrieve_state": _ours(kind="retrieve", updater="gru", timeout=600.0),
    "compress_state": _ours(kind="compress", updater="gru", timeout=600.0),
}


def arms_of(names: Sequence[str], lingua: str = "") -> list[str]:
    """Check the names of arms. Raises ``UserError``, also for a compressor that cannot be had."""
    for name in names:
        if name == LINGUA:
            from stategate.evals.agents.lingua import compressor

            compressor(lingua)
        elif name not in ARMS:
            raise UserError(f"no arm '{name}': there are {', '.join([*ARMS, LINGUA])}")
    return list(names)


def middleware_of(
    arm: str, budget: int, bill: Bill, lingua: str = ""
) -> Sequence[AgentMiddleware[Any, Any, Any]]:
    """Return the middleware of one run; ``lingua`` names the weights of LLMLingua."""
    if arm == LINGUA:
        from stategate.evals.agents.lingua import Lingua

        return [Lingua(budget, lingua)]
    return ARMS[arm](budget, bill)
