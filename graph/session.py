"""One episode in a person's hands: step, run, go back, fork, act."""

import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

from envs.protocols import Observation
from graph.build import Graph
from graph.history import boundaries, ready, write_head
from graph.overrides import overrides_of
from graph.state import State
from graph.steps import Preview, StepResult
from graph.thread import Thread
from nodes.protocols import BuiltContext, Decision
from stores.errors import UserError

__all__ = ["Session", "StepResult"]


class Session(Thread):
    """A thread of a graph, one step at a time. Needs a graph with a checkpointer.

    Another ``Session`` with the same thread id, in this process or a later one (with a checkpointer
    that persists), goes on where this one stopped.
    """

    def __init__(
        self,
        graph: Graph,
        thread_id: str,
        task: Mapping[str, Any] | None = None,
        context: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(graph, thread_id, context)
        if task is not None:
            self.start(task)

    @property
    def observation(self) -> Observation:
        """The page that the next step will read (the last page when the episode is over)."""
        if self._task is not None or "session" not in self.values:
            self._advance(interrupt_after=["observe"])
        seen: Observation = self._bound.world.observe(self.values["session"])
        return seen

    def start(self, task: Mapping[str, Any]) -> "Session":
        """Set the task that the next step begins, such as ``{"env": "webshop", "goal": 3}``."""
        inner = task.get("task", task)
        if not isinstance(inner, Mapping):
            raise UserError('give a task: {"env": "webshop", "goal": 3}')
        self._task = dict(inner)
        return self

    def step(self, on_text: Callable[[str], Any] | None = None) -> StepResult:
        """Take one step with the session's actor; ``on_text`` hears a model's words as they come.

        Raises ``UserError`` when there is none to take.
        """
        self._require_running()
        started = time.perf_counter()
        found = self._half_done()
        found.update(self._advance(on_text, interrupt_after=["write_memory"]))
        return self._result(found, started)

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
        self,
        context: Mapping[str, Any] | None = None,
        step: int | None = None,
        *,
        act: bool = True,
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
        bound, values = self._bound, self.values
        known = boundaries(self.graph, self.config) if self._task is None else {}
        over = self.done
        return [
            ready(bound, known[step])
            for step in sorted(known)
            if not (over and step == values["steps"])
        ]

    def replay(self, contexts: Mapping[int, Mapping[str, Any]] | None = None) -> list[StepResult]:
        """Return the steps taken so far, drawn again from the checkpoints (``seconds`` is 0).

        ``contexts`` names the overrides that steps were taken with, where they were not today's.
        """
        known = boundaries(self.graph, self.config) if self._task is None else {}
        results = []
        for step, after in known.items():
            if step - 1 not in known:
                continue
            bound = self._bound_with((contexts or {}).get(step - 1))
            state = ready(bound, known[step - 1])
            decision = Decision(**(after.values["decision"] or {"action": ""}))
            outcome = bound.world.observe(after.values["session"])
            results.append(
                StepResult(
                    step=step - 1,
                    observation=bound.observation(state),
                    context=bound.context(state),
                    decision=decision,
                    outcome=outcome,
                    seconds=0.0,
                )
            )
        return results

    def back(self, n: int = 1) -> "Session":
        """Undo the last ``n`` steps; the undone ones stay in the checkpoint history."""
        taken = self.values.get("steps", 0)
        if n < 1 or taken - n < 0:
            raise UserError(f"cannot go back {n} steps: {taken} were taken")
        self._boundary(taken - n).write(self.graph, self.config)
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
        own = {"episode_id": new.thread_id, "episodes": 1}
        last = snapshot.values["steps"] if step is None else step
        known = boundaries(self.graph, self.config)
        for number, boundary in known.items():
            if number < last:
                boundary.write(self.graph, new.config, **own)
        if step is not None:
            self._boundary(step).write(self.graph, new.config, **own)
        else:
            following = snapshot.next[0] if snapshot.next else "observe"
            write_head(self.graph, new.config, {**snapshot.values, **own}, following)
        for params in self.agent.config.memory:
            writer = self.agent.resources.get(params)
            if hasattr(writer, "fork"):
                writer.fork(snapshot.values["episode_id"], new.thread_id, last)
        return new
