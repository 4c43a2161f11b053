"""Dialogues of several sessions, with turns whose answers need memory.

A dialogue belongs to one user; each of its sessions is a conversation of its own. A turn is a
question, or {question, kind, expects, answer}: it is then scored, ``expects`` being what a right
answer must say (all of it; "a|b" is either of two wordings).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from envs.qa.questions import read_list
from envs.qa.score import normal
from stores.errors import UserError

#: What a scored turn needs: the session's earlier turns, an earlier session's, or names from either.
KINDS = ("follow_up", "recall", "cross_session", "entity")


@dataclass(frozen=True)
class DialogueTurn:
    """One question; ``kind`` is "" where it only prepares what is asked later."""

    question: str
    kind: str = ""
    expects: tuple[str, ...] = ()
    answer: str = ""


@dataclass(frozen=True)
class Dialogue:
    """What one user says in several sessions."""

    id: str
    sessions: tuple[tuple[DialogueTurn, ...], ...]


def load_dialogues(source: str = "sample") -> list[Dialogue]:
    """Read ``"sample"`` or a YAML file. Raises ``UserError`` naming the dialogue that is wrong."""
    values = read_list(source, "dialogues", "id, sessions")
    found = [_dialogue(value, i, source) for i, value in enumerate(values)]
    if len({dialogue.id for dialogue in found}) < len(found):
        raise UserError(f"'{source}' has two dialogues of one id: rename one")
    return found


def _dialogue(value: Any, i: int, source: str) -> Dialogue:
    try:
        sessions = tuple(tuple(_turn(t) for t in session) for session in value["sessions"])
        return Dialogue(str(value["id"]), sessions)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(f"'{source}' dialogue {i} is not {{id, sessions}} ({error})") from None


def _turn(value: Any) -> DialogueTurn:
    if isinstance(value, str):
        return DialogueTurn(value)
    if not isinstance(value, Mapping) or value.get("kind") not in KINDS:
        raise ValueError(f"a scored turn has a kind: {', '.join(KINDS)}")
    expects = tuple(str(item) for item in value["expects"])
    return DialogueTurn(
        str(value["question"]), value["kind"], expects, str(value.get("answer", ""))
    )


def says(text: str, expects: tuple[str, ...]) -> bool:
    """Say whether ``text`` holds every expected wording, whole words, in any case."""
    there = f" {' '.join(normal(text))} "
    return all(
        any(f" {' '.join(normal(word))} " in there for word in re.split(r"\|", item))
        for item in expects
    )
