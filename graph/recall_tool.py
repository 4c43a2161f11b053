"""``recall``: the tool by which an agent sees a shortened result whole, or finds it again by words."""

from collections.abc import Sequence
from typing import Annotated, Any

from langchain_core.messages import BaseMessage, ToolMessage
from langchain_core.tools import BaseTool, tool
from langgraph.prebuilt import InjectedState

from envs.messages.history import name_of, text_of
from nodes.retrieval.history import HistorySource, shown_text
from stores.tokens import count_tokens, truncate

_FOUND = 12  # parts that a search shows


def recall_tool(budget: int) -> BaseTool:
    """Return the tool; what it shows has at most ``budget`` tokens."""

    @tool
    def recall(id: str, state: Annotated[dict[str, Any], InjectedState]) -> str:
        """Show an earlier tool result whole.

        Results may end with a note such as "[cut 512 tokens: recall 9f3a1]": give the five letters
        of the note as id. Words instead of an id find the parts of earlier results that hold them.
        """
        return recalled(id, state["messages"], budget)

    return recall


def recalled(wanted: str, messages: Sequence[BaseMessage], budget: int) -> str:
    """Return the result named ``wanted``, or the parts of results that share its words."""
    results = [
        (name_of(message, place), original_of(message))
        for place, message in enumerate(messages)
        if isinstance(message, ToolMessage) and message.name != "recall"
    ]
    name = wanted.strip().strip("[]\"'").removeprefix("recall").strip().lower()
    found = [text for known, text in results if known == name]
    if found:
        return _fitting("\n\n".join(found), budget)
    lines = [
        f"{chunk.id.rpartition('/')[0]}: {' '.join(shown_text(chunk).split())}"
        for chunk, _ in HistorySource(results).find(wanted, _FOUND)
    ]
    if not lines:
        known = ", ".join(key for key, _ in results[-20:]) or "none"
        return f"no earlier result is called or holds '{wanted}'; the latest are: {known}"
    return _fitting("\n".join(lines), budget)


def original_of(message: ToolMessage) -> str:
    """Return a result's text as the tool gave it."""
    artifact = message.artifact
    if isinstance(artifact, dict) and isinstance(artifact.get("stategate_original"), str):
        return str(artifact["stategate_original"])
    return text_of(message)


def _fitting(text: str, budget: int) -> str:
    if count_tokens(text) <= budget:
        return text
    return truncate(text, budget) + f"\n… ({count_tokens(text) - budget} more tokens; recall words)"
