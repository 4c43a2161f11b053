"""What ``stategate doctor`` says of the configured model and embedder; asked for real on request."""

import time
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from stategate.ui.cli.doctor_stores import Finding

if TYPE_CHECKING:
    from stategate.graph.config import Config
    from stategate.nodes.resources import Resources


def model(config: str, overrides: Sequence[str], deep: bool) -> Iterator[Finding]:
    """Say whether the chat model could answer: its packages, its file, its key; ``deep`` asks it."""
    settled, resources = _settled(config, overrides)
    params: Any = settled.llm
    if params is None:
        yield Finding("model", None, f"{config} uses none")
        return
    name = f"{params.kind} {getattr(params, 'model', '')}".strip()
    if params.kind == "embedded":
        yield _embedded(params, name)
    elif hasattr(params, "api_key_env"):
        from stategate.nodes.models.keys import key_from

        key_from(params.api_key_env, params.base_url)  # raises a line that says what to do
        yield Finding("model", None, f"{name} at {params.base_url}; --deep asks it")
    if deep:
        from langchain_core.messages import HumanMessage

        from stategate.nodes.models.asking import ask

        started = time.perf_counter()
        reply = ask(resources.llm, [HumanMessage("Say yes.")], max_tokens=8)
        took = time.perf_counter() - started
        yield Finding("model", bool(reply.strip()), f"{name} answered in {took:.1f} s")


def embedder(config: str, overrides: Sequence[str], deep: bool) -> Iterator[Finding]:
    """Say whether texts could be embedded; ``deep`` embeds one."""
    settled, resources = _settled(config, overrides)
    params: Any = settled.embedder
    if params.kind == "minilm":
        missing = [name for name in ("torch", "sentence_transformers") if find_spec(name) is None]
        if missing:
            fix = "pip install 'stategate[local]', or set embedder.kind=hashing"
            yield Finding("embedder", False, f"{', '.join(missing)} missing: {fix}")
            return
    if not deep:
        yield Finding("embedder", True, f"{params.kind} can be loaded; --deep embeds a text")
        return
    started = time.perf_counter()
    row = resources.embedder.embed([f"a text of {time.time()}"])[0]
    took = time.perf_counter() - started
    yield Finding("embedder", True, f"{params.kind}: {len(row)} numbers a text, {took:.1f} s")


def _embedded(params: Any, name: str) -> Finding:
    from pathlib import Path

    from stategate.stores.assets.fetch import ASSETS

    if find_spec("xllamacpp") is None:
        fix = "pip install 'stategate[local]', or set llm.kind=openai and llm.base_url"
        return Finding("model", False, f"xllamacpp is missing: {fix}")
    asset = ASSETS.get(params.ALIASES.get(params.model, params.model))
    if asset is None:
        is_there = Path(params.model).is_file()
        return Finding("model", is_there, name if is_there else f"no file '{params.model}'")
    if not asset.is_present:
        return Finding(
            "model", None, f"{name}: {asset.size / 1e6:,.0f} MB are fetched on first use"
        )
    return Finding("model", True, f"{name} is here; --deep asks it")


def _settled(config: str, overrides: Sequence[str]) -> "tuple[Config, Resources]":
    from stategate.graph.config import load_config
    from stategate.nodes.resources import Resources

    settled = load_config(config, overrides)
    return settled, Resources(*settled.models)
