"""Do better ranked documents make better answers? Token F1 of a chat model that reads the best few.

    python -m evals.rico_answers --scores runs/rerank-dev --limit 17 --top 2 --out runs/rico-answers

Reads the scores of a reranking run and gives the ``top`` documents of each ranker to the embedded chat
model, the most relevant one last (``reranked``). Rankers that agree on documents and order share one
answer. ``f1`` is SQuAD's (see ``envs.qa.score``), ``whole`` says whether the prompt held every document
that the answer needs.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from envs.qa.score import token_f1
from evals.multihop import Question
from evals.rerank_metrics import AVERAGE, compare, rows_by_dataset
from evals.rerank_scores import read_scores
from evals.run_directory import RunDirectory, provenance
from stores.errors import mistakes_in_one_line

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

RANKERS = ("bm25_stem", "minilm", "single_gradient", "bm25_stem+minilm+single_gradient")
SYSTEM = (
    "Answer the question from the documents with a name, a date or a few words. "
    "Write nothing but the answer."
)
_WORDS = 150


def run_answers(
    scores: str | Path,
    out: str | Path,
    limit: int,
    top: int,
    model: "BaseChatModel",
    model_name: str,
    rankers: Sequence[str] = RANKERS,
    data: str | None = None,
    command: Sequence[str] = ("run_answers",),
) -> dict[str, Any]:
    """Answer the run's questions from each ranker's best documents; goes on where it stopped."""
    from tqdm import tqdm

    scored = read_scores(scores, rankers, limit, data)
    args = {
        **provenance(command), "seed": 0, "checkpoints": {}, "model": model_name, "system": SYSTEM,
        "split": scored.args["split"], "rankers": list(rankers), "top": top, "limit": limit,
    }  # fmt: skip
    run = RunDirectory(out, args)
    rows = run.rows("answers")
    if rows:
        run.note_resumption(args)
    done = {(row["dataset"], row["id"], row["ranker"]) for row in rows}
    said = {(row["dataset"], row["id"], tuple(row["order"])): row["answer"] for row in rows}
    for question in tqdm(scored.questions, unit="question", disable=None):
        for name in rankers:
            if (question.dataset, question.id, name) in done:
                continue
            order = tuple(int(i) for i in scored.best(question, name, top)[::-1])
            key = (question.dataset, question.id, order)
            if key not in said:
                said[key] = _ask(model, question, order)
            run.append("answers", {
                "dataset": question.dataset, "id": question.id, "ranker": name,
                "order": list(order), "answer": said[key],
                "f1": token_f1(said[key], question.answer),
                "whole": set(question.relevant) <= set(order),
            })  # fmt: skip
    return _summarise(run, rankers)


def _ask(model: "BaseChatModel", question: Question, order: Sequence[int]) -> str:
    texts = [" ".join(question.documents[i].shown().split()[:_WORDS]) for i in order]
    asked = "\n\n".join([*texts, f"Question: {question.question}\nAnswer:"])
    reply = model.invoke([("system", SYSTEM), ("user", asked)])
    return " ".join(str(reply.text).split()).removeprefix("Answer:").strip()


def _summarise(run: RunDirectory, rankers: Sequence[str]) -> dict[str, Any]:
    values: dict[str, dict[str, list[float]]] = {name: {} for name in rankers}
    wholes: dict[str, list[bool]] = {name: [] for name in rankers}
    for row in run.rows("answers"):
        values[row["ranker"]].setdefault(row["dataset"], []).append(row["f1"])
        wholes[row["ranker"]].append(row["whole"])
    rows: list[dict[str, Any]] = []
    for name in rankers:
        rows += rows_by_dataset(name, "f1", values[name])
        rows[-1]["whole"] = float(np.mean(wholes[name]))
    tests = [
        {"a": rankers[0], "b": name, "metric": "f1", "dataset": AVERAGE,
         **compare(values[rankers[0]], values[name])}
        for name in rankers[1:]
    ]  # fmt: skip
    return run.summarise(rows, tests)


def main(argv: Sequence[str] | None = None) -> None:
    """Run from the command line (see the module's docstring)."""
    parser = argparse.ArgumentParser(
        "evals.rico_answers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--scores", required=True, help="folder of a reranking run")
    parser.add_argument("--out", required=True)
    parser.add_argument("--limit", type=int, default=17, help="questions of each dataset")
    parser.add_argument("--top", type=int, default=2, help="documents to read")
    parser.add_argument("--model", default="default", help="of the embedded server")
    parser.add_argument("--threads", type=int, help="cores of the embedded server")
    words = list(sys.argv[1:] if argv is None else argv)
    given = parser.parse_args(words)
    command = ["python", "-m", "evals.rico_answers", *words]
    with mistakes_in_one_line():
        from nodes.models.llms import EmbeddedLlm
        from nodes.resources import Resources

        params = EmbeddedLlm(model=given.model, n_ctx=2048, threads=given.threads, max_tokens=24)
        summary = run_answers(
            given.scores, given.out, given.limit, given.top, params.build(Resources()),
            params.model_file().stem, command=command,
        )  # fmt: skip
    for row in summary["rows"]:
        sys.stdout.write(f"{row['agent']:34} {row['dataset']:16} n={row['n']} F1 {row['f1']:.3f}\n")


if __name__ == "__main__":
    main()
