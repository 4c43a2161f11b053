"""What long-term memory keeps: whose it is, a turn as it is written, a fact as it is read."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float32]


@dataclass(frozen=True)
class Namespace:
    """Whose memory: nobody reads another user's."""

    user: str = "default"
    agent: str = "stategate"

    def __post_init__(self) -> None:
        object.__setattr__(self, "user", clean(self.user))
        object.__setattr__(self, "agent", clean(self.agent))


@dataclass(frozen=True)
class Entity:
    """A person, location, organisation, thing or topic by its name.

    Memories written earlier may hold other kinds ("phenomenon"); they are read as they are.
    """

    kind: str
    name: str
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Relation:
    """``subject`` ``relation`` ``object``, such as Ada Holt lives_in Oslo."""

    subject: Entity
    relation: str
    object: Entity


@dataclass(frozen=True)
class Turn:
    """One answered question, and where it happened. ``vector`` is the question's, unit length.

    ``about`` is what a question that points back into its conversation is about ("" for others):
    without it a fact would be unreadable in another conversation.
    """

    thread_id: str
    episode_id: str
    step: int
    question: str
    answer: str
    vector: Vector
    answer_vector: Vector
    embedder: str
    success: bool = True
    salience: float = 0.5
    entities: tuple[Entity, ...] = ()
    relations: tuple[Relation, ...] = ()
    at: float | None = None
    about: str = ""


@dataclass(frozen=True)
class Fact:
    """A remembered answer. ``score`` is its relevance to what was asked; times in Unix seconds."""

    id: int
    question: str
    answer: str
    salience: float
    success: bool
    created: float
    updated: float
    times: int
    score: float = 0.0
    contradicts: tuple[int, ...] = ()
    turns: tuple[Mapping[str, Any], ...] = ()


def tidy(value: Any) -> Any:
    """Return a turn, or a part of one, with text that every database takes."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, tuple):
        return tuple(tidy(item) for item in value)
    if isinstance(value, Entity):
        return replace(value, name=clean(value.name)[:300])
    if isinstance(value, Turn | Relation):
        return replace(value, **{key: tidy(item) for key, item in vars(value).items()})
    return value


def clean(text: str) -> str:
    """Return text that every database takes: no lone surrogates, no NUL."""
    return text.encode("utf-8", "replace").decode().replace("\x00", "")
