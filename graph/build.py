"""The graph: observe → update_state → build_context → act → write_memory, until done.

Nodes are plain functions ``verb_noun(state, runtime)``. They never hold a model or a world: they
ask for what the config (or the caller's per-call context) names, built once and shared.
"""

import os
from collections.abc import Mapping
from functools import partial
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import RetryPolicy

from graph.agent import Agent
from graph.checkpoints import open_saver
from graph.config import Config, load_config
from graph.one_writer import TurnGraph
from graph.state import Input, Output, State, context_schema
from nodes.resources import Resources
from stores.errors import ModelUnavailable

Graph = TurnGraph
#: Where LangGraph looks for the durability that a caller did not pass.
_DURABILITY = "__pregel_durability"
NODES = ("observe", "update_state", "build_context", "act", "write_memory")


def build_graph(
    config: Config | Mapping[str, Any] | str | os.PathLike[str] = "webshop",
    checkpointer: BaseCheckpointSaver[Any] | bool | None = None,
    resources: Resources | None = None,
) -> Graph:
    """Compile the agent of ``config``.

    ``checkpointer`` overrides the config's ``checkpoints``; False compiles without one. The
    recursion limit follows from the step cap. ``graph.agent`` gives :class:`graph.agent.Agent`.
    ``resources`` of another agent share what it has built (models, catalogues).
    """
    settled = config if isinstance(config, Config) else load_config(config)
    shared = resources and resources.with_models(
        settled.llm, settled.embedder, settled.updater, settled.env
    )
    agent = Agent(settled, shared)
    saver = open_saver(settled.checkpoints) if checkpointer is None else checkpointer
    compiled = TurnGraph(**vars(make_builder(agent).compile(checkpointer=saver, name="stategate")))
    limit = len(NODES) * settled.max_steps + 10
    # In a conversation every node's result is on disk before the next one starts (a caller's own
    # `durability=` wins): a process killed between answer and write would lose the answer otherwise.
    configurable: dict[str, Any] = {_DURABILITY: "sync"} if settled.env.conversational else {}
    compiled = compiled.with_config(recursion_limit=limit, configurable=configurable)
    compiled.agent = agent  # type: ignore[attr-defined]
    return compiled


def make_builder(agent: Agent) -> StateGraph[Any, Any, Any, Any]:
    """Return the uncompiled graph of ``agent``, for callers who compile it with their own parts."""
    builder = StateGraph(
        State, context_schema=context_schema(), input_schema=Input, output_schema=Output
    )
    retry = RetryPolicy(initial_interval=0.5, max_attempts=3, retry_on=ModelUnavailable)
    builder.add_node("observe", partial(observe, agent))
    builder.add_node("update_state", partial(update_state, agent))
    builder.add_node("build_context", partial(build_context, agent))
    builder.add_node("act", partial(act, agent), retry_policy=retry)
    builder.add_node("write_memory", partial(write_memory, agent))
    builder.add_edge(START, "observe")
    builder.add_conditional_edges("observe", partial(route_observed, agent), ["update_state", END])
    builder.add_edge("update_state", "build_context")
    builder.add_edge("build_context", "act")
    builder.add_edge("act", "write_memory")
    builder.add_conditional_edges("write_memory", partial(route_written, agent), ["observe", END])
    return builder


def observe(
    agent: Agent, state: State, runtime: Runtime[Any], config: RunnableConfig
) -> dict[str, Any]:
    """Start the task if one was passed, else draw the session's page again."""
    return agent.bind(runtime).observe(state, config)


def update_state(agent: Agent, state: State, runtime: Runtime[Any]) -> dict[str, Any]:
    """Fold the new events into the recurrent state."""
    return agent.bind(runtime).update_state(state)


def build_context(agent: Agent, state: State, runtime: Runtime[Any]) -> dict[str, Any]:
    """Decide what the model gets to read."""
    return agent.bind(runtime).build_context(state)


def act(agent: Agent, state: State, runtime: Runtime[Any]) -> dict[str, Any]:
    """Let the actor choose, and take the step in the world."""
    return agent.bind(runtime).act(state)


def write_memory(
    agent: Agent, state: State, runtime: Runtime[Any], config: RunnableConfig
) -> dict[str, Any]:
    """Hand the finished step to the memory writers."""
    return agent.bind(runtime).write_memory(state, config)


def route_observed(agent: Agent, state: State) -> str:
    """Stop at once where the episode is over already."""
    over = state["done"] or state["steps"] >= agent.config.max_steps
    return END if over else "update_state"


def route_written(agent: Agent, state: State) -> str:
    """Go on until the world says done or the step cap is reached."""
    return END if state["done"] or state["steps"] >= agent.config.max_steps else "observe"
