"""Any world as tools of any agent: ``reset`` begins a task, ``step`` takes an action.

    from stategate.graph.world_tools import world_tools
    agent = create_agent(model, world_tools("webshop"))          # a kind of ``stategate kinds``
    agent = create_agent(model, world_tools(Garden(), GardenView(), task={"thing": "lantern"}))

Worlds are pure functions over small sessions, and the session lies beside its page, in the artifact of
the tool's message: no model reads it. So a thread of the agent resumes, forks and goes back with its
world, whatever keeps its checkpoints, and two threads never meet.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.tools import BaseTool, InjectedToolCallId, StructuredTool
from langgraph.prebuilt import InjectedState

from stategate.envs.protocols import (
    Observation,
    Session,
    View,
    World,
    playable,
    takes_text,
    verb_of,
)
from stategate.graph.tool_results import artifact_of, messages_of
from stategate.nodes.act.replies import parse
from stategate.nodes.protocols import EnvParams
from stategate.nodes.registry import registry
from stategate.nodes.resources import Resources
from stategate.stores.text import one_line

#: Between a page and its actions, and what a last page ends with.
ACTIONS = "\n\nActions:\n"
OVER = "The task is over."
_KEY = "stategate_world"
_Artifact = dict[str, Any] | None
_State = Annotated[Any, InjectedState]
_CallId = Annotated[str, InjectedToolCallId]


@dataclass(frozen=True)
class Standing:
    """An agent's place in a world: the session after its last step, with reward and step count."""

    session: Session
    reward: float
    done: bool
    steps: int


def world_tools(
    world: "World | EnvParams | str | Mapping[str, Any]",
    view: View | None = None,
    *,
    task: Mapping[str, Any] | None = None,
    name: str = "",
) -> list[BaseTool]:
    """Return ``reset`` and ``step`` of a world, for ``create_agent`` or a ``ToolNode``.

    ``world`` is a world, or an environment kind with its parameters; ``view`` says how its actions are
    written. With ``task`` the agent plays that one; without, it begins any by its number. ``name``
    leads the tools' names (``house`` makes ``house_reset``), so that an agent can have several worlds.
    Calls of ``step`` in one message are taken in their order. Raises ``UserError`` for an unknown kind.
    """
    params: Any = registry().parse("env", world) if isinstance(world, str | Mapping) else world
    if not isinstance(params, EnvParams):
        return _Tools(params, view or View(), task, name).tools()
    rules: World = params.build(Resources(env=params))
    return _Tools(rules, view or params.view(), task, name).tools()


def standing(messages: Sequence[BaseMessage], name: str = "") -> Standing | None:
    """Return where the agent of these messages stands, None where no task was begun."""
    for message in reversed(messages):
        place = artifact_of(message).get(_KEY) or {}
        if place.get("name") == name:
            return Standing(place["session"], place["reward"], place["done"], place["steps"])
    return None


class _Tools:
    def __init__(self, world: World, view: View, task: Mapping[str, Any] | None, name: str) -> None:
        self._world, self._view, self._task, self._name = world, view, task, name
        self._lead = f"{name}_" if name else ""

    def tools(self) -> list[BaseTool]:
        """Return the two tools."""
        brief = one_line(self._view.brief.partition("Answer with one JSON")[0])

        def reset(state: _State, tool_call_id: _CallId, task: int = 0) -> tuple[str, _Artifact]:
            return self._answer(state, tool_call_id, "reset", {"task": task})

        def begin(state: _State, tool_call_id: _CallId) -> tuple[str, _Artifact]:
            return self._answer(state, tool_call_id, "reset", {})

        def step(action: str, state: _State, tool_call_id: _CallId) -> tuple[str, _Artifact]:
            return self._answer(state, tool_call_id, "step", {"action": action})

        which = "the task" if self._task is not None else "task number `task` (from 0)"
        begins = f"Begin {which} of '{self._world.name}': tells it, and shows the first page."
        takes = f"Take one action in '{self._world.name}', written as the page lists it. {brief}"
        return [
            StructuredTool.from_function(
                function,
                name=f"{self._lead}{verb}",
                description=about,
                response_format="content_and_artifact",
            )
            for verb, function, about in (
                ("reset", reset if self._task is None else begin, begins),
                ("step", step, takes),
            )
        ]

    def _answer(
        self, state: Any, call_id: str, verb: str, own_args: Mapping[str, object]
    ) -> tuple[str, _Artifact]:
        """Return a call's text and the artifact that holds the session after it.

        Calls of one message run at the same time and do not see each other's results. A world is pure,
        so the calls before this one are taken here again.
        """
        messages = messages_of(state)
        at, text = standing(messages, self._name), ""
        for earlier, args in self._calls_until(messages, call_id) or [(verb, own_args)]:
            text, at = self._take(earlier, args, at)
        return text, None if at is None else {_KEY: {"name": self._name, **asdict(at)}}

    def _calls_until(
        self, messages: Sequence[BaseMessage], call_id: str
    ) -> list[tuple[str, Mapping[str, object]]]:
        """Return this world's calls of the last message up to ``call_id``, [] where it has none."""
        last = next((m for m in reversed(messages) if isinstance(m, AIMessage)), None)
        calls: list[tuple[str, Mapping[str, object]]] = []
        for call in last.tool_calls if last is not None else ():
            if call["name"] in (f"{self._lead}reset", f"{self._lead}step"):
                calls.append((call["name"].removeprefix(self._lead), call["args"]))
            if call["id"] == call_id:
                return calls
        return []

    def _take(
        self, verb: str, args: Mapping[str, object], at: Standing | None
    ) -> tuple[str, Standing | None]:
        """Return one call's text, and the agent's place after it."""
        if verb == "reset":
            return self._begin(args.get("task", 0))
        if at is None:
            return f"no task was begun: call {self._lead}reset first", None
        if at.done:
            return f"the task is over: {self._lead}reset begins another", at
        page = self._world.observe(at.session)
        action = str(args.get("action", "")).strip()
        # Small models give an action's free words an argument of their own.
        words = [text for key, text in args.items() if key != "action" and text]
        spellings = (action, *(f"{action}[{text}]" for text in words))
        action = next(
            filter(None, (parse(spelling, page.actions) for spelling in spellings)), action
        )
        if not self._view.actions.accepts(action, page):
            free = next((a for a in page.actions if takes_text(a) and verb_of(a) == action), None)
            hint = "copy one of the listed actions"
            hint = f"write {free} with words of your own" if free else hint
            return (
                f"{page_text(page)}\n\n'{one_line(action)[:80]}' cannot be done here: {hint}.",
                at,
            )
        session, after = self._world.step(at.session, action)
        return page_text(after), Standing(session, after.reward, after.done, at.steps + 1)

    def _begin(self, number: object) -> tuple[str, Standing | None]:
        task = self._task
        if task is None:
            every = playable(self._world).tasks()
            number = int(str(number)) if str(number).isdecimal() else number  # models write "3" too
            if not isinstance(number, int) or not 0 <= number < len(every):
                return f"there is no task {number}: tasks are 0 to {len(every) - 1}", None
            task = every[number]
        session, page = self._world.reset(task)
        instruction = one_line(self._world.instruction(session))
        return f"Task: {instruction}\n\n{page_text(page)}", Standing(
            session, page.reward, page.done, 0
        )


def page_text(page: Observation) -> str:
    """Return a page as a tool's text: its own text, then its actions, a line each."""
    text = page.text.strip()
    if page.done:
        return f"{text}\n\n{OVER} Reward: {page.reward:g}".strip()
    return text + ACTIONS + "\n".join(f"- {one_line(action)}" for action in page.actions)
