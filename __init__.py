"""A LangGraph agent whose memory is a set of plug-in nodes: the public names, loaded at first use."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stategate.envs.alfworld import AlfWorld as AlfWorld
    from stategate.envs.webshop import WebShop as WebShop
    from stategate.graph import Session as Session
    from stategate.graph import build_graph as build_graph
    from stategate.graph import load_config as load_config
    from stategate.graph.middleware import ContextMiddleware as ContextMiddleware
    from stategate.nodes.retrieval.remember import Memory as Memory

_HOMES = {
    "AlfWorld": "envs.alfworld",
    "ContextMiddleware": "graph.middleware",
    "Memory": "nodes.retrieval.remember",
    "Session": "graph",
    "WebShop": "envs.webshop",
    "build_graph": "graph",
    "load_config": "graph",
}
__all__ = list(_HOMES)


def __getattr__(name: str) -> object:
    """Return the public name ``name``, imported from its module at the first use."""
    if name not in _HOMES:
        raise AttributeError(f"module 'stategate' has no attribute {name!r}")
    return getattr(import_module(f"stategate.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__
