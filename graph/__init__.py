"""Assemble an agent from its config and run it (floor 3)."""

from stategate.graph.build import build_graph
from stategate.graph.config import load_config
from stategate.graph.session import Session

__all__ = ["Session", "build_graph", "load_config"]
