"""A thread of a graph between two of its nodes: where it stands, and how it moves on."""

import time
from collections.abc import Callable, Mapping
from typing import Any, cast

from langchain_core.runnables import RunnableConfig

from envs.protocols import Observation, takes_text
from graph.agent import Agent
from graph.build import Graph
from graph.history import Boundary, boundaries, ready
from graph.overrides import overrides_of, validated
from graph.state import State
from graph.steps import StepResult
from nodes.protocols import Decision
from stores.errors import UserError


class Thread:
    """What :class:`graph.session.Session` stands on: one thread id, and the overrides of its nodes.

    Raises ``UserError`` for a graph without a checkpointer.
    """

    def __init__(
        self, graph: Graph, thread_id: str, context: Mapping[str, Any] | None = None
    ) -> None:
        if not graph.checkpointer:
            raise UserError("a Session needs a checkpointer: build_graph(config) brings one")
        self.graph = graph
        self.thread_id = thread_id
        self.overrides = overrides_of(context)
        self._task: dict[str, Any] | None = None

    @property
    def config(self) -> RunnableConfig:
        """The graph config of this thread."""
        return {"configurable": {"thread_id": self.thread_id}}

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
        values = self.values
        if "session" not in values:
            return False
        return bool(values["done"]) or values["steps"] >= self.agent.config.max_steps

    def _boundary(self, step: int) -> Boundary:
        found = boundaries(self.graph, self.config).get(step)
        if found is None:
            raise UserError(f"the checkpoint of step {step} is gone: start the task again")
        return found

    def _moment(self, bound: Any, step: int | None) -> State:
        """Return the state at the moment of acting: now, or at an earlier step."""
        if step is not None and (self._task is None and step != self.values.get("steps")):
            return ready(bound, self._boundary(step))
        self._require_running()
        self._to_act()
        return self.values

    @property
    def _bound(self) -> Any:
        return self._bound_with(None)

    def _bound_with(self, context: Mapping[str, Any] | None) -> Any:
        return self.agent.bound(validated({**self.overrides, **overrides_of(context)}))

    def _to_act(self) -> None:
        """Run up to, not into, the actor."""
        if self._task is not None or self.graph.get_state(self.config).next != ("act",):
            self._advance(interrupt_before=["act"])

    def _advance(self, on_text: Callable[[str], Any] | None = None, **where: Any) -> dict[str, Any]:
        entry = {"task": self._task} if self._task is not None else None
        if entry is None and "session" not in self.values:
            raise UserError('no task yet: session.start({"goal": 3})')
        seen: dict[str, Any] = {}
        parts: Any = self.graph.stream(
            entry, self.config, context=validated(self.overrides),
            stream_mode=["updates"] if on_text is None else ["updates", "messages"], **where,
        )  # fmt: skip
        for mode, update in parts:
            if mode == "messages":
                piece, about = update
                if on_text and about.get("langgraph_node") == "act" and _is_written(piece):
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
        values = self.values
        decision = Decision(**(values["decision"] or {"action": values["action"] or ""}))
        return StepResult(
            step=values["steps"] - 1,
            observation=seen["observation"],
            context=seen["context"],
            decision=decision,
            outcome=self._bound.world.observe(values["session"]),
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
        legal = ", ".join(observation.actions[:12]) + (
            " …" if len(observation.actions) > 12 else ""
        )
        raise UserError(f"illegal action '{action}': choose one of {legal}")


def _is_written(piece: Any) -> bool:
    """Say whether a streamed message is a piece of a model's reply (not a whole message)."""
    return bool(piece.type == "AIMessageChunk" and piece.text)
