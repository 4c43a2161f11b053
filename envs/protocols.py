"""The vocabulary of worlds: what a step shows, and what a world must offer."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

#: A world's whole situation as a small JSON-serialisable mapping. Worlds never change one in place.
Session = Mapping[str, Any]

#: The affordance that stands for "search for any words"; concrete actions are ``search[red shoes]``.
SEARCH = "search[<query>]"
#: The affordance that stands for "answer with any text"; a concrete action is ``answer[In 1911.]``.
ANSWER = "answer[<text>]"
#: Affordances whose brackets take free text.
FREE = (SEARCH, ANSWER)


@dataclass(frozen=True)
class Observation:
    """What the agent sees after a step.

    ``actions`` are the affordances on the page in page order: ``click[target]`` with the target in
    lower case, and :data:`SEARCH` where there is a search bar. ``reward`` is the reward of the step
    that led here. ``info`` holds world-specific facts (WebShop: ``available``, and ``reward`` with
    the reward's parts after a purchase); agents must not read it, harnesses may.
    """

    text: str
    actions: tuple[str, ...]
    reward: float = 0.0
    done: bool = False
    info: Mapping[str, Any] = field(default_factory=dict)


@runtime_checkable
class World(Protocol):
    """A world is three pure functions over sessions (design decision 1)."""

    name: str

    def reset(self, task: Mapping[str, Any]) -> tuple[Session, Observation]:
        """Start ``task`` (for WebShop ``{"goal": 3}``). Raises ``UserError`` for an unknown task."""
        ...

    def step(self, session: Session, action: str) -> tuple[Session, Observation]:
        """Return the next session and observation; ``session`` itself stays as it was."""
        ...

    def observe(self, session: Session) -> Observation:
        """Draw the observation of ``session`` again, equal to the one that came with it."""
        ...

    def instruction(self, session: Session) -> str:
        """Return what the user asked for in this session."""
        ...


def is_legal(action: str, affordances: tuple[str, ...]) -> bool:
    """Say whether ``action`` is one of ``affordances``, or text where one of them takes text."""
    if action in affordances:
        return action not in FREE
    verb, _, rest = action.partition("[")
    takes_text = any(free.startswith(f"{verb}[") and free in affordances for free in FREE)
    return takes_text and rest.endswith("]") and bool(rest.removesuffix("]").strip())


def answer(text: str) -> str:
    """Return the action that answers with ``text`` (with "(nothing)" where there is none)."""
    return f"answer[{text.strip() or '(nothing)'}]"


def answered(action: str) -> str | None:
    """Return the text of an ``answer[...]`` action, None for any other action."""
    is_answer = action.startswith("answer[") and action.endswith("]")
    return action[len("answer[") : -1].strip() if is_answer else None
