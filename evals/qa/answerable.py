"""Questions with and without an answer: what an actor gets right, gets wrong, and declines.

    stategate eval answers --out runs/answers                            # held-out questions, extract
    stategate eval answers --set actor.kind=answer --limit 8 --out runs/answers-model
    python -m evals.qa.answerable runs/answers-fit                   # fits nodes/act/support.json

The held-out questions (``marked/answerable.yaml``) are asked through the graph, each on a thread of its
own without long-term memory. The chance is fitted on other questions: multi-hop ones that others marked
and those of the sample corpus, each put twice, with the documents that bear the evidence and without
them, and those of six corpora of our own (``marked/answerable_dev.yaml``). The label is whether the
sentence that would be quoted holds the answer.
"""

import hashlib
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import yaml

from stategate.evals.core.statistics import interval
from stategate.evals.core.task import Attempt, Row, Sample, Solver, Summary, Task, run_task
from stategate.stores.errors import UserError
from stategate.stores.runs import provenance

KINDS = ("answered", "same", "other")
_CALIBRATED = 18  # questions of each multi-hop set that the chance is fitted on


@dataclass(frozen=True)
class Asked:
    """A question: of which corpus and kind, and the words that a right answer holds (any of them)."""

    corpus: str
    kind: str
    question: str
    right: tuple[str, ...] = ()


def marked(split: str = "test") -> tuple[list[Asked], dict[str, dict[str, str]], str]:
    """Return the questions of ``split``, the documents of each corpus by name, and a hash of both."""
    name = {"test": "answerable.yaml", "dev": "answerable_dev.yaml"}[split]
    raw = files("stategate.evals.qa").joinpath("marked", name).read_bytes()
    articles = files("stategate.envs.qa.sample").joinpath("articles.yaml").read_bytes()
    asked: list[Asked] = []
    corpora: dict[str, dict[str, str]] = {}
    for part in yaml.safe_load(raw):
        name = part["corpus"]
        known = {f"{row['id']}.md": row["text"] for row in yaml.safe_load(articles)}
        corpora[name] = part.get("documents") or known
        for line in part["answered"]:
            question, _, right = line.partition(" :: ")
            asked.append(Asked(name, "answered", question, tuple(right.split("|"))))
        asked += [Asked(name, kind, q) for kind in ("same", "other") for q in part.get(kind, ())]
    return asked, corpora, hashlib.sha256(raw + articles).hexdigest()


def run_answers(
    out: str,
    config: str = "qa",
    overrides: Sequence[str] = (),
    limit: int | None = None,
    split: Literal["test", "dev"] = "test",
) -> dict[str, Any]:
    """Ask the marked questions and return the summary; ``limit`` is of each corpus and kind.

    "test" is held out: three corpora; "dev" the six that ``extract`` was developed on.
    """
    asked, corpora, sha256 = marked(split)
    groups: dict[tuple[str, str], int] = {}
    chosen = []
    for one in asked:
        place = groups[one.corpus, one.kind] = groups.get((one.corpus, one.kind), 0) + 1
        if limit is None or place <= limit:
            chosen.append(one)
    samples = [
        Sample({"corpus": one.corpus, "kind": one.kind, "question": one.question}, one)
        for one in chosen
    ]
    args = {
        "data": {"name": "answerable", "split": split, "sha256": sha256},
        "config": config,
        "overrides": list(overrides),
        "limit": limit,
        "seed": 0,
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, documents in corpora.items():
            for file, text in documents.items():
                path = Path(folder) / name / file
                path.parent.mkdir(exist_ok=True)
                path.write_text(text, encoding="utf-8")

        def solver(agent: str) -> Solver:
            return _solver(config, overrides, folder)

        from stategate.graph.config import load_config

        kind = load_config(config, list(overrides)).actor.kind
        task = Task([kind], lambda _: samples, solver, _score, unit="question")
        return run_task(task, out, args)


def _solver(config: str, overrides: Sequence[str], folder: str) -> Solver:
    from langgraph.checkpoint.memory import InMemorySaver

    from stategate.envs.protocols import answered
    from stategate.graph.build import build_graph
    from stategate.graph.config import load_config
    from stategate.graph.session import Session
    from stategate.nodes.act.support import NOTHING_FOUND

    alone = ["context.memory=null", "memory=[conversation]"]

    @cache
    def graph_of(corpus: str) -> Any:
        where = f"env.corpus={Path(folder) / corpus}"
        return build_graph(load_config(config, [*alone, *overrides, where]), InMemorySaver())

    def solve(sample: Sample, attempt: Attempt) -> None:
        one: Asked = sample.data
        thread = hashlib.sha256(f"{one.corpus}{one.question}".encode()).hexdigest()
        session = Session(graph_of(one.corpus), thread, task={"question": one.question})
        result = session.step()
        said = answered(result.decision.action) or ""
        is_declined = said == NOTHING_FOUND
        is_right = any(right.lower() in said.lower() for right in one.right)
        attempt.rows[0] |= {
            "said": said,
            "reason": result.decision.reason,
            "outcome": "declined" if is_declined else "correct" if is_right else "wrong",
        }

    return solve


def _score(rows: Sequence[Row]) -> Summary:
    """Return right, wrong and declined by kind, over all corpora and of each, with intervals."""
    scored = []
    for agent in dict.fromkeys(row["agent"] for row in rows):
        for corpus in ("all", *dict.fromkeys(row["corpus"] for row in rows)):
            for kind in KINDS:
                own = [
                    row["outcome"]
                    for row in rows
                    if row["agent"] == agent
                    and row["kind"] == kind
                    and "outcome" in row
                    and corpus in ("all", row["corpus"])
                ]
                if not own:
                    continue
                line: Row = {"agent": agent, "corpus": corpus, "kind": kind, "n": len(own)}
                line |= {name: own.count(name) for name in ("correct", "wrong", "declined")}
                wanted = "correct" if kind == "answered" else "declined"
                spread = interval([float(outcome == wanted) for outcome in own])
                line |= {"as_wanted": own.count(wanted) / len(own)}
                scored.append({**line, "low": spread.low, "high": spread.high})
    return scored, []


# What the chance is fitted on.


def _development(data: str | None) -> Iterator[tuple[str, str, list[str], list[str], list[str]]]:
    """Yield (id, question, titles, texts, what a right sentence holds), with evidence and without."""
    from stategate.envs.qa.questions import load_questions as load_sample
    from stategate.envs.qa.questions import sample_folder
    from stategate.evals.rerank.data import data_folder, load_questions
    from stategate.stores.corpus.documents import Document, read_folder

    for one in load_questions(data_folder(data), "dev", limit=_CALIBRATED):
        if one.answer.lower() in ("yes", "no"):
            continue  # no sentence holds such an answer
        for is_there in (True, False):
            kept = [d for i, d in enumerate(one.documents) if is_there or i not in one.relevant]
            titles, texts = [d.title for d in kept], [d.text for d in kept]
            yield one.id, one.question, titles, texts, [one.answer.lower()]
    documents = [d for d in read_folder(sample_folder()) if isinstance(d, Document)]
    for number, asked in enumerate(load_sample("sample")):
        bears = {e.document for e in asked.evidence}
        held = [part for e in asked.evidence for part in e.text.split(". ")]
        for is_there in (True, False):
            kept_documents = [d for d in documents if is_there or d.id not in bears]
            titles = [d.title or d.id for d in kept_documents]
            texts = [d.text for d in kept_documents]
            yield f"sample-{number}", asked.question, titles, texts, [p.lower() for p in held]
    raw = files("stategate.evals.qa").joinpath("marked", "answerable_dev.yaml").read_text("utf-8")
    for part in yaml.safe_load(raw):
        heads = [text.strip().partition("\n") for text in part["documents"].values()]
        titles, texts = [h[0].lstrip("# ") for h in heads], [" ".join(h[2].split()) for h in heads]
        for line in (*part["answered"], *part["same"]):
            question, _, right = line.partition(" :: ")
            found = [word.lower() for word in right.split("|") if word]
            yield part["corpus"], question, titles, texts, found


def fit(out: str, data: str | None = None) -> dict[str, Any]:
    """Fit the chance that a quotation answers, write ``support.json``, and return what it holds.

    Figures are of five folds in which no question stands on both sides.
    """
    import numpy as np
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score
    from sklearn.model_selection import GroupKFold, cross_val_predict
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from stategate.graph.config import load_config
    from stategate.nodes.act import support
    from stategate.nodes.resources import Resources
    from stategate.nodes.retrieval.corpus import TextIndex, sentences_of
    from stategate.stores.files import write_json

    embedder = Resources(None, load_config("qa").embedder).embedder
    rows, labels, groups = [], [], []
    for id_, question, titles, texts, right in _development(data):
        index = TextIndex(texts, embedder, titles)
        quotable = [
            support.Quotable(" ".join(part.split()), titles[place], titles[place])
            for place, _ in index.find(question, 5, "hybrid")
            for part in sentences_of(texts[place])
            if len(part.split()) > 2
        ]
        near, scores = support.scored(question, "", quotable, embedder)
        said = quotable[int(scores.argmax())].text.lower()
        rows.append(support.features(question, quotable, near, scores))
        labels.append(any(part.strip(". ") in said or said.strip(". ") in part for part in right))
        groups.append(id_)
    x, y = np.asarray(rows), np.asarray(labels, dtype=int)
    # Balanced: of these hard questions few are quoted right, of what people ask most are.
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.3, class_weight="balanced"))
    held = cross_val_predict(model, x, y, groups=groups, cv=GroupKFold(5), method="predict_proba")
    chances = held[:, 1]
    model.fit(x, y)
    scaler, line = model[0], model[1]
    table = {
        "mean": scaler.mean_.round(5).tolist(),
        "scale": scaler.scale_.round(5).tolist(),
        "weights": line.coef_[0].round(5).tolist(),
        "bias": round(float(line.intercept_[0]), 5),
        "n": len(y),
        "right": int(y.sum()),
        "auc": round(float(roc_auc_score(y, chances)), 3),
        "brier": round(float(((chances - y) ** 2).mean()), 3),
        "right_kept": round(float((chances >= 0.5)[y == 1].mean()), 3),
        "wrong_kept": round(float((chances >= 0.5)[y == 0].mean()), 3),
    }
    args = {**provenance(), "data": {"name": "multihop dev, sample"}, "seed": 0}
    write_json(Path(out) / "args.json", args, indent=1)
    tests = {"rows": [{"agent": "chance", **{k: table[k] for k in list(table)[4:]}}], "tests": []}
    write_json(Path(out) / "summary.json", tests, indent=1)
    write_json(Path(str(files("stategate.nodes.act").joinpath("support.json"))), table, indent=1)
    return table


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: python -m evals.qa.answerable RUN_DIRECTORY")
    try:
        print(json.dumps(fit(sys.argv[1])))  # noqa: T201 - a script's output
    except UserError as error:
        raise SystemExit(str(error)) from None
