"""What a node did, for who wants to know: OpenTelemetry's spans, LangSmith's metadata, lines of JSON.

    OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318 stategate run webshop --goal 3
    STATEGATE_LOG=steps stategate run webshop --goal 3 2> steps.jsonl

Spans go to the provider that the program has set up, or to the endpoint named in the environment;
LangSmith gets its own traces from LangGraph where ``LANGSMITH_TRACING`` is true, and here each node's
facts beside them. Nothing is told otherwise, and nothing of what was read or written: names, counts and
seconds only.
"""

import json
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

from stategate.stores.errors import require_extra

#: ``STATEGATE_LOG=steps`` writes a line a node to stderr; a program may turn this logger on instead.
LOG = "STATEGATE_LOG"
logger = logging.getLogger("stategate.steps")
Facts = dict[str, Any]
#: Which slot of the config a node's kind is named by.
_SLOTS = {"observe": "env", "update_state": "updater", "build_context": "context", "act": "actor"}


@contextmanager
def observed(
    name: str, config: Any, state: Mapping[str, Any], thread: Any
) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """Watch a node; what is yielded is to be given the node's update."""
    tracer, is_logged, run = _tracer(), _is_logged(), _langsmith_run()
    if tracer is None and not is_logged and run is None:
        yield lambda update: None
        return
    facts: Facts = {"node": name, "kind": _kind(name, config), "step": state.get("steps", 0)}
    facts |= {"thread": str(thread or ""), "episode": str(state.get("episode_id") or "")}
    started = time.perf_counter()

    def note(update: Mapping[str, Any]) -> None:
        facts.update(_told(name, state, update))

    def tell(error: BaseException | None) -> None:
        if error is not None:
            facts["error"] = type(error).__name__
        facts["ms"] = round(1000 * (time.perf_counter() - started), 3)
        if run is not None:
            run.add_metadata({f"stategate.{key}": value for key, value in facts.items()})
        if is_logged:
            logger.info(json.dumps({"at": round(time.time(), 3), **facts}))

    if tracer is None:
        with _ending(tell):
            yield note
        return
    with tracer.start_as_current_span(f"stategate.{name}") as span:
        try:
            with _ending(tell):
                yield note
        finally:
            span.set_attributes({_attribute(key): value for key, value in facts.items()})


@contextmanager
def _ending(tell: Callable[[BaseException | None], None]) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        tell(error)
        raise
    tell(None)


def _told(name: str, state: Mapping[str, Any], update: Mapping[str, Any]) -> Facts:
    """Return what the update says in numbers."""
    if name == "build_context":
        context = update["context"]
        return {"context_tokens": context.tokens, "pieces": len(context.pieces)}
    if name == "act":
        decision = update.get("decision") or {}
        return {
            "tokens_in": decision.get("tokens_in", 0),
            "tokens_out": decision.get("tokens_out", 0),
            "tokens_cached": decision.get("cached", 0),
            "cost": float(decision.get("cost") or 0.0),
            "attempts": decision.get("attempts", 1),
            "is_fallback": decision.get("fallback") is not None,
            "reward": float(update.get("reward", 0.0)),
            "done": bool(update.get("done", False)),
        }
    return {"steps": update["steps"]} if name == "write_memory" and "steps" in update else {}


def _attribute(key: str) -> str:
    """Return a fact's name as OpenTelemetry's conventions for model calls have it."""
    usual = {"tokens_in": "input_tokens", "tokens_out": "output_tokens"}
    if key == "tokens_cached":
        return "gen_ai.usage.cache_read.input_tokens"
    return f"gen_ai.usage.{usual[key]}" if key in usual else f"stategate.{key}"


def _kind(name: str, config: Any) -> str:
    if name == "write_memory":
        return ",".join(params.kind for params in config.memory)
    return str(getattr(config, _SLOTS[name]).kind)


def _is_logged() -> bool:
    if os.environ.get(LOG, "") == "steps" and not logger.handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(message)s"))
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        logger.propagate = False
    return logger.isEnabledFor(logging.INFO)


def _langsmith_run() -> Any:
    """Return the run that LangSmith traces this node as, None where it does not."""
    helpers = sys.modules.get("langsmith.run_helpers")
    return None if helpers is None else helpers.get_current_run_tree()


def _tracer() -> Any:
    """Return a tracer where spans have somewhere to go, else None."""
    if _is_exported():
        _set_up()
    elif "opentelemetry.sdk.trace" not in sys.modules:  # nobody here can have set up a provider
        return None
    from opentelemetry import trace

    has_provider = hasattr(trace.get_tracer_provider(), "add_span_processor")
    return trace.get_tracer("stategate") if has_provider else None


def _is_exported() -> bool:
    named = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    is_off = os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    return not is_off and any(os.environ.get(name) for name in named)


@cache
def _set_up() -> None:
    """Send spans to the endpoint that the environment names, unless the program does so itself."""
    with require_extra("otel"):
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    if hasattr(trace.get_tracer_provider(), "add_span_processor"):
        return
    name = os.environ.get("OTEL_SERVICE_NAME", "stategate")
    provider = TracerProvider(resource=Resource.create({"service.name": name}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
