"""The graph: observe → update_state → build_context → act → write_memory, until done.

Nodes (``graph.nodes``) never hold a model or a world: they ask their agent for what the config, or the
caller's per-call context, names. Models and worlds are built once and shared.
"""

import itertools
import os
from collections.abc import Mapping
from functools import partial
from typing import Any

from langchain_core.runnables import RunnableLambda
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import get_runtime

from stategate.graph.agent import Agent
from stategate.graph.checkpoints import open_saver
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
from stategate.graph.thread_lock import LockedGraph
from stategate.nodes.resources import Resources

#: Where LangGraph looks for the durability that a caller did not pass.
_DURABILITY = "__pregel_durability"


class Graph(LockedGraph):
    """A compiled graph, and the agent whose nodes it runs."""

    agent: Agent


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
    agent = Agent(settled, resources and resources.with_models(*settled.models))
    saver = open_saver(settled.checkpoints) if checkpointer is None else checkpointer
    compiled = Graph(**vars(make_builder(agent).compile(checkpointer=saver, name="stategate")))
    limit = len(NODES) * settled.max_steps + 10
    # In a conversation every node's result is on disk before the next one starts (a caller's own
    # `durability=` wins): a process killed between answer and write would lose the answer otherwise.
    configurable: dict[str, Any] = {_DURABILITY: "sync"} if settled.env.conversational else {}
    compiled = compiled.with_config(recursion_limit=limit, configurable=configurable)
    compiled.agent = agent
    return compiled


def make_builder(agent: Agent) -> StateGraph[Any, Any, Any, Any]:
    """Return the uncompiled graph of ``agent``, for callers who compile it with their own parts."""
    builder = StateGraph(
        State, context_schema=context_schema(), input_schema=Input, output_schema=Output
    )

    def act(state: State) -> Update:
        return choose_action(agent, state, get_runtime())

    async def aact(state: State) -> Update:
        return await achoose_action(agent, state, get_runtime())

    builder.add_node("observe", partial(observe_world, agent))
    builder.add_node("update_state", partial(update_state, agent))
    builder.add_node("build_context", partial(build_context, agent))
    builder.add_node("act", RunnableLambda(act, aact, name="act"))
    builder.add_node("write_memory", partial(write_memory, agent))
    for name, following in itertools.pairwise((START, *NODES)):
        if name != "observe":
            builder.add_edge(name, following)

    def unless_over(state: State, onward: str) -> str:
        """Go on to ``onward`` until the world says done or the step cap is reached."""
        over = state["done"] or state["steps"] >= agent.config.max_steps
        return END if over else onward

    for name, onward in (("observe", "update_state"), ("write_memory", "observe")):
        builder.add_conditional_edges(name, partial(unless_over, onward=onward), [onward, END])
    return builder
