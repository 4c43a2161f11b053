"""Reranking: which ranker ranks the documents that a multi-hop answer needs first.

Questions are those of HotpotQA, 2WikiMultihopQA and MuSiQue: files ``NAME.dev.jsonl.gz`` (to tune on)
and ``NAME.test.jsonl.gz`` (to report), a row a question: ``{id, question, answer, documents: [{title,
text}], relevant: [indices]}``. ``scores.jsonl`` holds a row for each question and ranker; fusions
(``bm25+minilm``) are made from those rows and cost nothing. A run that was killed goes on; each
document is read by the model once, on any run (see ``nodes.models.documents``).
"""

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stategate.evals.core.statistics import paired, ranking_metrics, summary_row
from stategate.evals.core.task import Row, Sample, Solver, Summary, Task
from stategate.evals.settings import Rerank
from stategate.nodes.build_context.rico import GRADIENT, gradient
from stategate.nodes.models.documents import Document, document_states, shared_backend
from stategate.nodes.models.embedders import MiniLM
from stategate.nodes.resources import Resources
from stategate.nodes.retrieval.ranking import bm25, cosine, fuse
from stategate.stores.errors import UserError, user_error_context
from stategate.stores.runs import mean, read_rows

#: Our names, and ir-measures' own.
MEASURES = {"ndcg": "nDCG@10", "map": "AP", "p2": "P@2", "r2": "R@2", "r5": "R@5"}
#: The dataset that a row about all of them names: the mean of their means.
AVERAGE = "average"
LEXICAL = ("bm25", "bm25_stem")
#: Rankers that fusions are made of.
BASE = (*LEXICAL, "minilm", GRADIENT)
Scores = NDArray[np.floating]
DATASETS = ("hotpotqa", "2wikimultihopqa", "musique")


def load_questions(
    folder: Path, split: str, datasets: Sequence[str] = DATASETS, limit: int | None = None
) -> list[Row]:
    """Return questions, a dataset at a time in turn, so that a part of a run is balanced.

    ``limit`` keeps the first so many of each dataset. Raises ``UserError`` for a bad file.
    """
    columns = []
    for name in datasets:
        path = folder / f"{name}.{split}.jsonl.gz"
        if not path.is_file():
            why = f"no file {path.name} in '{folder.name}': give the folder with --data"
            raise UserError(f"{why}; datasets are {', '.join(DATASETS)}")
        with user_error_context(f"{path.name} is damaged", "fetch it again"):
            columns.append([_question(name, row) for row in read_rows(path)[:limit]])
    return [q for group in zip_longest(*columns) for q in group if q is not None]


def _question(dataset: str, row: Mapping[str, Any]) -> Row:
    documents = [Document(str(d["title"]), str(d["text"])) for d in row["documents"]]
    return {
        "dataset": dataset,
        "id": str(row["id"]),
        "question": str(row["question"]),
        "documents": documents,
        "texts": [document.as_text() for document in documents],
        "relevant": [int(i) for i in row["relevant"]],
    }


def rerank_task(settings: Rerank) -> Task:
    """Return the task: every question's documents scored by every base ranker.

    Raises ``UserError`` for an unknown ranker or dataset.
    """
    # The solver runs base rankers; the scorer fuses their scores.
    base = list(dict.fromkeys(part for name in settings.rankers for part in name.split("+")))
    if unknown := [name for name in base if name not in BASE]:
        raise UserError(f"rankers (a+b is a fusion) are {', '.join(BASE)}: '{unknown[0]}' is none")
    folder = Path(settings.data).expanduser()
    questions = load_questions(folder, settings.split, settings.datasets, settings.limit)
    digest = hashlib.sha256()
    for name in settings.datasets:
        digest.update((folder / f"{name}.{settings.split}.jsonl.gz").read_bytes())
    data = {"name": "multihop", "sha256": digest.hexdigest()}
    samples = [
        # A ranker that fails leaves the order of the candidates.
        Sample(
            {"dataset": q["dataset"], "id": q["id"]},
            q,
            {"relevant": q["relevant"], "scores": [0.0] * len(q["documents"])},
        )
        for q in questions
    ]

    def solver(name: str) -> Solver:
        prepare = scorer_of(name, settings)

        def solve(sample: Sample, row: Row) -> None:
            score = prepare(sample.data)
            started = time.perf_counter()
            scores = [float(f"{value:.7g}") for value in score()]
            row |= {**sample.failure, "scores": scores}
            row["seconds"] = round(time.perf_counter() - started, 4)

        return solve

    scorer = partial(summarise, questions=questions, rankers=settings.rankers, seed=settings.seed)
    args = {**settings.args(), "data": data, "checkpoints": {}}
    return Task(base, samples, solver, scorer, args, "scores", "ranking")


def scorer_of(name: str, settings: Rerank) -> Callable[[Row], Callable[[], Scores]]:
    """Return a base ranker in two stages: it reads a question's documents, then scores them.

    Only scoring is timed. Models are loaded here, so that a missing one ends the run at once.
    """
    if name in LEXICAL:
        is_stemmed = name == "bm25_stem"
        return lambda q: partial(bm25, q["question"], q["texts"], stemmed=is_stemmed)
    if name == "minilm":
        embedder = MiniLM().build(Resources())

        def by_meaning(q: Row) -> Callable[[], Scores]:
            embedder.embed(q["texts"])  # cached, like documents' states
            return partial(cosine, embedder, q["question"], q["texts"])

        return by_meaning
    backend = shared_backend(settings.model, settings.max_tokens)

    def by_gradient(q: Row) -> Callable[[], Scores]:
        states = document_states(backend, q["documents"])
        return lambda: gradient(backend, states, q["question"])

    return by_gradient


def summarise(
    scores: Sequence[Row], questions: Sequence[Row], rankers: Sequence[str], seed: int = 0
) -> Summary:
    """Return a row for each ranker and dataset, the last one the datasets' average, and tests.

    Tests compare every ranker with the first, and the last with every other. Where a ranker failed,
    its documents keep the order of the pool.
    """
    rows = {(row["dataset"], row["id"], row["agent"]): row for row in scores}
    values = {name: [_measured(name, q, rows) for q in questions] for name in rankers}
    indices: dict[str, list[int]] = {}  # of each dataset's questions
    for i, question in enumerate(questions):
        indices.setdefault(question["dataset"], []).append(i)
    summary: list[Row] = []
    for name in rankers:
        by_dataset = [
            {
                "dataset": dataset,
                **summary_row(name, {i: values[name][i] for i in numbers}, [*MEASURES]),
            }
            for dataset, numbers in indices.items()
        ]
        # A question takes as long in every dataset: the mean over all.
        seconds = mean([unit["seconds"] for unit in values[name]])
        every = (*by_dataset, _average(name, by_dataset))
        summary += [{**row, "seconds": seconds} for row in every]
    # Weights by which a mean over questions is the mean of the datasets' means.
    size = len(questions) / len(indices)
    weights = np.array([size / len(indices[question["dataset"]]) for question in questions])
    pairs = [(rankers[0], name) for name in rankers[1:]]
    pairs += [(name, rankers[-1]) for name in rankers[1:-1]]
    tests = []
    for a, b in pairs:
        of_a, of_b = (np.array([unit["ndcg"] for unit in values[name]]) for name in (a, b))
        compared = {AVERAGE: (of_a * weights, of_b * weights)}
        compared |= {
            dataset: (of_a[numbers], of_b[numbers]) for dataset, numbers in indices.items()
        }
        for dataset, pair in compared.items():
            test = paired(*pair, seed)
            tests.append({"a": a, "b": b, "metric": "ndcg", "dataset": dataset, **test})
    return summary, tests


def _average(name: str, by_dataset: Sequence[Row]) -> Row:
    """Return a ranker's row of the datasets' average, each of the same weight."""
    average: Row = {"agent": name, "dataset": AVERAGE}
    average |= {key: sum(row[key] for row in by_dataset) for key in ("n", "errors")}
    for metric in MEASURES:
        average[metric] = mean([row[metric] for row in by_dataset])
        errors = [row[f"{metric}_se"] for row in by_dataset]
        average[f"{metric}_se"] = float(np.linalg.norm(errors)) / len(errors)
    return average


def _measured(
    name: str, question: Row, rows: Mapping[tuple[str, str, str], Row]
) -> dict[str, float]:
    """Return the metrics and costs of a ranker, or of a fusion of rankers, on one question."""
    parts = {part: rows[question["dataset"], question["id"], part] for part in name.split("+")}
    each = [row["scores"] for row in parts.values()]
    scores = fuse(each) if len(each) > 1 else each[0]
    return {
        **ranking_metrics(MEASURES, list(scores), question["relevant"]),
        "seconds": sum(row["seconds"] for row in parts.values()),
        "errors": float(sum(bool(row.get("error")) for row in parts.values())),
    }
