"""The recurrent state over an episode, and where it lies among those of reference episodes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from langgraph.checkpoint.memory import InMemorySaver

from stategate.graph.build import build_graph
from stategate.graph.config import Config
from stategate.graph.session import Session
from stategate.nodes.protocols import Vector
from stategate.nodes.resources import Resources
from stategate.nodes.update_state import unpacked
from stategate.stores.errors import UserError
from stategate.ui.actions import task_in_words

#: Actors that cannot play reference episodes by themselves.
_NOT_ALONE = ("human", "scripted")


@dataclass(frozen=True)
class StateTrajectory:
    """The states of one episode (steps, d_state), and the class of the action taken from each.

    ``chances`` are the foreseen classes' probabilities at each step ({} where nothing foresees).
    The last step may have no action yet (class "").
    """

    name: str
    states: Vector
    classes: tuple[str, ...]
    chances: tuple[dict[str, float], ...] = ()


def trajectory_of(session: Session, name: str = "this episode") -> StateTrajectory:
    """Return the states of a session's episode so far, read from its checkpoints.

    Raises ``UserError`` where the agent keeps no recurrent state.
    """
    bound = session.agent.bound()
    updater: Any = bound.resources.updater
    if updater is None:
        raise UserError("this agent keeps no recurrent state: set updater.kind=gru (or ssm)")
    moments = session.moments()
    actions = [result.decision.action for result in session.replay()]
    pages = [bound.world.observe(moment["session"]).text for moment in moments]
    class_of = bound.resources.view.actions.class_of
    classes = [class_of(page, action) for page, action in zip(pages, actions, strict=False)]
    vectors = [unpacked(moment.get("recurrent")) for moment in moments]
    known = [vector for vector in vectors if vector is not None]
    foresees = hasattr(updater, "predict") and bool(getattr(updater, "classes", ()))
    chances = tuple(updater.predict(vector) for vector in known) if foresees else ()
    size = updater.model.d_state if hasattr(updater, "model") else None
    rows = [vector[-size:] if size else vector for vector in known]
    states = np.stack(rows) if rows else np.zeros((0, size or 1), dtype=np.float32)
    classes += [""] * (len(known) - len(classes))
    return StateTrajectory(name, states, tuple(classes[: len(known)]), chances)


def play_references(
    config: Config,
    resources: Resources,
    tasks: Sequence[Mapping[str, Any]],
    progress: Callable[[int], Any],
) -> list[StateTrajectory]:
    """Play ``tasks`` with the config's actor on the full page, and return their states.

    ``progress(done)`` may raise to stop. Raises ``UserError`` for an actor that cannot play alone.
    """
    if config.actor.kind in _NOT_ALONE:
        raise UserError(f"actor {config.actor.kind} cannot play alone: choose another in Settings")
    memory, context = [{"kind": "short_term"}], {"kind": "full", "budget": 2000}
    values = {**config.model_dump(mode="json"), "memory": memory, "context": context}
    settled = Config.model_validate(values)
    graph = build_graph(settled, InMemorySaver(), resources)
    trajectories = []
    for done, task in enumerate(tasks):
        progress(done)
        session = Session(graph, f"reference-{done}", task=task)
        session.run()
        trajectories.append(trajectory_of(session, task_in_words(task)))
    return trajectories


def similarity(states: Vector) -> Vector:
    """Return the cosine of each pair of states, shape (steps, steps)."""
    norms = np.linalg.norm(states, axis=1, keepdims=True)
    unit = states / np.where(norms > 0, norms, 1.0)
    return (unit @ unit.T).astype(np.float32)


def project(trajectories: Sequence[StateTrajectory]) -> list[Vector]:
    """Return each trajectory as points of the plane (steps, 2): the two main axes of all of them."""
    rows = np.concatenate([trajectory.states for trajectory in trajectories])
    if len(rows) < 2:
        return [np.zeros((len(t.states), 2), dtype=np.float32) for t in trajectories]
    centre = rows.mean(axis=0)
    _, _, axes = np.linalg.svd(rows - centre, full_matrices=False)
    axes = axes[:2] if len(axes) > 1 else np.vstack([axes, np.zeros_like(axes)])
    # An axis has no sign of its own: let its largest weight be positive, so that pictures agree.
    signs = np.sign(axes[np.arange(2), np.abs(axes).argmax(axis=1)])
    axes = axes * np.where(signs == 0, 1.0, signs)[:, None]
    return [((t.states - centre) @ axes.T).astype(np.float32) for t in trajectories]
