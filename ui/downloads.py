"""What would have to be fetched first, in words: told before it starts."""

from collections.abc import Iterable

from stategate.graph.config import Config
from stategate.nodes.protocols import Params
from stategate.stores.assets.fetch import ASSETS

#: Builders that look at no vector.
_WORDS_ALONE = ("full", "window")


def needed(config: Config, context: Params | None = None) -> list[Params]:
    """Return the nodes of a config (with another ``context``) that may fetch something when used."""
    built = context or config.context
    nodes: list[Params] = [built, config.actor]
    if config.updater.kind != "none" or built.kind not in _WORDS_ALONE:
        nodes.append(config.embedder)
    if config.actor.asks_model and config.llm is not None:
        nodes.append(config.llm)
    return nodes


def to_fetch(nodes: Iterable[Params]) -> str:
    """Say what ``nodes`` fetch on their first use and how large it is, "" where all of it is here."""
    names = dict.fromkeys(name for node in nodes for name in node.assets())
    missing = [ASSETS[name] for name in names if name in ASSETS and not ASSETS[name].is_present]
    return " and ".join(f"{asset.description} ({size(asset.size)})" for asset in missing)


def size(count: int) -> str:
    """Say so many bytes: ``92 MB``, ``1.1 GB``."""
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"
