"""The graph as `langgraph dev` and LangGraph Platform load it: they bring the checkpointer.

Also what to import to compile the same graph with your own parts: ``builder.compile(...)``.
"""

import os

from stategate.graph.agent import Agent
from stategate.graph.build import build_graph, make_builder
from stategate.graph.config import load_config

_config = load_config(os.environ.get("STATEGATE_CONFIG", "webshop"))
builder = make_builder(Agent(_config))
graph = build_graph(_config, checkpointer=False)
