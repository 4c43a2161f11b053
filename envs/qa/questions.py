"""Question sets: questions with gold answers, and evidence as stretches of text."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from stores.errors import UserError


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
    return Path(str(files("envs.qa.sample"))) / "corpus"


def load_questions(source: str) -> list[Question]:
    """Read ``"sample"`` or a YAML or JSON file: a list of {question, answer, evidence}.

    Raises ``UserError`` naming the item that is wrong.
    """
    values = read_list(source, "questions", "question, answer, evidence")
    return [_question(value, i, source) for i, value in enumerate(values)]


def read_list(source: str, what: str, form: str) -> list[Any]:
    """Read ``"sample"`` or a YAML or JSON file that holds a list of {``form``}; errors as above."""
    path = Path(str(files("envs.qa.sample"))) / f"{what}.yaml"
    path = path if source == "sample" else Path(source).expanduser()
    try:
        text = path.read_text(encoding="utf-8")
        values = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except (OSError, ValueError, yaml.YAMLError) as error:
        problem = " ".join(str(error).split())
        raise UserError(f"cannot read the {what} '{source}' ({problem}): give a file") from None
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
