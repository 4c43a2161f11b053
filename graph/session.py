"""One episode, controlled by a person or a script: step, run, act, preview, go back, fork."""

import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, cast

from langchain_core.runnables import RunnableConfig

from stategate.envs.protocols import Observation, fill, takes_text
from stategate.graph.agent import Agent
from stategate.graph.build import Graph
from stategate.graph.checkpoints import thread_name
from stategate.graph.nodes import NODES, apply_decision, step_record, update_state
from stategate.graph.state import UNTRACKED, State, overrides_of
from stategate.nodes.act.replies import parse
from stategate.nodes.protocols import BuiltContext, Decision, StepRecord
from stategate.stores.errors import UserError
from stategate.stores.text import plural


def write_head(graph: Graph, config: RunnableConfig, values: Mapping[str, Any], next_: str) -> None:
    """Write ``values`` as the newest checkpoint of a thread, with ``next_`` as the next node."""
    tracked = {k: v for k, v in values.items() if k not in UNTRACKED}
    graph.update_state(config, tracked, as_node=NODES[NODES.index(next_) - 1])


@dataclass(frozen=True)
class Preview:
    """A page, the context that one builder makes of it, and the actor's decision; nothing was done.

    ``decision`` is None where no actor was asked. ``seconds`` count building and choosing, without
    loading.
    """

    observation: Observation
    context: BuiltContext
    decision: Decision | None
    seconds: float


class Session:
    """A thread of a graph, one step at a time. Needs a graph with a checkpointer.

    Another ``Session`` with the same thread id continues this one, in a later process too if the
    checkpointer persists. ``user`` owns the long-term memory, unless the config names an owner
    (default: the thread). Raises ``UserError`` for a graph without a checkpointer.
    """

    def __init__(
        self,
        graph: Graph,
        thread_id: str,
        task: Mapping[str, Any] | None = None,
        context: Mapping[str, Any] | None = None,
        user: str | None = None,
    ) -> None:
        if not graph.checkpointer:
            raise UserError("a Session needs a checkpointer: build_graph(config) brings one")
        self.graph = graph
        self.thread_id = thread_name(thread_id)
        self.user = user
        self.overrides = overrides_of(context)
        #: Metadata of every checkpoint that is written from now on.
        self.metadata: dict[str, str] = {}
        self._task: dict[str, Any] | None = None
        if task is not None:
            self.start(task)

    @property
    def config(self) -> RunnableConfig:
        """The graph config of this thread."""
        owner = {"user_id": self.user} if self.user else {}
        named = {"thread_id": self.thread_id, **owner}
        return {"configurable": named, "metadata": dict(self.metadata)}

    @property
    def agent(self) -> Agent:
        """The agent behind the graph."""
        return self.graph.agent

    @property
    def values(self) -> State:
        """The state's tracked values ({} before the first step)."""
        return cast(State, self.graph.get_state(self.config).values)

    @property
    def done(self) -> bool:
        """Whether the episode is over (done, or the step cap is reached)."""
        if self._task is not None:
            return False
        self.graph.settle(self.config)
        snapshot = self.graph.get_state(self.config)
        values = snapshot.values
        # A killed run leaves a step that no memory writer has seen, or a task that has not begun.
        is_begun = snapshot.next and values.get("task") is not None
        is_cut = "write_memory" in snapshot.next or is_begun
        if "session" not in values or is_cut:
            return False
        return bool(values["done"]) or values["steps"] >= self.agent.config.max_steps

    @property
    def observation(self) -> Observation:
        """The page that the next step will read (the last page when the episode is over)."""
        if self._task is not None or "session" not in self.values:
            self._advance(interrupt_after=["observe"])
        return self._agent().world.observe(self.values["session"])

    def start(self, task: Mapping[str, Any]) -> "Session":
        """Set the task that the next step begins, such as ``{"goal": 3}``."""
        self._task = dict(task.get("task", task))
        return self

    def step(self, on_text: Callable[[str], object] | None = None) -> StepRecord:
        """Take one step with the session's actor; ``on_text`` gets the model's words as they come.

        Raises ``UserError`` when there is none to take.
        """
        started = time.perf_counter()
        with self.graph.alone(self.config):
            self._require_running()
            changes = self._advance(on_text, interrupt_after=["write_memory"])
            return replace(self.last(changes), seconds=time.perf_counter() - started)

    def ask(self, question: str, on_text: Callable[[str], object] | None = None) -> StepRecord:
        """Ask a question on the thread; ``on_text`` gets the answer as it is written.

        Asking again after a crash finishes the same turn, which memory keeps once.
        """
        with self.graph.alone(self.config):
            was_cut = self.graph.settle(self.config)
            snapshot = self.graph.get_state(self.config)
            values, is_open, pending = snapshot.values, bool(snapshot.next), None
            if is_open and values.get("task") is not None:
                pending = values["task"].get("question")
            elif values.get("session"):
                pending = self.agent.world.instruction(values.get("before") or values["session"])
            if pending == question and is_open:
                return self.step(on_text)
            if pending == question and was_cut:  # answered and written, but never returned
                return self.last()
            return self.start({"question": question}).step(on_text)

    def last(self, changes: Mapping[str, Any] | None = None) -> StepRecord:
        """Return the last step. Raises ``UserError`` without one.

        ``changes`` are those of its nodes; what they lack is computed again from the state: nodes whose
        writes outlived a kill did not run again.
        """
        agent, after, made = self._agent(), self.values, changes or {}
        if not after.get("steps"):
            raise UserError("no step was taken on this thread")
        step = after["steps"] - 1
        if "context" not in made or "observation" not in made:
            state = _fold(agent, self._before(step))
            made = {"observation": agent.observation(state), "context": agent.context(state)}
        return step_record(agent, cast(State, {**after, **made, "steps": step}))

    def run(self) -> list[StepRecord]:
        """Take steps until the episode is over; returns those taken."""
        results = []
        while not self.done:
            results.append(self.step())
        return results

    def act(self, action: str) -> StepRecord:
        """Take a person's own action instead of the actor's. Raises ``UserError`` if illegal."""
        started = time.perf_counter()
        with self.graph.alone(self.config):
            self._require_running()
            agent = self._agent()
            state = self._at_acting(agent)
            observation, context = agent.observation(state), agent.context(state)
            action = _legal_form(agent, action, observation)
            decision = Decision(action, reason="a person's own action")
            update = apply_decision(agent, state, decision, context)
            update["recurrent"] = state["recurrent"]
            write_head(self.graph, self.config, update, "write_memory")
            self._advance(interrupt_after=["write_memory"])
            return replace(self.last(), seconds=time.perf_counter() - started)

    def look(
        self, context: Mapping[str, Any] | None = None, step: int | None = None, *, act: bool = True
    ) -> Preview:
        """Return what the agent would read and do with another context builder; changes nothing.

        ``step`` is an earlier step of this episode, by default the next. ``context`` is a builder or
        overrides of slots; ``act=False`` asks no actor.
        """
        agent = self._agent(context)
        state = self._at_acting(agent, step)
        agent.resources.get(agent.config.context)  # loading is not building
        actor = agent.actor if act else None
        started = time.perf_counter()
        built = agent.context(state)
        decision = actor(built, state["steps"]) if actor is not None else None
        seconds = time.perf_counter() - started
        return Preview(agent.observation(state), built, decision, seconds)

    def use(self, context: Mapping[str, Any]) -> "Session":
        """Go on with another context builder (or other overrides of slots) from the next step."""
        self.overrides = {**self.overrides, **overrides_of(context)}
        return self

    def moments(self) -> list[State]:
        """Return the state at each step so far, and at the next if there is one, as the actor found it.

        Its recurrent state includes that step's page.
        """
        states, agent = dict(sorted(self._newest_first())), self._agent()
        if self.done:
            states.pop(self.values["steps"], None)
        return [_fold(agent, state) for state in states.values()]

    def back(self, n: int = 1) -> "Session":
        """Undo the last ``n`` steps; the undone ones stay in the checkpoint history."""
        with self.graph.alone(self.config):
            count = self.values.get("steps", 0)
            if n < 1 or count - n < 0:
                raise UserError(f"cannot go back {plural(n, 'step')}: only {count} can be undone")
            write_head(self.graph, self.config, self._before(count - n), _node_at(count - n))
            self._task = None
            return self

    def fork(
        self,
        context: Mapping[str, Any] | None = None,
        thread_id: str | None = None,
        step: int | None = None,
    ) -> "Session":
        """Return a copy of this session on a new thread, perhaps with other nodes.

        ``context`` is a context builder (``{"kind": "window"}``) or overrides of several slots
        (``{"context": {...}, "actor": {...}}``). ``step`` is the step to fork at, by default the
        next. The copy can go back as far as this session, which does not change. A trace of the copy
        begins at the fork.
        """
        name = thread_id or f"{self.thread_id}-{uuid.uuid4().hex[:8]}"
        new = Session(self.graph, name, user=self.user)
        new.overrides = {**self.overrides, **overrides_of(context)}
        if self._task is not None:
            return new.start(self._task)
        values = self.values
        if "session" not in values:
            raise UserError("nothing to fork: start a task first")
        last = values["steps"] if step is None else step
        self._before(last)  # refuses a step that is not there
        episode = uuid.uuid4().hex
        for number, state in sorted(self._newest_first()):
            if number <= last:
                copied = {**state, "episode_id": episode, "episodes": 1}
                write_head(self.graph, new.config, copied, _node_at(number))
        return new

    def _newest_first(self) -> Iterator[tuple[int, State]]:
        """Yield (step, tracked state before it) of the episode, the next step first.

        The history keeps undone steps, too: of each step the newest snapshot counts.
        """
        if self._task is not None:
            return
        values = self.values
        step, episode = values.get("steps", -1), values.get("episode_id")
        for snapshot in self.graph.get_state_history(self.config):
            earlier, node = snapshot.values, (snapshot.next or ("observe",))[0]
            is_same = earlier.get("episode_id") == episode and earlier.get("steps") == step
            if is_same and node == _node_at(step):
                yield step, cast(State, earlier)
                step -= 1
            if step < 0:
                return

    def _before(self, step: int) -> State:
        """Return the tracked state before a step. Raises ``UserError`` where its checkpoint is gone."""
        for number, state in self._newest_first():
            if number == step:
                return state
        taken = self.values.get("steps", 0)
        if 0 <= step <= taken:
            raise UserError(f"the checkpoint of step {step} is gone: start the task again")
        raise UserError(f"there is no step {step}: {taken} were taken")

    def _at_acting(self, agent: Agent, step: int | None = None) -> State:
        """Return the state that the actor reads at a step, by default the next."""
        if step is None or self._task is not None or step == self.values.get("steps"):
            self._require_running()
            _ = self.observation  # begins a task that was set
            snapshot = self.graph.get_state(self.config)
            if snapshot.next == ("act",):  # an interrupt waits: update_state has run
                return cast(State, snapshot.values)
            step = snapshot.values["steps"]
        return _fold(agent, self._before(step))

    def _agent(self, context: Mapping[str, Any] | None = None) -> Agent:
        """Return the agent of this thread with the session's overrides, and those of ``context``."""
        overrides = {**self.overrides, **overrides_of(context)}
        return self.agent.for_call(overrides, self.config["configurable"])

    def _advance(
        self, on_text: Callable[[str], object] | None = None, **where: Any
    ) -> dict[str, Any]:
        """Run the graph to its next interrupt or end; return what the nodes that ran changed."""
        task = {"task": self._task} if self._task is not None else None
        snapshot = self.graph.get_state(self.config)
        if task is None and not {"session", "task"} & snapshot.values.keys():
            raise UserError(f"no task yet: session.start({self.agent.example_task})")
        if task is None and not snapshot.next:  # it ended at a smaller step cap
            write_head(self.graph, self.config, snapshot.values, "observe")
        changes: dict[str, Any] = {}
        stream: Any = self.graph.stream(
            task,
            self.config,
            context=self.overrides or None,
            stream_mode=["updates"] if on_text is None else ["updates", "messages"],
            **where,
        )
        for mode, update in stream:
            if mode == "messages" and on_text is not None:
                chunk, metadata = update
                if metadata.get("langgraph_node") == "act" and chunk.type == "AIMessageChunk":
                    on_text(str(chunk.text))
                continue
            if update.get("__interrupt__"):
                raise UserError("this agent's actor is a person: call session.act(action)")
            for change in update.values():
                changes.update(change if isinstance(change, dict) else {})
            self._task = None
        return changes

    def _require_running(self) -> None:
        if self.done:
            raise UserError("the episode is over: start another, go back, or fork")


def _node_at(step: int) -> str:
    """Return the node to run after ``step`` steps; at 0 ``observe`` has run, to begin the task."""
    return "observe" if step else "update_state"


def _fold(agent: Agent, state: State) -> State:
    """Return the state after ``update_state``, as the actor reads it."""
    return cast(State, {**state, **update_state(agent, state)})


def _legal_form(agent: Agent, action: str, observation: Observation) -> str:
    """Return a person's ``action`` as the world writes it. Raises ``UserError`` if it is illegal."""
    text = " ".join(action.split())
    if takes_text(text):
        raise UserError(f"put your own words into the brackets, as in {fill(text, 'hello')}")
    for legal in (text, parse(text, observation.actions)):
        if legal is not None and agent.resources.profile.view.actions.accepts(legal, observation):
            return legal
    start = action[:200]
    nearest = get_close_matches(start, observation.actions, n=5, cutoff=0)
    more = len(observation.actions) - len(nearest)
    possible = ", ".join(nearest) + (f" and {more} more" if more else "")
    raise UserError(f"illegal action '{start}' on this page: possible are {possible}")
