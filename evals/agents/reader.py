"""The deterministic agent: it follows its plan, and knows of earlier results only what it is shown.

Where a fact is not in the prompt, it does what a careful model does: it says what it has so far,
recalls the shortened result (if there is such a tool and the call can be seen), else makes the call
again, each once; then it gives up and guesses. It reads the newest mention of a fact; what is quoted
from earlier counts as older.
"""

import re
from collections.abc import Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import BaseTool, StructuredTool
from pydantic import Field

from stategate.envs.messages.history import text_of, tokens_of
from stategate.evals.agents.billing import Bill
from stategate.evals.agents.tasks import AgentTask, Fact
from stategate.nodes.build_context.messages.appendix import LEAD as TAIL_LEAD
from stategate.stores.tokens import count_tokens

_NOTE = re.compile(r"\[cut \d+ tokens: recall (\w{5})\]\s*(?:\n|\Z)")
_VALUE = r"[A-Z]\d{4}"
_THOUGHT = (
    "I noted what the last result says and compared it with what I still have to do. "
    "The next item of the checklist is {argument}, so I look it up now with {tool}."
)


_WANTED = " There I want the {fact.attribute} of {fact.entity}."


def _said(fact: Fact, value: str | None) -> str:
    return "" if value is None else f"The {fact.attribute} of {fact.entity} is {value}."


class PlannedAgent(BaseChatModel):
    """A chat model that plays a task; ``bill`` counts what its prompts would cost."""

    task: Any
    bill: Bill | None = None
    can_recall: bool = False
    at: int = 0
    calls: int = 0
    orphans: int = 0
    mistakes: int = 0
    tried: set[str] = Field(default_factory=set)

    @property
    def _llm_type(self) -> str:
        return "planned"

    def bind_tools(self, tools: Sequence[Any], **extra: Any) -> Any:
        """Take the tools; their schemas lead every prompt."""
        self.can_recall = any(getattr(tool, "name", "") == "recall" for tool in tools)
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **extra: Any) -> ChatResult:
        self.calls += 1
        self.orphans += orphans_in(messages)
        reply = self._next(messages)
        if self.bill is not None:
            self.bill.call(messages, reply)
        size = sum(tokens_of(message, count_tokens) for message in messages)
        reply.usage_metadata = {
            "input_tokens": size,
            "output_tokens": tokens_of(reply, count_tokens),
            "total_tokens": size + tokens_of(reply, count_tokens),
        }
        return ChatResult(generations=[ChatGeneration(message=reply)])

    def _next(self, messages: Sequence[BaseMessage]) -> AIMessage:
        task: AgentTask = self.task
        if self.at < len(task.steps):
            step = task.steps[self.at]
            argument, noted = step.argument, ""
            if step.needs is not None:
                value = read(step.needs, messages, task.entities)
                if value is None and (again := self._look_again(step.needs, messages, "")):
                    return again
                argument = value or "unknown"
                noted = _said(step.needs, value)
                self.mistakes += argument != step.argument
            self.at += 1
            why = "" if step.wants is None else _WANTED.format(fact=step.wants)
            return self._call(step.tool, argument, f"{noted} {_THOUGHT}{why}".strip())
        values = [read(fact, messages, task.entities) for fact in task.facts]
        noted = " ".join(map(_said, task.facts, values)).strip()
        for fact, value in zip(task.facts, values, strict=True):
            if value is None and (again := self._look_again(fact, messages, noted)) is not None:
                return again
        return AIMessage("; ".join(value or "unknown" for value in values))

    def _look_again(
        self, fact: Fact, messages: Sequence[BaseMessage], noted: str
    ) -> AIMessage | None:
        step = self.task.steps[fact.step]
        key = f"{fact.entity}/{fact.attribute}"
        if self.can_recall:
            name = note_of(step.argument, messages)
            if name and f"recall {key}" not in self.tried:
                self.tried.add(f"recall {key}")
                return self._call("recall", name, f"{noted} I need that result whole again.")
            if f"words {key}" not in self.tried:
                self.tried.add(f"words {key}")
                words = f"{fact.entity} {fact.attribute}"
                return self._call("recall", words, f"{noted} I look for it in earlier results.")
        if f"again {key}" not in self.tried:
            self.tried.add(f"again {key}")
            return self._call(step.tool, step.argument, f"{noted} I look it up again.")
        return None

    def _call(self, tool: str, argument: str, thought: str) -> AIMessage:
        name = "id" if tool == "recall" else "argument"
        call = {"name": tool, "args": {name: argument}, "id": f"call_{self.calls}"}
        return AIMessage(thought.format(tool=tool, argument=argument).strip(), tool_calls=[call])


def tools_of(task: AgentTask) -> list[BaseTool]:
    """Return the task's tools: a result that can be had once only is gone the second time."""
    asked: set[str] = set()
    steps = {(step.tool, step.argument): step for step in task.steps}

    def made(tool: str) -> BaseTool:
        def look(argument: str) -> str:
            step = steps.get((tool, argument))
            if step is None or (step.once and argument in asked):
                return "nothing there (any more)"
            asked.add(argument)
            return step.result

        return StructuredTool.from_function(
            look, name=tool, description=f"{tool}: look one thing up."
        )

    return [made(tool) for tool in sorted({step.tool for step in task.steps})]


def orphans_in(messages: Sequence[BaseMessage]) -> int:
    """Count results without their call, and calls without their result, as a provider would."""
    waiting: set[str] = set()
    found = 0
    for message in messages:
        if isinstance(message, ToolMessage):
            found += message.tool_call_id not in waiting
            waiting.discard(message.tool_call_id)
        else:
            found += len(waiting)
            waiting = {str(call["id"]) for call in getattr(message, "tool_calls", ())}
    return found


def note_of(argument: str, messages: Sequence[BaseMessage]) -> str | None:
    """Return the name in the note under the result of the call with this argument."""
    calls = {
        call["id"]
        for message in messages
        if isinstance(message, AIMessage)
        for call in message.tool_calls
        if argument in call["args"].values()
    }
    for message in messages:
        if isinstance(message, ToolMessage) and message.tool_call_id in calls:
            found = _NOTE.search(text_of(message).partition(TAIL_LEAD)[0])
            if found:
                return found[1]
    return None


def read(fact: Fact, messages: Sequence[BaseMessage], entities: Sequence[str]) -> str | None:
    """Return the newest value of ``fact`` that the messages show, None where none does."""
    texts = [text_of(message) for message in messages]
    bodies = [text.partition(TAIL_LEAD)[0] for text in texts]
    tails = [tail for text in texts if (tail := text.partition(TAIL_LEAD)[2])]
    for text in (*reversed(bodies), *reversed(tails)):
        if fact.entity in text and (value := _in_text(fact, text, entities)) is not None:
            return value
    return None


def _in_text(fact: Fact, text: str, entities: Sequence[str]) -> str | None:
    entity, name = re.escape(fact.entity), re.escape(fact.attribute)
    key = re.escape(fact.attribute.replace(" ", "_"))
    for pattern in (
        rf"[Tt]he {name} of {entity} is ({_VALUE})",
        rf"{entity} reports {name} ({_VALUE})",
        rf'"name": "{entity}"[^{{}}]*?"{key}": "({_VALUE})"',
    ):
        if found := re.findall(pattern, text):
            return str(found[-1])
    return _in_table(fact, text) or _in_section(fact, text, entities)


def _in_table(fact: Fact, text: str) -> str | None:
    """Read a row by its header, which must be shown."""
    header: list[str] = []
    for line in text.splitlines():
        cells = line.split(",")
        if cells[0] == "name":
            header = cells
        elif (
            cells[0].endswith(fact.entity)
            and fact.attribute in header
            and len(cells) == len(header)
        ):
            value = cells[header.index(fact.attribute)]
            return value if re.fullmatch(_VALUE, value) else None
    return None


def _in_section(fact: Fact, text: str, entities: Sequence[str]) -> str | None:
    """Read "attribute: value" below a heading, before the next heading."""
    plain = re.sub(r"<[^<>]+>", " ", text)
    others = "|".join(re.escape(name) for name in entities if name != fact.entity)
    heading = rf"(?:^|[#\s])\s*{re.escape(fact.entity)}:?\s*(?:\n|\s{{2,}}|…)"
    for found in reversed(list(re.finditer(heading, plain, re.MULTILINE))):
        section = plain[found.end() :]
        if others and (end := re.search(others, section)):
            section = section[: end.start()]
        value = re.search(rf"{re.escape(fact.attribute)}[:\s]+({_VALUE})", section)
        if value:
            return value[1]
    return None
