"""The graph's state, of constant size and plain types; chat messages to tasks, answers to messages.

The trajectory goes to the trace store. The observation and the built context are untracked: a resumed
run computes them again from the session. ``messages`` holds only the newest part of a conversation,
the trace store all of it.
"""

import hashlib
from collections.abc import Mapping
from typing import Annotated, Any, NotRequired, TypedDict, Union

import numpy as np
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage
from langchain_core.messages.utils import trim_messages
from langgraph.channels import UntrackedValue
from langgraph.graph.message import add_messages
from pydantic import BaseModel, ConfigDict, Field, create_model, model_validator

from stategate.envs.protocols import Observation, answered
from stategate.nodes.protocols import SLOTS, BuiltContext, StepRecord
from stategate.nodes.registry import registry
from stategate.stores.errors import UserError
from stategate.stores.text import storable
from stategate.stores.tokens import count_tokens
from stategate.stores.traces import Event

Messages = Annotated[list[AnyMessage], add_messages]


class Input(TypedDict):
    """What a caller passes: the task to start, such as ``{"goal": 3}``.

    Where the world is a conversation, a human message does as well.
    """

    task: NotRequired[dict[str, Any] | None]
    messages: NotRequired[Messages]


class Output(TypedDict):
    """What a run returns. ``tokens`` counts the built contexts of all steps, cl100k.

    ``model_tokens`` is the model's own usage (in + out), ``cost`` US dollars, ``fallbacks`` the
    steps in which the actor could not be understood.
    """

    reward: float
    done: bool
    steps: int
    tokens: int
    model_tokens: int
    cost: float
    fallbacks: int
    episode_id: str
    action: str | None
    info: dict[str, Any]
    messages: NotRequired[Messages]


class State(Input, Output, total=False):
    """All channels, plain enough for JSON.

    ``recurrent`` is packed (``nodes.update_state``), ``events`` are rows of kind, text and step.
    ``turns`` counts the steps that the thread's earlier tasks took, where they are one conversation;
    ``messages`` is that conversation's newest part, as chat clients show it.
    """

    episode: dict[str, Any]
    episodes: int
    session: dict[str, Any]
    before: dict[str, Any] | None
    recurrent: Any
    events: list[list[Any]]
    decision: dict[str, Any] | None
    turns: int
    observation: Annotated[Observation, UntrackedValue]
    context: Annotated[BuiltContext, UntrackedValue]
    outcome: Annotated[Observation, UntrackedValue]


#: Channels that no checkpoint keeps: a resumed run computes them again from the session.
UNTRACKED = frozenset(("observation", "context", "outcome"))


def read_events(state: State) -> tuple[Event, ...]:
    """Return the state's recent events."""
    return tuple(Event(*row) for row in state.get("events") or ())


def context_schema() -> type[BaseModel]:
    """Return the schema of per-call overrides: each slot a union over its registered kinds.

    ``graph.invoke(task, context={"context": {"kind": "window"}})`` is checked against it, and
    ``graph.get_context_jsonschema()`` shows every kind with its parameters.
    """
    fields: dict[str, Any] = {}
    for slot in SLOTS:
        union: Any = Union[tuple(registry().slots[slot].values())]  # noqa: UP007
        kinds: Any = Annotated[union, Field(discriminator="kind")]
        several: Any = list[kinds] if slot == "memory" else kinds
        fields[slot] = (several | None, None)
    fields["__config__"] = ConfigDict(extra="forbid")
    fields["__validators__"] = {"parse": model_validator(mode="before")(overrides_of)}
    return create_model("AgentContext", **fields)


def overrides_of(context: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return parsed overrides by slot; ``context`` is one builder, or a mapping of slots.

    Raises ``UserError`` for an unknown slot or kind.
    """
    slots = dict(context or {})
    slots = {"context": slots} if "kind" in slots else slots
    if unknown := sorted(set(slots) - set(SLOTS)):
        raise UserError(f"no slot '{unknown[0]}': the slots are {', '.join(SLOTS)}")
    parse = registry().parse_slot
    return {slot: parse(slot, value) for slot, value in slots.items() if value is not None}


#: Tokens (cl100k) that the messages in state may have.
_MESSAGE_TOKENS = 4000
#: Characters of a thread's name: with "thread " before it, it fits the 200 of a memory's user.
_MAX_THREAD_NAME = 190


def memory_owner(configurable: Mapping[str, Any]) -> str:
    """Return the owner of a call's long-term memory, for configs that name no user.

    It is the user whom a server authenticated, else the call's ``user_id``, else the thread: two
    threads share nothing unless their caller says that they are one user's.
    """
    if user := configurable.get("langgraph_auth_user_id") or configurable.get("user_id"):
        return str(user)
    thread = str(configurable.get("thread_id") or "")
    if len(thread) > _MAX_THREAD_NAME:
        thread = hashlib.sha256(thread.encode("utf-8", "replace")).hexdigest()
    return f"thread {thread}" if thread else ""


def to_plain(value: Any) -> Any:
    """Return a session (or any JSON-like value) as plain dicts, lists and numbers, for checkpoints.

    Characters that some store refuses are replaced (see ``stores.text.storable``).
    """
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {storable(str(key)): to_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    return value


def pending_question(state: State) -> dict[str, Any] | None:
    """Return the newest message as a task, if it is a person's and unanswered; else None."""
    messages = state.get("messages") or []
    if not messages or messages[-1].type != "human":
        return None
    is_running = state.get("session") is not None and not state.get("done", True)
    text = str(messages[-1].text).strip()
    return None if is_running or not text else {"question": text}


def conversation_update(record: StepRecord, state: State) -> dict[str, Any]:
    """Return the update of ``messages`` after a step: question (if it came as a task) and answer."""
    answer = answered(record.decision.action)
    if answer is None:
        return {}
    earlier = list(state.get("messages") or [])
    new: list[AnyMessage] = []
    last = earlier[-1] if earlier else None
    if last is None or last.type != "human" or str(last.text).strip() != record.instruction:
        new.append(HumanMessage(record.instruction, id=f"{record.episode_id}:{record.step}:q"))
    metadata = {"reason": record.decision.reason} if record.decision.reason else {}
    name = f"{record.episode_id}:{record.step}:a"
    new.append(AIMessage(answer, id=name, response_metadata=metadata))
    newest = trim_messages(
        [*earlier, *new],
        max_tokens=_MESSAGE_TOKENS,
        token_counter=lambda part: sum(count_tokens(str(m.text)) for m in part),
        strategy="last",
        start_on="human",
    )
    ids = {message.id for message in newest or new[-1:]}
    removed = [RemoveMessage(id=m.id) for m in earlier if m.id is not None and m.id not in ids]
    return {"messages": [*removed, *(m for m in new if m.id in ids)]}
