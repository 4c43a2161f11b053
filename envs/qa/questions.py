"""Question sets, and dialogues of several sessions with turns whose answers need memory.

A dialogue belongs to one user; each of its sessions is a conversation of its own. A turn is a question,
or {question, kind, expects, answer}: it is then scored, ``expects`` being what a right answer must say
(all of it; "a|b" is either of two wordings).
"""

import re
import string
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from stategate.stores.errors import UNREADABLE, UserError, user_error_context
from stategate.stores.files import parse_json, read_yaml


@dataclass(frozen=True)
class Evidence:
    """A stretch of text that answers; ``document`` (an id) is "" where any document may hold it."""

    text: str
    document: str = ""


@dataclass(frozen=True)
class Question:
    """A question, and where they are known its gold answer and evidence."""

    question: str
    answer: str = ""
    evidence: tuple[Evidence, ...] = ()


def sample_folder() -> Path:
    """Return the folder of the sample corpus that ships with the code."""
    return Path(str(files("stategate.envs.qa.sample"))) / "corpus"


def load_questions(source: str) -> list[Question]:
    """Read ``"sample"`` or a YAML or JSON file: a list of {question, answer, evidence}.

    Raises ``UserError`` naming the item that is wrong.
    """
    values = read_list(source, "questions", "question, answer, evidence")
    return [_question(value, i, source) for i, value in enumerate(values)]


def read_list(source: str, what: str, form: str) -> list[Any]:
    """Read ``"sample"`` or a YAML or JSON file that holds a list of {``form``}; errors as above."""
    path = Path(str(files("stategate.envs.qa.sample"))) / f"{what}.yaml"
    path = path if source == "sample" else Path(source).expanduser()
    kinds = (*UNREADABLE, yaml.YAMLError)
    with user_error_context(f"cannot read the {what} '{source}'", "give a file", kinds):
        text = path.read_text(encoding="utf-8")
        values = parse_json(text) if path.suffix == ".json" else read_yaml(text)
    if not isinstance(values, list):
        raise UserError(f"'{source}' is no list of {{{form}}}")
    return values


def _question(value: Any, i: int, source: str) -> Question:
    if not isinstance(value, Mapping) or not str(value.get("question") or "").strip():
        raise UserError(f"'{source}' item {i} has no question")
    answer = value.get("answer") or value.get("reference_answer") or ""
    try:
        evidence = tuple(
            Evidence(str(e["text"]), str(e.get("document", "")))
            for e in value.get("evidence") or ()
        )
    except (TypeError, KeyError, AttributeError):
        raise UserError(f"'{source}' item {i}: write evidence as {{document, text}}") from None
    return Question(str(value["question"]).strip(), str(answer).strip(), evidence)


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
    with user_error_context(f"'{source}' dialogue {i} is not {{id, sessions}}"):
        sessions = tuple(tuple(_turn(t) for t in session) for session in value["sessions"])
        return Dialogue(str(value["id"]), sessions)


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


_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans(dict.fromkeys(string.punctuation + "–—‘’“”…", " "))


def normal(text: str) -> list[str]:
    """Return lower-case words without articles and punctuation."""
    return _ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split()


def token_f1(given: str, gold: str) -> float:
    """Return the harmonic mean of precision and recall over words, 0 to 1."""
    a, b = normal(given), normal(gold)
    shared = sum((Counter(a) & Counter(b)).values())
    if not shared:
        return float(a == b)
    precision, recall = shared / len(a), shared / len(b)
    return 2 * precision * recall / (precision + recall)
