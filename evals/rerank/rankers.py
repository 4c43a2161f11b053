"""Reranking: who puts the documents that a multi-hop answer needs in front.

    stategate eval rerank --split dev --limit 20 --out runs/rerank-dev
    stategate eval rerank --split test --rankers bm25,minilm,single_gradient --out runs/rerank-test

``scores.jsonl`` holds a row for each question and ranker; fusions (``bm25+minilm``) are made from
those rows and cost nothing. A run that was killed goes on; each document is read by the model once,
on any run (see ``stores.states.documents``).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from evals.multihop import Question, data_folder, data_hash, load_questions
from evals.rerank_pool import Pool, given_pool, retrieved_pool
from evals.rerank_scorer import LEXICAL, ORACLES, STEPPED, WARM, Scorer, Settings
from evals.rerank_summary import DERIVED, source_of, summarise
from evals.run_directory import RunDirectory, provenance, shown_path
from nodes.build_context.rico.fusion import parts_of
from nodes.build_context.rico.rankers import RANKERS
from stores.errors import UserError


def run_rerank(
    settings: Settings,
    out: str,
    data: str | None = None,
    states: str | None = None,
    command: Sequence[str] = ("run_rerank",),
) -> dict[str, Any]:
    """Score every question with every ranker, and return the summary; resumes what ``out`` holds.

    Raises ``UserError`` for an unknown ranker or dataset.
    """
    from tqdm import tqdm

    check_rankers(settings.rankers, settings.steps)
    folder = data_folder(data)
    questions = load_questions(folder, settings.split, settings.datasets, settings.limit)
    if not questions:
        raise UserError("no questions: raise --limit")
    args = {
        **provenance(command),
        "data": {
            "name": "multihop",
            "sha256": data_hash(folder, settings.split, settings.datasets),
        },
        "seed": settings.seed,
        "checkpoints": {},
        **_shown(settings),
    }
    run = RunDirectory(out, args)
    done = {(row["dataset"], row["id"], row["ranker"]) for row in run.rows("scores")}
    if done:
        run.note_resumption(args)
    base = base_rankers(settings.rankers)
    pools = _pools(settings, questions)
    scorer = Scorer(settings, states)
    with tqdm(
        total=len(questions) * len(base), initial=len(done), unit="ranking", disable=None
    ) as bar:
        for question, pool in zip(questions, pools, strict=True):
            for name in base:
                if (question.dataset, question.id, name) in done:
                    continue
                found = scorer.score(name, question, pool)
                run.append("scores", _with_question(question, pool, name, found))
                bar.update()
    return summarise(run, questions, settings.rankers, settings.seed)


def check_rankers(names: Iterable[str], steps: int = 5) -> None:
    """Raise ``UserError`` unless every part of every name is a base ranker, or a step of one."""
    known = (
        *LEXICAL,
        "minilm",
        *(n for n in RANKERS if n != "warm_start"),
        *WARM,
        *ORACLES,
        *DERIVED,
    )
    for name in names:
        for part in parts_of(name) or [name]:
            base, at, step = part.partition("@")
            is_step = base in STEPPED and step.isdigit() and 1 <= int(step) <= steps
            if base not in known or (at and not is_step):
                raise UserError(
                    f"unknown ranker '{part}': known are {', '.join(known)}; a+b for a "
                    f"fusion, {STEPPED[0]}@1 to @{steps} for a step"
                )


def base_rankers(names: Iterable[str]) -> list[str]:
    """Return the rankers that must be run, once each: fusions are made of them afterwards."""
    parts = (part for name in names for part in parts_of(name))
    return list(dict.fromkeys(source_of(part) for part in parts))


def _pools(settings: Settings, questions: Sequence[Question]) -> list[Pool]:
    if settings.pool == "given":
        return [given_pool(question) for question in questions]
    return retrieved_pool(questions, settings.depth)


def _with_question(
    question: Question, pool: Pool, name: str, found: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "dataset": question.dataset,
        "id": question.id,
        "ranker": name,
        "relevant": list(pool.relevant),
        "missed": pool.missed,
        **found,
    }


def _shown(settings: Settings) -> dict[str, Any]:
    values = asdict(settings)
    values["model"] = shown_path(settings.model)
    return {key: list(v) if isinstance(v, tuple) else v for key, v in values.items()}
