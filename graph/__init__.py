"""Assemble an agent from its config and run it (floor 3)."""

from graph.build import build_graph
from graph.config import Config, load_config, presets
from graph.session import Session, StepResult

__all__ = ["Config", "Session", "StepResult", "build_graph", "load_config", "presets"]
