"""The graph: observe → update_state → build_context → act → write_memory, until done.

Nodes (``graph.nodes``) hold no model and no world: they ask the agent of the call, which follows the
config and the caller's context. Models and worlds are built once and shared.
"""

import asyncio
import itertools
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

from langchain_core.runnables import RunnableLambda
from langchain_core.runnables.config import ensure_config, merge_configs
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.config import get_config
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import get_runtime

from stategate.graph.agent import Agent
from stategate.graph.checkpoints import open_saver, thread_lock, thread_name
from stategate.graph.config import Config, load_config
from stategate.graph.nodes import (
    NODES,
    Update,
    achoose_action,
    build_context,
    choose_action,
    observe_world,
    update_state,
    write_memory,
)
from stategate.graph.state import Input, Output, State, context_schema
from stategate.nodes.resources import Resources
from stategate.stores.errors import UserError

#: LangGraph's task id of the caller's input among the pending writes, which is no node's result.
_INPUT_TASK = "00000000-0000-0000-0000-000000000000"
#: The locks that this call stack or task holds: a session's step, which is several runs, re-enters one.
_held: ContextVar[frozenset[tuple[int, str]]] = ContextVar("held threads", default=frozenset())


class Graph(CompiledStateGraph[Any, Any, Any, Any]):
    """A compiled graph and its agent; runs of one thread take turns, in this process and in others."""

    agent: Agent

    def stream(self, input: Any, config: Any = None, **options: Any) -> Iterator[Any]:
        """See LangGraph; waits for another run of the thread first."""
        with self.alone(config):
            if input is not None:
                self.finish(config)
            yield from super().stream(input, config, **options)

    async def astream(self, input: Any, config: Any = None, **options: Any) -> AsyncIterator[Any]:
        """See LangGraph; waits for another run of the thread first."""
        alone, key = self.alone(config), self._key(config)
        await asyncio.to_thread(alone.__enter__)
        before = _held.get()  # the thread that took the lock marked a context of its own
        _held.set(before if key is None else before | {key})
        try:
            if input is not None:
                await asyncio.to_thread(self.finish, config)
            async for part in super().astream(input, config, **options):
                yield part
        finally:
            _held.set(before)
            await asyncio.to_thread(alone.__exit__, None, None, None)

    @contextmanager
    def alone(self, config: Any) -> Iterator[None]:
        """Hold the thread's lock. Raises ``UserError`` if another run does not release it."""
        key, held = self._key(config), _held.get()
        if key is None or key in held:
            yield
            return
        with thread_lock(self.checkpointer, key[1]):
            _held.set(held | {key})
            try:
                yield
            finally:
                _held.set(held)

    def settle(self, config: Any) -> bool:
        """Apply the pending writes that a killed run left on the thread; say whether there were any.

        LangGraph keeps them beside the last checkpoint: a resumed run applies them, but new input
        would drop a finished step. No node runs here.
        """
        if not self._has_pending_writes(config):
            return False
        with self.alone(config):
            if not self._has_pending_writes(config):  # they were of a run that has ended since
                return False
            for _ in super().stream(None, config, interrupt_after="*"):
                pass
        return True

    def finish(self, config: Any) -> None:
        """Settle, and write the memory of a step that a kill cut short: new input would drop it."""
        self.settle(config)
        if self._key(config) is not None and self.get_state(config).next == ("write_memory",):
            for _ in super().stream(None, config, interrupt_after=["write_memory"]):
                pass

    def _has_pending_writes(self, config: Any) -> bool:
        """Say whether the thread's head has pending writes of nodes, and no node left to run."""
        if self._key(config) is None:
            return False
        try:
            saved = self.checkpointer.get_tuple(config)  # type: ignore[union-attr]
        except NotImplementedError:  # a caller's saver that is asynchronous only
            return False
        has_writes = saved is not None and any(
            task != _INPUT_TASK and not channel.startswith("__")
            for task, channel, _ in saved.pending_writes or ()
        )
        return has_writes and not self.get_state(config).next

    def _key(self, config: Any) -> tuple[int, str] | None:
        """Return (saver's ``id``, thread), None without a saver. Raises ``UserError`` for no thread."""
        if not self.checkpointer or isinstance(self.checkpointer, bool):
            return None
        thread = ensure_config(merge_configs(self.config, config))["configurable"].get("thread_id")
        if thread is None:
            raise UserError(
                "this graph keeps checkpoints, so a call names its thread: "
                "config={'configurable': {'thread_id': 'mine'}}"
            )
        return id(self.checkpointer), thread_name(thread)


def build_graph(
    config: Config | Mapping[str, Any] | str | os.PathLike[str] = "webshop",
    checkpointer: BaseCheckpointSaver[Any] | bool | None = None,
    resources: Resources | None = None,
) -> Graph:
    """Return the compiled graph of ``config``: a parsed one, a mapping, a file or a shipped name.

    ``checkpointer`` overrides the config's ``checkpoints``; False compiles without one. The
    recursion limit follows from the step cap. ``graph.agent`` gives :class:`graph.agent.Agent`.
    ``resources`` of another agent share what it has built (models, catalogues).
    """
    if not isinstance(config, Config):
        config = load_config(config)
    agent = Agent(config, resources and resources.with_models(*config.models))
    saver = open_saver(config.checkpoints) if checkpointer is None else checkpointer
    compiled = Graph(**vars(_make_builder(agent).compile(checkpointer=saver, name="stategate")))
    limit = len(NODES) * config.max_steps + 10
    # In a conversation every node's result is on disk before the next one starts (a caller's own
    # `durability=` wins): a process killed between answer and write would lose the answer otherwise.
    is_sync = saver and config.env.conversational  # LangGraph fails without a saver
    configurable: dict[str, Any] = {"__pregel_durability": "sync"} if is_sync else {}
    compiled = compiled.with_config(recursion_limit=limit, configurable=configurable)
    compiled.agent = agent
    return compiled


def _make_builder(agent: Agent) -> StateGraph[Any, Any, Any, Any]:
    """Return the uncompiled graph of ``agent``."""
    builder = StateGraph(
        State, context_schema=context_schema(), input_schema=Input, output_schema=Output
    )

    def call_agent() -> Agent:
        return agent.for_call(dict(get_runtime().context or {}), get_config()["configurable"])

    def bound(node: Callable[[Agent, State], Update]) -> Any:
        def run(state: State) -> Update:
            return node(call_agent(), state)

        return run

    async def aact(state: State) -> Update:
        return await achoose_action(call_agent(), state)

    builder.add_node("observe", bound(observe_world))
    builder.add_node("update_state", bound(update_state))
    builder.add_node("build_context", bound(build_context))
    builder.add_node("act", RunnableLambda(bound(choose_action), aact, name="act"))
    builder.add_node("write_memory", bound(write_memory))
    for name, following in itertools.pairwise((START, *NODES)):
        if name != "observe":
            builder.add_edge(name, following)

    def unless_over(state: State, onward: str) -> str:
        """Return the next node: ``onward``, or END when the world is done or the step cap reached."""
        is_over = state["done"] or state["steps"] >= agent.config.max_steps
        return END if is_over else onward

    for name, onward in (("observe", "update_state"), ("write_memory", "observe")):
        builder.add_conditional_edges(name, partial(unless_over, onward=onward), [onward, END])
    return builder
