"""Who plays with real tools: an actor behind a chat model's face, and what stands around a small model.

:class:`ActorModel` plays any world through its tools (``graph.world_tools``) with any actor of
``stategate kinds``: it knows of the past what its prompt shows, and nothing else. :class:`WrittenCalls`
reads the calls that small models write as JSON text. :class:`Metered` counts what each prompt costs.
"""

import json
from collections.abc import Callable, Collection, Sequence
from typing import Any

from langchain.agents.middleware.types import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import Field

from stategate.envs.messages.history import text_of, tokens_of
from stategate.envs.protocols import Observation
from stategate.evals.agents.billing import Bill
from stategate.evals.agents.reader import note_of, orphans_in
from stategate.graph.world_tools import ACTIONS, OVER
from stategate.nodes.models.asking import objects_in
from stategate.nodes.protocols import ContextRequest
from stategate.nodes.resources import Resources
from stategate.nodes.retrieval.page import PageSource
from stategate.nodes.retrieval.past import candidates
from stategate.stores.text import one_line
from stategate.stores.tokens import count_tokens
from stategate.stores.traces import Event

_ROOM = 10**6  # tokens: what the actor reads was cut by the middleware, not by its own builder
Handler = Callable[[ModelRequest[Any]], ModelResponse[Any]]


class ActorModel(BaseChatModel):
    """A chat model that plays a world with ``actor``; after ``most`` calls it gives up."""

    instruction: str
    actor: Any
    builder: Any
    resources: Any
    most: int = 50
    calls: int = 0
    can_recall: bool = False
    recalled: list[str] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "actor"

    def bind_tools(self, tools: Sequence[Any], **extra: Any) -> Any:
        """Take the tools."""
        self.can_recall = any(getattr(tool, "name", "") == "recall" for tool in tools)
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **extra: Any) -> ChatResult:
        self.calls += 1
        return ChatResult(generations=[ChatGeneration(message=self._next(messages))])

    def _next(self, messages: Sequence[BaseMessage]) -> AIMessage:
        results = [m for m in messages if isinstance(m, ToolMessage)]
        if results and OVER in text_of(results[-1]):
            return AIMessage("The task is done.")
        if self.calls > self.most:
            return AIMessage("I give up.")
        if not results:
            return self._call("reset", {})
        page, actions = _page(text_of(results[-1]))
        if not actions:  # the page's actions were cut
            return self._look_again(messages, results[-1])
        observation = Observation(page, actions)
        resources: Resources = self.resources
        source = candidates(
            PageSource(resources.view, observation, lambda: resources.embedder),
            self._events(messages),
            "world",
            resources.view,
            lambda: resources.embedder,
        )
        request = ContextRequest(
            self.instruction,
            observation,
            source,
            tuple(self._events(messages)),
            _ROOM,
            view=resources.view,
        )
        decision = self.actor(self.builder(request), self.calls)
        return self._call("step", {"action": decision.action})

    def _events(self, messages: Sequence[BaseMessage]) -> list[Event]:
        """Return the steps that the prompt shows; what came of the last one is the page."""
        events: list[Event] = []
        at = 0
        answers = {m.tool_call_id: text_of(m) for m in messages if isinstance(m, ToolMessage)}
        for message in messages:
            for call in getattr(message, "tool_calls", ()):
                page, _ = _page(answers.get(str(call["id"]), ""))
                if call["name"] == "step":
                    events.append(Event("ACT", str(call["args"].get("action", "")), at))
                    at += 1
                if call["name"] in ("reset", "step"):
                    events.append(Event("OBS", one_line(page), at))
        return events[:-1]

    def _look_again(self, messages: Sequence[BaseMessage], last: ToolMessage) -> AIMessage:
        calls = [
            c
            for m in messages
            for c in getattr(m, "tool_calls", ())
            if c["id"] == last.tool_call_id
        ]
        argument = str(next(iter(calls[0]["args"].values()), "")) if calls else ""
        name = note_of(argument, messages) if argument else None
        if self.can_recall and name and name not in self.recalled:
            self.recalled.append(name)
            return self._call("recall", {"id": name})
        return self._call("step", {"action": "look"})

    def _call(self, tool: str, args: dict[str, Any]) -> AIMessage:
        return AIMessage("", tool_calls=[{"name": tool, "args": args, "id": f"call_{self.calls}"}])


def _page(text: str) -> tuple[str, tuple[str, ...]]:
    """Return a page and its actions as :func:`graph.world_tools.shown` wrote them."""
    page, _, listed = text.partition(ACTIONS)
    if page.startswith("Task: "):
        page = page.partition("\n\n")[2]
    actions = tuple(line[2:] for line in listed.splitlines() if line.startswith("- "))
    return page, actions


class WrittenCalls(AgentMiddleware[Any, Any, Any]):
    """Take a JSON object ``{"name": …, "arguments": …}`` in a reply for the call that it spells."""

    def wrap_model_call(self, request: ModelRequest[Any], handler: Handler) -> ModelResponse[Any]:
        """Call the model, and read its reply."""
        response = handler(request)
        known = {_name_of(tool) for tool in request.tools}
        lead = f"written_{len(request.messages)}"
        response.result[:] = [read_calls(message, known, lead) for message in response.result]
        return response


def read_calls(message: BaseMessage, known: Collection[str], lead: str) -> BaseMessage:
    """Return ``message`` with the first call that its text spells, as it is where it spells none.

    Small models write on, and make up what the calls come to: what stands after the first is left out.
    """
    if not isinstance(message, AIMessage) or message.tool_calls:
        return message
    for spelled in objects_in(text_of(message)):
        args = spelled.get("arguments", spelled.get("parameters", {}))
        if spelled.get("name") in known and isinstance(args, dict):
            call = {"name": spelled["name"], "args": args, "id": lead, "type": "tool_call"}
            own = {"content": json.dumps(spelled), "tool_calls": [call]}  # else it falls silent
            return message.model_copy(update=own)
    return message


class Metered(AgentMiddleware[Any, Any, Any]):
    """Counts calls, tokens, orphans and the bill of what the model really reads: put it last."""

    def __init__(self) -> None:
        super().__init__()
        self.bill = Bill(0)
        self.calls = self.orphans = 0
        self.offered = self.lost = 0  # commands of the pages that calls were about; those cut

    def wrap_model_call(self, request: ModelRequest[Any], handler: Handler) -> ModelResponse[Any]:
        """Call the model and count."""
        self.calls += 1
        self.orphans += orphans_in(request.messages)
        offered, readable = (_commands(of) for of in (request.state["messages"], request.messages))
        self.offered += len(offered)
        self.lost += len(offered - readable)
        self.bill.fixed = sum(count_tokens(str(_schema(tool))) for tool in request.tools)
        if request.system_message is not None:
            self.bill.fixed += tokens_of(request.system_message, count_tokens)
        response = handler(request)
        self.bill.call(request.messages, response.result[0])
        return response


def _commands(messages: Sequence[BaseMessage]) -> set[str]:
    """Return the commands that the last result lists, as far as they can be read."""
    results = [message for message in messages if isinstance(message, ToolMessage)]
    return set(_page(text_of(results[-1]))[1]) if results else set()


def _schema(tool: Any) -> Any:
    return tool if isinstance(tool, dict) else convert_to_openai_tool(tool)


def _name_of(tool: Any) -> str:
    return str(tool.get("name", "")) if isinstance(tool, dict) else str(tool.name)
