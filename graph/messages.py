"""Between a chat client's messages and the tasks and actions of a conversation.

``messages`` holds the recent end of the conversation only: clients that want all of it have the
trace store, and a checkpoint stays of constant size.
"""

from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage

from envs.protocols import answered
from graph.state import State
from nodes.protocols import StepRecord
from nodes.write_memory.short_term import newest

#: Tokens (cl100k) that the messages in state may have.
KEPT = 4000


def asked(state: State) -> dict[str, Any] | None:
    """Return the newest message as a task, if it is a person's that nobody answered."""
    messages = state.get("messages") or []
    if not messages or messages[-1].type != "human":
        return None
    is_running = state.get("session") is not None and not state.get("done", True)
    text = str(messages[-1].text).strip()
    return None if is_running or not text else {"question": text}


def turns_before(state: State) -> int:
    """Return how many steps the thread's earlier tasks took."""
    return state.get("turns", 0) + state.get("steps", 0)


def spoken(record: StepRecord, state: State) -> dict[str, Any]:
    """Return the update of ``messages`` after a step: question (if it came as a task) and answer."""
    words = answered(record.decision.action)
    if words is None:
        return {}
    earlier = list(state.get("messages") or [])
    new: list[AnyMessage] = []
    last = earlier[-1] if earlier else None
    if last is None or last.type != "human" or str(last.text).strip() != record.instruction:
        new.append(HumanMessage(record.instruction, id=f"{record.episode_id}:{record.step}:q"))
    new.append(AIMessage(words, id=f"{record.episode_id}:{record.step}:a"))
    recent = newest([*earlier, *new], KEPT) or new[-1:]
    ids = {message.id for message in recent}
    gone = [RemoveMessage(id=m.id) for m in earlier if m.id is not None and m.id not in ids]
    return {"messages": [*gone, *(m for m in new if m.id in ids)]}
