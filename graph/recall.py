"""The tool ``recall``: earlier messages, whole, for an agent whose prompts are shortened."""

from collections.abc import Sequence
from typing import Annotated, Any

from langchain_core.messages import BaseMessage, SystemMessage, ToolMessage
from langchain_core.tools import BaseTool, tool
from langgraph.prebuilt import InjectedState

from stategate.envs.messages.history import bounded, name_of, tokens_in
from stategate.envs.messages.needs import readable_text
from stategate.nodes.build_context.messages.decisions import OTHER_RECALL, RECALL
from stategate.nodes.retrieval.history import HistorySource, excerpt
from stategate.stores.tokens import truncate

_FOUND = 12  # parts that a search shows


def recall_tool(budget: int, name: str = RECALL) -> BaseTool:
    """Return the tool by which an agent sees earlier messages whole, ``budget`` tokens at most."""

    @tool(name)
    def recall(id: str, state: Annotated[dict[str, Any], InjectedState]) -> str:
        """Show an earlier message whole: a tool's result, or what somebody said.

        Results may end with a note such as "[cut 512 tokens: recall 9f3a1]": give the five letters
        of the note as id. Words instead of an id find the parts of earlier messages that hold them.
        """
        return recalled(id, state["messages"], budget)

    return recall


def recalled(query: str, messages: Sequence[BaseMessage], budget: int) -> str:
    """Return the message named ``query``, or the parts of messages that share its words."""
    texts = []
    for place, message in enumerate(messages):
        text = readable_text(message)
        is_ours = message.name in (RECALL, OTHER_RECALL)
        if text.strip() and not is_ours and not isinstance(message, SystemMessage):
            speaker = "" if isinstance(message, ToolMessage) else f"{message.type}: "
            texts.append((name_of(message, place), speaker + text))
    words = query.replace(OTHER_RECALL, "").strip().strip("[]\"'")
    name = words.removeprefix(RECALL).strip().lower()
    whole = [text for other, text in texts if other == name]
    if whole:
        return _fitting("\n\n".join(whole), budget)
    source = HistorySource([(other, bounded(text)) for other, text in texts])
    places: dict[str, list[int]] = {}
    for chunk, _ in source.find(query, _FOUND):
        result, _, place_in_result = chunk.id.rpartition("/")
        places.setdefault(result, []).append(int(place_in_result))
    if not places:
        latest = ", ".join(other for other, _ in texts[-20:]) or "none"
        return f"no earlier message is called or holds '{query}'; the latest are: {latest}"
    quoted = [
        f"{key}:\n{excerpt(source.by_result[key], numbers)}" for key, numbers in places.items()
    ]
    return _fitting("\n\n".join(quoted), budget)


def _fitting(text: str, budget: int) -> str:
    if tokens_in(text) <= budget:
        return text
    head = truncate(text[: 12 * budget], budget)
    return f"{head}\n… ({tokens_in(text) - budget} more tokens; recall words)"
