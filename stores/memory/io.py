"""Long-term memory as a JSON Lines file, one turn a line: to keep, to move, to read elsewhere."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stores.errors import UserError
from stores.files import write_lines
from stores.memory.entities import Extractor
from stores.memory.long_term import LongTerm, Namespace, Turn

_FIELDS = ("thread_id", "episode_id", "step", "question", "answer")


def export_turns(memory: LongTerm, namespace: Namespace, target: Path) -> int:
    """Write every turn with what its fact says, oldest first; returns how many."""
    return write_lines(target, memory.turns(namespace))


def import_turns(
    memory: LongTerm,
    namespace: Namespace,
    source: Path,
    embed: Callable[[Sequence[str]], NDArray[np.float32]],
    embedder: str,
    extract: Extractor,
) -> int:
    """Write the turns of a file, embedded and read for entities anew.

    Returns how many were not there yet. Raises ``UserError`` naming the line that is wrong, before
    anything is written.
    """
    try:
        lines = source.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(
            f"cannot read '{source}' ({error}): name a file of `memory export`"
        ) from None
    rows = [_row(line, n, source) for n, line in enumerate(lines, 1) if line.strip()]
    written = 0
    for row in rows:
        about = str(row.get("about", ""))
        asked = f"{about} {row['question']}".strip()
        vectors = embed([asked, row["answer"]])
        entities, relations = extract(f"{asked}\n{row['answer']}")
        turn = Turn(
            **{name: row[name] for name in _FIELDS},
            vector=vectors[0], answer_vector=vectors[1], embedder=embedder,
            success=bool(row.get("success", True)), salience=float(row.get("salience", 0.5)),
            entities=tuple(entities), relations=tuple(relations), at=float(row["at"]), about=about,
        )  # fmt: skip
        written += memory.write(namespace, turn) is not None
    return written


def _row(line: str, number: int, source: Path) -> dict[str, Any]:
    try:
        row = json.loads(line)
        if not all(isinstance(row[name], int if name == "step" else str) for name in _FIELDS):
            raise TypeError("a field has another type")
        float(row["at"]), float(row.get("salience", 0.5))
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"'{source}' line {number} is no turn ({error}): see memory export"
        ) from None
    checked: dict[str, Any] = row
    return checked
