"""A played episode as plain values, for ``--json``."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from graph.agent import thaw

if TYPE_CHECKING:
    from graph.session import Session, StepResult
    from nodes.protocols import BuiltContext


def futile(session: "Session", result: "StepResult") -> str | None:
    """Return the decision's fallback, or why its action did nothing (None if all is well)."""
    decision = result.decision
    if decision.fallback is not None:
        return decision.fallback
    if session.agent.bound().accepts(decision.action, result.observation):
        return None
    return "illegal action: nothing happened"


def episode_dict(session: "Session", steps: Sequence["StepResult"]) -> dict[str, Any]:
    """Return the episode: task, steps, totals.

    ``steps`` are those that this process took; a resumed episode has earlier ones, which ``totals``
    count (except ``seconds``) and ``resumed_at`` names the number of.
    """
    values = session.values
    config = session.agent.config
    world = session.agent.bound().world
    parts = (values.get("info") or {}).get("reward")
    return {
        "config": config.model_dump(mode="json"),
        "thread_id": session.thread_id,
        "episode_id": values["episode_id"],
        "task": dict(values["episode"]),
        "instruction": world.instruction(values["session"]),
        "resumed_at": steps[0].step if steps and steps[0].step else None,
        "steps": [_step(session, step) for step in steps],
        "totals": {
            "reward": values["reward"],
            "reward_parts": thaw(parts) if parts is not None else None,
            "done": values["done"],
            "steps": values["steps"],
            "tokens": values["tokens"],
            "model_tokens": values["model_tokens"],
            "cost": values["cost"],
            "fallbacks": values["fallbacks"],
            "seconds": sum(step.seconds for step in steps),
        },
    }


def _step(session: "Session", result: "StepResult") -> dict[str, Any]:
    from graph.state import pack_decision

    return {
        "step": result.step,
        "observation": {
            "text": result.observation.text,
            "actions": list(result.observation.actions),
        },
        "context": _context(result.context),
        "decision": {**pack_decision(result.decision), "fallback": futile(session, result)},
        "outcome": {"text": result.outcome.text, "actions": list(result.outcome.actions)},
        "reward": result.reward,
        "done": result.done,
        "seconds": result.seconds,
    }


def _context(context: "BuiltContext") -> dict[str, Any]:
    return {
        "tokens": context.tokens,
        "over_budget": context.over_budget,
        "messages": [{"role": m.type, "content": str(m.content)} for m in context.messages],
        "pieces": [thaw(vars(piece)) for piece in context.pieces],
        "actions": list(context.actions),
        "dropped_actions": list(context.dropped_actions),
    }
