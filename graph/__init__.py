"""Assemble an agent from its config and run it (floor 3)."""

from stategate.graph.build import build_graph
from stategate.graph.config import Config, load_config, presets
from stategate.graph.session import Session, StepResult

__all__ = ["Config", "Session", "StepResult", "build_graph", "load_config", "presets"]
