"""Question sets, and dialogues of several sessions with turns whose answers need memory.

A dialogue belongs to one user; each of its sessions is a conversation of its own. A turn is a question,
or {question, kind, expects, answer}: it is then scored, ``expects`` being what a right answer must say
(all of it; "a|b" is either of two wordings).
"""

import re
import string
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

import yaml
from pydantic import BeforeValidator, ConfigDict, StringConstraints, TypeAdapter
from pydantic.dataclasses import dataclass

from stategate.stores.errors import UNREADABLE, UserError, user_error_context
from stategate.stores.files import parse_json, read_yaml

_Rows = TypeVar("_Rows")
_AS_WRITTEN = ConfigDict(coerce_numbers_to_str=True)
_Words = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


@dataclass(frozen=True, config=_AS_WRITTEN)
class Evidence:
    """A stretch of text that answers; ``document`` (an id) is "" where any document may hold it."""

    text: str
    document: str = ""


@dataclass(frozen=True, config=_AS_WRITTEN)
class Question:
    """A question, and where they are known its gold answer and evidence."""

    question: _Words
    answer: str = ""
    evidence: tuple[Evidence, ...] = ()


#: What a scored turn needs: the session's earlier turns, an earlier session's, or names from either.
Kind = Literal["follow_up", "recall", "cross_session", "entity"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True, config=_AS_WRITTEN)
class DialogueTurn:
    """One question; ``kind`` is "" where it only prepares what is asked later."""

    question: _Words
    kind: Kind | Literal[""] = ""
    expects: tuple[str, ...] = ()
    answer: str = ""


def _turn(value: Any) -> Any:
    return {"question": value} if isinstance(value, str) else value


@dataclass(frozen=True, config=_AS_WRITTEN)
class Dialogue:
    """What one user says in several sessions."""

    id: str
    sessions: tuple[tuple[Annotated[DialogueTurn, BeforeValidator(_turn)], ...], ...]


def sample_folder() -> Path:
    """Return the folder of the sample corpus that ships with the code."""
    return Path(__file__).parent / "sample" / "corpus"


def load_questions(source: str) -> list[Question]:
    """Read ``"sample"`` or a YAML or JSON file: a list of {question, answer, evidence}.

    Raises ``UserError`` naming the item that is wrong.
    """
    return _read(source, "questions", list[Question])


def load_dialogues(source: str = "sample") -> list[Dialogue]:
    """Read ``"sample"`` or a YAML file. Raises ``UserError`` naming the dialogue that is wrong."""
    dialogues = _read(source, "dialogues", list[Dialogue])
    if len({dialogue.id for dialogue in dialogues}) < len(dialogues):
        raise UserError(f"'{source}' has two dialogues of one id: rename one")
    return dialogues


def _read(source: str, what: str, form: type[_Rows]) -> _Rows:
    path = sample_folder().with_name(f"{what}.yaml") if source == "sample" else Path(source)
    kinds = (*UNREADABLE, yaml.YAMLError)
    with user_error_context(f"cannot read the {what} '{source}'", "give a file of them", kinds):
        text = path.expanduser().read_text(encoding="utf-8")
        rows = parse_json(text) if path.suffix == ".json" else read_yaml(text)
        return TypeAdapter(form).validate_python(rows)


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
