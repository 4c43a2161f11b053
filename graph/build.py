"""The graph: observe → update_state → build_context → act → write_memory, until done.

Nodes never hold a model or a world: they ask for what the config (or the caller's per-call context)
names, built once and shared. Their bodies are the methods of :class:`graph.agent.BoundAgent`.
"""

import itertools
import os
from collections.abc import Mapping
from functools import partial
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import RetryPolicy

from stategate.graph.agent import Agent
from stategate.graph.checkpoints import open_saver
from stategate.graph.config import Config, load_config
from stategate.graph.one_writer import TurnGraph
from stategate.graph.state import Input, Output, State, context_schema
from stategate.nodes.resources import Resources
from stategate.stores.errors import ModelUnavailable

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
    agent = Agent(settled, resources and resources.with_models(*settled.models))
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
    for name in NODES:
        builder.add_node(name, agent.node(name), retry_policy=retry if name == "act" else None)
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
