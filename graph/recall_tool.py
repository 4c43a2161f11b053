"""``recall``: the tool by which an agent sees a shortened result whole, or finds it again by words."""

from collections.abc import Sequence
from typing import Annotated, Any

from langchain_core.messages import BaseMessage, ToolMessage
from langchain_core.tools import BaseTool, tool
from langgraph.prebuilt import InjectedState

from envs.messages.history import name_of, text_of
from nodes.retrieval.history import HistorySource, excerpt
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
    whole = [text for known, text in results if known == name]
    if whole:
        return _fitting("\n\n".join(whole), budget)
    source = HistorySource(results)
    places: dict[str, list[int]] = {}
    for chunk, _ in source.find(wanted, _FOUND):
        result, _, place = chunk.id.rpartition("/")
        places.setdefault(result, []).append(int(place))
    if not places:
        latest = ", ".join(known for known, _ in results[-20:]) or "none"
        return f"no earlier result is called or holds '{wanted}'; the latest are: {latest}"
    quoted = [f"{key}:\n{excerpt(source.by_result[key], found)}" for key, found in places.items()]
    return _fitting("\n\n".join(quoted), budget)


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
