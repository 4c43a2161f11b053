"""Fits the probability that a quoted sentence answers the question: nodes/act/support.json.

    python -m stategate.evals.qa.answerable runs/answers-fit

It is fitted on multi-hop questions with marked evidence and on those of the sample corpus, each put
twice, with the documents that bear the evidence and without them, and on those of six corpora of our
own (``answerable_dev.yaml``). The label is whether the sentence that would be quoted holds the answer.
"""

import json
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from stategate.stores.errors import UserError
from stategate.stores.runs import provenance

_CALIBRATED = 18  # questions of each multi-hop set that the probability is fitted on


def _questions(data: str | None) -> Iterator[tuple[str, str, list[str], list[str], list[str]]]:
    """Yield (id, question, titles, texts, words of a right sentence), with evidence and without."""
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
    raw = files("stategate.evals.qa").joinpath("answerable_dev.yaml").read_text("utf-8")
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
    for id_, question, titles, texts, right in _questions(data):
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
        raise SystemExit("usage: python -m stategate.evals.qa.answerable RUN_DIRECTORY")
    try:
        print(json.dumps(fit(sys.argv[1])))  # noqa: T201 - a script's output
    except UserError as error:
        raise SystemExit(str(error)) from None
