"""The recurrent state over an episode, and where it lies among those of reference episodes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from langgraph.checkpoint.memory import InMemorySaver

from graph.build import build_graph
from graph.config import Config
from graph.session import Session
from graph.state import unpack_vector
from nodes.protocols import Vector
from nodes.resources import Resources
from stores.errors import UserError


@dataclass(frozen=True)
class Course:
    """The states of one episode (steps, d_state), and the class of the action taken from each.

    ``chances`` are the foreseen classes' probabilities at each step ({} where nothing foresees).
    The last step may have no action yet (class "").
    """

    name: str
    states: Vector
    classes: tuple[str, ...]
    chances: tuple[dict[str, float], ...] = ()


def course_of(session: Session, name: str = "this episode") -> Course:
    """Return the course of a session's episode so far, read from its checkpoints.

    Raises ``UserError`` where the agent keeps no recurrent state.
    """
    bound = session.agent.bound()
    updater = bound.resources.updater
    if updater is None:
        raise UserError("this agent keeps no recurrent state: set updater.kind=gru (or ssm)")
    moments = session.moments()
    actions = [result.decision.action for result in session.replay()]
    pages = [bound.world.observe(moment["session"]).text for moment in moments]
    class_of = bound.resources.view.actions.class_of
    classes = [class_of(page, action) for page, action in zip(pages, actions, strict=False)]
    whole = [unpack_vector(moment.get("recurrent")) for moment in moments]
    known = [vector for vector in whole if vector is not None]
    foresees = hasattr(updater, "predict")
    size = updater.model.d_state if hasattr(updater, "model") else None
    chances = tuple(updater.predict(vector) for vector in known) if foresees else ()  # type: ignore[attr-defined]
    rows = [vector[-size:] if size else vector for vector in known]
    states = np.stack(rows) if rows else np.zeros((0, size or 1), dtype=np.float32)
    classes += [""] * (len(known) - len(classes))
    return Course(name, states, tuple(classes[: len(known)]), chances)


def reference_courses(
    config: Config,
    resources: Resources,
    goals: Sequence[int],
    progress: Callable[[int, int], Any] | None = None,
) -> list[Course]:
    """Play ``goals`` with the ``rule`` actor and the full page, and return their courses.

    ``progress(done, total)`` may raise to stop.
    """
    changes: dict[str, Any] = {"actor": {"kind": "rule"}, "memory": [{"kind": "short_term"}]}
    changes["context"] = {"kind": "full", "budget": 2000}
    settled = Config.model_validate({**config.model_dump(mode="json"), **changes})
    courses = []
    for done, goal in enumerate(goals):
        if progress is not None:
            progress(done, len(goals))
        graph = build_graph(settled, InMemorySaver(), resources)
        session = Session(graph, f"reference-{goal}", task={"goal": goal})
        session.run()
        courses.append(course_of(session, f"goal {goal}"))
    return courses


def similarity(states: Vector) -> Vector:
    """Return the cosine of each pair of states, shape (steps, steps)."""
    norms = np.linalg.norm(states, axis=1, keepdims=True)
    unit = states / np.where(norms > 0, norms, 1.0)
    cosines: Vector = (unit @ unit.T).astype(np.float32)
    return cosines


def project(courses: Sequence[Course]) -> list[Vector]:
    """Return each course as points of the plane (steps, 2): the two main axes of all of them."""
    rows = np.concatenate([course.states for course in courses])
    if len(rows) < 2:
        return [np.zeros((len(course.states), 2), dtype=np.float32) for course in courses]
    centre = rows.mean(axis=0)
    _, _, axes = np.linalg.svd(rows - centre, full_matrices=False)
    axes = axes[:2] if len(axes) > 1 else np.vstack([axes, np.zeros_like(axes)])
    # An axis has no sign of its own: let its largest weight be positive, so that pictures agree.
    signs = np.sign(axes[np.arange(2), np.abs(axes).argmax(axis=1)])
    axes = axes * np.where(signs == 0, 1.0, signs)[:, None]
    return [((course.states - centre) @ axes.T).astype(np.float32) for course in courses]
