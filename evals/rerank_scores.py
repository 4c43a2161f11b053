"""The scores that a reranking run left behind, for evaluations that start from them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evals.multihop import Question, data_folder, load_questions
from nodes.build_context.rico.fusion import fuse_named, parts_of
from stores.errors import UserError


@dataclass(frozen=True)
class Scored:
    """``args`` of the run, and those of its questions that every wanted ranker has scored."""

    args: dict[str, Any]
    questions: list[Question]
    rows: Mapping[tuple[str, str, str], Sequence[float]]

    def of(self, question: Question, name: str) -> NDArray[np.float64]:
        """Return the scores of ``name``, a ranker or a fusion, one for each candidate."""
        own = {part: self.rows[question.dataset, question.id, part] for part in parts_of(name)}
        return fuse_named(name, own)

    def best(self, question: Question, name: str, top: int) -> NDArray[np.intp]:
        """Return the indices of the ``top`` candidates, best first."""
        return np.argsort(-self.of(question, name), kind="stable")[:top]


def read_scores(
    folder: str | Path, rankers: Sequence[str], limit: int | None = None, data: str | None = None
) -> Scored:
    """Read a run of ``stategate eval rerank`` over the given pool, ``limit`` questions a dataset.

    Raises ``UserError`` where there is no such run, or no question that has all of ``rankers``.
    """
    try:
        args = json.loads((Path(folder) / "args.json").read_text("utf-8"))
        lines = (Path(folder) / "scores.jsonl").read_text("utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise UserError(f"'{folder}' is no reranking run ({error})") from None
    found = (json.loads(line) for line in lines)
    rows = {(row["dataset"], row["id"], row["ranker"]): row["scores"] for row in found}
    questions = load_questions(data_folder(data), args["split"], args["datasets"], limit)
    parts = {part for name in rankers for part in parts_of(name)}
    questions = [q for q in questions if all((q.dataset, q.id, p) in rows for p in parts)]
    if not questions or args["pool"] != "given":
        raise UserError(
            f"'{folder}' holds no scores of {', '.join(rankers)} in the given pool: "
            "name another ranker or run"
        )
    return Scored(args, questions, rows)
