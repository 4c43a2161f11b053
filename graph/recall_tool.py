"""``recall``: the tool by which an agent sees a shortened result whole, or finds it again by words."""

import hashlib
from collections.abc import Sequence
from typing import Annotated, Any

from langchain_core.messages import BaseMessage, ToolMessage
from langchain_core.tools import BaseTool, tool
from langgraph.config import get_store
from langgraph.prebuilt import InjectedState
from langgraph.store.base import BaseStore

from stategate.envs.messages.history import name_of, text_of
from stategate.nodes.build_context.messages.decisions import RECALL
from stategate.nodes.retrieval.history import HistorySource, excerpt
from stategate.stores.tokens import count_tokens, truncate

_ORIGINAL, _STORED = "stategate_original", "stategate_stored"  # in an artifact
_SPACE = ("stategate", "results")  # in a store; a name is its text's hash
_FOUND = 12  # parts that a search shows


def recall_tool(budget: int) -> BaseTool:
    """Return the tool; what it shows has at most ``budget`` tokens."""

    @tool
    def recall(id: str, state: Annotated[dict[str, Any], InjectedState]) -> str:
        """Show an earlier tool result whole.

        Results may end with a note such as "[cut 512 tokens: recall 9f3a1]": give the five letters
        of the note as id. Words instead of an id find the parts of earlier results that hold them.
        """
        try:
            store = get_store()
        except RuntimeError:  # outside of a graph
            store = None
        return recalled(id, state["messages"], budget, store)

    return recall


def recalled(
    wanted: str, messages: Sequence[BaseMessage], budget: int, store: BaseStore | None = None
) -> str:
    """Return the result named ``wanted``, or the parts of results that share its words."""
    results = [
        (name_of(message, place), original_of(message, store))
        for place, message in enumerate(messages)
        if isinstance(message, ToolMessage) and message.name != RECALL
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


def kept_as(whole: str, store: BaseStore | None) -> dict[str, str]:
    """Return what an artifact says of a whole result: its text, or where it lies in ``store``."""
    if store is None:
        return {_ORIGINAL: whole}
    name = hashlib.sha256(whole.encode(errors="surrogatepass")).hexdigest()
    store.put(_SPACE, name, {"text": whole}, index=False)
    return {_STORED: name}


def original_of(message: ToolMessage, store: BaseStore | None = None) -> str:
    """Return a result's text as the tool gave it; as it is shown where the original is gone."""
    artifact = message.artifact if isinstance(message.artifact, dict) else {}
    if isinstance(artifact.get(_ORIGINAL), str):
        return str(artifact[_ORIGINAL])
    if store is not None and isinstance(artifact.get(_STORED), str):
        kept = store.get(_SPACE, artifact[_STORED])
        if kept is not None:
            return str(kept.value["text"])
    return text_of(message)


def _fitting(text: str, budget: int) -> str:
    if count_tokens(text) <= budget:
        return text
    return truncate(text, budget) + f"\n… ({count_tokens(text) - budget} more tokens; recall words)"
