"""One episode in a person's hands: step, run, go back, fork, act."""

import itertools
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from langchain_core.runnables import RunnableConfig

from stategate.envs.protocols import Observation, takes_text
from stategate.graph.agent import Agent
from stategate.graph.build import NODES, Graph
from stategate.graph.one_writer import thread_name
from stategate.graph.owners import owner_of
from stategate.graph.state import State, overrides_of, validated
from stategate.nodes.protocols import BuiltContext, Decision
from stategate.stores.errors import UserError

#: The node after which a checkpoint is written, by the node that comes next.
BEFORE = dict(zip(NODES, (NODES[-1], *NODES), strict=False))


@dataclass(frozen=True)
class Boundary:
    """The tracked state when ``values["steps"]`` steps were taken and the next has not begun."""

    values: State
    following: str


def boundaries(graph: Graph, config: RunnableConfig) -> dict[int, Boundary]:
    """Return the boundaries of the current episode's steps, from 0 to those taken.

    Undone steps stay in the history and are passed over: going backwards in time, the way to the
    head leads through the newest boundary of each number below the last.
    """
    values = graph.get_state(config).values
    found: dict[int, Boundary] = {}
    wanted = values.get("steps", -1)
    for snapshot in graph.get_state_history(config):
        if wanted < 0:
            break
        seen = snapshot.values
        if seen.get("episode_id") != values.get("episode_id") or seen.get("steps") != wanted:
            continue
        following = snapshot.next[0] if snapshot.next else "observe"
        if following == ("observe" if wanted else "update_state"):
            found[wanted] = Boundary(cast(State, seen), following)
            wanted -= 1
    return dict(sorted(found.items()))


def write_head(
    graph: Graph, config: RunnableConfig, values: Mapping[str, Any], following: str, **changes: Any
) -> None:
    """Make ``values``, with ``changes``, the head of a thread whose next node is ``following``."""
    tracked = {k: v for k, v in values.items() if k not in ("observation", "context")}
    graph.update_state(config, {**tracked, **changes}, as_node=BEFORE[following])


#: What ``on_text`` hears where a model's server broke off and is asked again from the start.
BROKEN = "\n[the model's server broke off: from the start]\n"


@dataclass(frozen=True)
class StepResult:
    """What happened in one step. ``reward`` and ``done`` are the outcome's; ``step`` counts from 0."""

    step: int
    observation: Observation
    context: BuiltContext
    decision: Decision
    outcome: Observation
    seconds: float

    @property
    def reward(self) -> float:
        """The step's reward."""
        return self.outcome.reward

    @property
    def done(self) -> bool:
        """Whether the episode is over."""
        return self.outcome.done

    @property
    def tokens(self) -> int:
        """Tokens of the built context."""
        return self.context.tokens


@dataclass(frozen=True)
class Preview:
    """What a memory would make of a moment: the page, what is read of it, what would be done.

    ``decision`` is None where nobody was asked. Seconds are those of building and of choosing, once
    what a builder loads is there.
    """

    observation: Observation
    context: BuiltContext
    decision: Decision | None
    build_seconds: float
    act_seconds: float
    budget: int


class Session:
    """A thread of a graph, one step at a time. Needs a graph with a checkpointer.

    Another ``Session`` with the same thread id, in this process or a later one (with a checkpointer
    that persists), goes on where this one stopped. Raises ``UserError`` for a graph without one.
    """

    def __init__(
        self,
        graph: Graph,
        thread_id: str,
        task: Mapping[str, Any] | None = None,
        context: Mapping[str, Any] | None = None,
    ) -> None:
        if not graph.checkpointer:
            raise UserError("a Session needs a checkpointer: build_graph(config) brings one")
        self.graph = graph
        self.thread_id = thread_name(thread_id)
        self.overrides = overrides_of(context)
        #: What is written into the metadata of every checkpoint from now on (see :attr:`kept`).
        self.metadata: dict[str, str] = {}
        self._task: dict[str, Any] | None = None
        if task is not None:
            self.start(task)

    @property
    def config(self) -> RunnableConfig:
        """The graph config of this thread."""
        named: RunnableConfig = {"configurable": {"thread_id": self.thread_id}}
        return {**named, "metadata": dict(self.metadata)} if self.metadata else named

    @property
    def kept(self) -> Mapping[str, Any]:
        """The metadata of the thread's last checkpoint ({} before the first step)."""
        return cast(Mapping[str, Any], self.graph.get_state(self.config).metadata or {})

    @property
    def agent(self) -> Agent:
        """The agent behind the graph."""
        agent: Agent = self.graph.agent  # type: ignore[attr-defined]
        return agent

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
        # What a kill left: a decision that is not kept yet, or a task that has not begun.
        is_left = "write_memory" in snapshot.next or (snapshot.next and values.get("task"))
        if "session" not in values or is_left:
            return False
        return bool(values["done"]) or values["steps"] >= self.agent.config.max_steps

    @property
    def observation(self) -> Observation:
        """The page that the next step will read (the last page when the episode is over)."""
        if self._task is not None or "session" not in self.values:
            self._advance(interrupt_after=["observe"])
        seen: Observation = self._bound.world.observe(self.values["session"])
        return seen

    def start(self, task: Mapping[str, Any]) -> "Session":
        """Set the task that the next step begins, such as ``{"goal": 3}``."""
        inner = task.get("task", task)
        if not isinstance(inner, Mapping):
            raise UserError('give a task, such as {"goal": 3}')
        self._task = dict(inner)
        return self

    def step(self, on_text: Callable[[str], Any] | None = None) -> StepResult:
        """Take one step with the session's actor; ``on_text`` hears a model's words as they come.

        Raises ``UserError`` when there is none to take.
        """
        self._require_running()
        started = time.perf_counter()
        with self.graph.alone(self.config):
            self.graph.settle(self.config)
            seen = self._half_done()
            seen.update(self._advance(on_text, interrupt_after=["write_memory"]))
            return self._result(seen, started)

    def last(self) -> StepResult:
        """Return the step taken last, drawn again. Raises ``UserError`` where none was."""
        if not self.values.get("steps"):
            raise UserError("no step was taken on this thread")
        return self._result({}, time.perf_counter())

    def run(self) -> list[StepResult]:
        """Take steps until the episode is over; returns those taken."""
        return list(self.iterate())

    def iterate(self) -> Iterator[StepResult]:
        """Take steps until the episode is over, yielding each as it ends."""
        while not self.done:
            yield self.step()

    def act(self, action: str) -> StepResult:
        """Take a person's own action instead of the actor's. Raises ``UserError`` if illegal."""
        self._require_running()
        started = time.perf_counter()
        with self.graph.alone(self.config):
            self._to_act()
            state = self.values
            observation = self._bound.observation(state)
            action = self._settle(action, observation)
            context = self._bound.context(state)
            decision = Decision(action, reason="a person's own action")
            update = self._bound.taken(state, decision, context)
            self.graph.update_state(self.config, update, as_node="act")
            self._advance(interrupt_after=["write_memory"])
            return self._result({"observation": observation, "context": context}, started)

    def look(
        self, context: Mapping[str, Any] | None = None, step: int | None = None, *, act: bool = True
    ) -> Preview:
        """Say what the agent would read, and do, with another context builder; changes nothing.

        The moment is now, or that of an earlier ``step`` of this episode. ``context`` is a builder or
        overrides of slots; ``act=False`` asks no actor.
        """
        bound = self._bound_with(context)
        state = self._moment(bound, step)
        bound.resources.get(bound.config.context)  # loading is not building
        started = time.perf_counter()
        built = bound.context(state)
        ready_at = time.perf_counter()
        actor = bound.resources.get(bound.config.actor) if act else None
        asked_at = time.perf_counter()
        decision = actor(built, state["steps"]) if actor is not None else None
        return Preview(
            observation=bound.observation(state),
            context=built,
            decision=decision,
            build_seconds=ready_at - started,
            act_seconds=time.perf_counter() - asked_at,
            budget=bound.config.context.budget,
        )

    def preview(self, context: Mapping[str, Any] | None = None) -> tuple[BuiltContext, Decision]:
        """Say what the agent would read and do now (see :meth:`look`)."""
        seen = self.look(context)
        return seen.context, cast(Decision, seen.decision)

    def use(self, context: Mapping[str, Any]) -> "Session":
        """Go on with another context builder (or other overrides of slots) from the next step."""
        self.overrides = {**self.overrides, **overrides_of(context)}
        return self

    def moments(self) -> list[State]:
        """Return the state of every step so far, and of the next if there is one.

        Each is as the actor found it: its recurrent state has read that step's page.
        """
        known = self._boundaries()
        if self.done:
            known.pop(self.values["steps"], None)
        return [self._ready(self._bound, boundary) for boundary in known.values()]

    def replay(self, contexts: Mapping[int, Mapping[str, Any]] | None = None) -> list[StepResult]:
        """Return the steps taken so far, drawn again from the checkpoints (``seconds`` is 0).

        ``contexts`` names the overrides that steps were taken with, where they were not today's.
        """
        results = []
        for before, after in itertools.pairwise(self._boundaries().values()):
            step = before.values["steps"]
            bound = self._bound_with((contexts or {}).get(step))
            state = self._ready(bound, before)
            decision = Decision(**(after.values["decision"] or {"action": ""}))
            outcome = bound.world.observe(after.values["session"])
            seen, context = bound.observation(state), bound.context(state)
            results.append(StepResult(step, seen, context, decision, outcome, 0.0))
        return results

    def back(self, n: int = 1) -> "Session":
        """Undo the last ``n`` steps; the undone ones stay in the checkpoint history."""
        with self.graph.alone(self.config):
            taken = self.values.get("steps", 0)
            if n < 1 or taken - n < 0:
                raise UserError(f"cannot go back {n} steps: {taken} were taken")
            boundary = self._boundary(taken - n)
            write_head(self.graph, self.config, boundary.values, boundary.following)
            self._task = None
            return self

    def fork(
        self,
        context: Mapping[str, Any] | None = None,
        thread_id: str | None = None,
        step: int | None = None,
    ) -> "Session":
        """Return a copy of this moment on a thread of its own, perhaps with other nodes.

        ``context`` is a context builder (``{"kind": "window"}``) or overrides of several slots
        (``{"context": {...}, "actor": {...}}``). ``step`` forks where that step begins instead. The
        copy can go back as far as this session can, which is left as it was.
        """
        new = Session(self.graph, thread_id or f"{self.thread_id}-{uuid.uuid4().hex[:8]}")
        new.overrides = {**self.overrides, **overrides_of(context)}
        if self._task is not None:
            return new.start(self._task)
        snapshot = self.graph.get_state(self.config)
        if "session" not in snapshot.values:
            raise UserError("nothing to fork: start a task first")
        own = {"episode_id": uuid.uuid4().hex, "episodes": 1}
        last = snapshot.values["steps"] if step is None else step
        if step is not None:
            self._boundary(step)  # a fork of what is gone is refused
        heads = [known for number, known in self._boundaries().items() if number <= last]
        now = Boundary(cast(State, snapshot.values), (snapshot.next or ("observe",))[0])
        # After a look, now is in the middle of a step: the copy has that step's beginning as well.
        if step is None and (not heads or now.following != heads[-1].following):
            heads.append(now)
        for head in heads:
            write_head(self.graph, new.config, head.values, head.following, **own)
        for params in self.agent.config.memory:
            writer = self.agent.resources.get(params)
            if hasattr(writer, "fork"):
                writer.fork(snapshot.values["episode_id"], own["episode_id"], last, new.thread_id)
        return new

    def _boundaries(self) -> dict[int, Boundary]:
        return boundaries(self.graph, self.config) if self._task is None else {}

    def _boundary(self, step: int) -> Boundary:
        boundary = boundaries(self.graph, self.config).get(step)
        if boundary is None:
            raise UserError(f"the checkpoint of step {step} is gone: start the task again")
        return boundary

    @staticmethod
    def _ready(bound: Any, boundary: Boundary) -> State:
        """Return the state at the moment of acting: the new events are folded in."""
        state = boundary.values
        return cast(State, {**state, **bound.update_state(state)})

    def _moment(self, bound: Any, step: int | None) -> State:
        """Return the state at the moment of acting: now, or at an earlier step."""
        if step is not None and (self._task is None and step != self.values.get("steps")):
            return self._ready(bound, self._boundary(step))
        self._require_running()
        self._to_act()
        return self.values

    @property
    def _bound(self) -> Any:
        return self._bound_with()

    def _bound_with(self, context: Mapping[str, Any] | None = None) -> Any:
        named = self.config["configurable"]
        changed = validated({**self.overrides, **overrides_of(context)})
        return self.agent.bound(changed, thread=self.thread_id, owner=owner_of(named))

    def _to_act(self) -> None:
        """Run up to, not into, the actor."""
        if self._task is not None or self.graph.get_state(self.config).next != ("act",):
            self._advance(interrupt_before=["act"])

    def _advance(self, on_text: Callable[[str], Any] | None = None, **where: Any) -> dict[str, Any]:
        entry = {"task": self._task} if self._task is not None else None
        if entry is None and not {"session", "task"} & self.values.keys():
            raise UserError('no task yet: session.start({"goal": 3})')
        seen: dict[str, Any] = {}
        speaking: str | None = None
        parts: Any = self.graph.stream(
            entry,
            self.config,
            context=validated(self.overrides),
            stream_mode=["updates"] if on_text is None else ["updates", "messages"],
            **where,
        )
        for mode, update in parts:
            if mode == "messages":
                piece, about = update
                # A piece of a model's reply, not a whole message.
                is_written = piece.type == "AIMessageChunk" and piece.text
                if on_text and about.get("langgraph_node") == "act" and is_written:
                    if speaking not in (None, piece.id):  # asked again: the first try broke off
                        on_text(BROKEN)
                    speaking = piece.id
                    on_text(str(piece.text))
                continue
            if update.get("__interrupt__"):
                raise UserError("this agent's actor is a person: call session.act(action)")
            for change in update.values():
                seen.update(change if isinstance(change, dict) else {})
            self._task = None
        return seen

    def _half_done(self) -> dict[str, Any]:
        """Draw again what nodes made before an interruption in the middle of this step."""
        snapshot = self.graph.get_state(self.config)
        if self._task is not None or not snapshot.next or snapshot.next[0] == "observe":
            return {}
        state = cast(State, dict(snapshot.values))
        state["session"] = state.get("before") or state["session"]
        bound = self._bound
        return {"observation": bound.observation(state), "context": bound.context(state)}

    def _result(self, seen: Mapping[str, Any], started: float) -> StepResult:
        values, bound = self.values, self._bound
        decision = Decision(**(values["decision"] or {"action": values["action"] or ""}))
        step = values["steps"] - 1
        if "context" not in seen or "observation" not in seen:
            # Nodes that had written before a kill do not run again: their step is drawn once more.
            state = self._ready(bound, self._boundary(step))
            seen = {"observation": bound.observation(state), "context": bound.context(state)}
        return StepResult(
            step=step,
            observation=seen["observation"],
            context=seen["context"],
            decision=decision,
            outcome=bound.world.observe(values["session"]),
            seconds=time.perf_counter() - started,
        )

    def _require_running(self) -> None:
        if self.done:
            raise UserError("the episode is over: start another, go back, or fork")

    def _settle(self, action: str, observation: Observation) -> str:
        text = " ".join(action.split())
        verb, bracket, rest = text.partition("[")
        commands = [known for known in observation.actions if not takes_text(known)]
        listed = {" ".join(known.lower().split()): known for known in commands}
        text = listed.get(text.lower(), f"{verb.lower()}[{rest}" if bracket else text)
        if self._bound.accepts(text, observation):
            return text
        more = " …" * (len(observation.actions) > 12)
        legal = ", ".join(observation.actions[:12]) + more
        raise UserError(f"illegal action '{action}': choose one of {legal}")
