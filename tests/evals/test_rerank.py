"""Reranking: metrics against hand-made values, pools, and a run."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from stategate.evals.core.statistics import ranking_metrics
from stategate.evals.rerank import MEASURES, load_questions
from stategate.evals.settings import Rerank
from stategate.stores.errors import UserError

pytestmark = pytest.mark.usefixtures("home")


#: A Llama of two layers, trained for 2,000 steps to say a key's value: its gradient finds the pairs.
PAIRS = str(Path(__file__).parents[1] / "nodes" / "rico" / "pairs")
DATASETS = ("hotpotqa", "musique")


@pytest.fixture
def data(tmp_path):
    """Write three questions of each set: keys, and a document of each question with their values."""
    folder, rng = tmp_path / "data", np.random.default_rng(3)
    folder.mkdir()
    for name in DATASETS:
        rows = []
        for number in range(3):
            keys = rng.permutation(48)[:16].reshape(4, 4)
            texts = [" ".join(f"k{k} v{k % 24}" for k in row) for row in keys]
            row = {"id": f"{name}{number}", "question": " ".join(texts[number].split()[:4])}
            row |= {"answer": "v1 v2", "relevant": [number]}
            rows.append({**row, "documents": [{"title": "", "text": text} for text in texts]})
        with gzip.open(folder / f"{name}.dev.jsonl.gz", "wt") as file:
            file.write("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def measure(scores, relevant, missed=0):
    return ranking_metrics(MEASURES, scores, relevant, missed)


def test_metrics_by_hand():
    found = measure([0.9, 0.1, 0.8, 0.2], [0, 3])
    log2 = np.log2
    assert found["ndcg"] == pytest.approx((1 + 1 / log2(4)) / (1 + 1 / log2(3)))
    assert found["map"] == pytest.approx((1 + 2 / 3) / 2)
    assert (found["p2"], found["r2"], found["r5"]) == (0.5, 0.5, 1)
    missed = measure([0.9, 0.1], [0], missed=1)
    assert missed["ndcg"] == pytest.approx(1 / (1 + 1 / log2(3)))
    assert missed["r5"] == 0.5
    assert measure([1, 1, 1], [0])["ndcg"] == 1, "equal scores keep the pool's order"
    assert measure([1, 1, 1], [2])["ndcg"] == pytest.approx(0.5)


def test_questions_alternate_between_sets(data, tmp_path):
    questions = load_questions(data, "dev", ("hotpotqa", "musique"), 2)
    assert [q["id"] for q in questions] == ["hotpotqa0", "musique0", "hotpotqa1", "musique1"]
    with pytest.raises(UserError, match="no file musique.test"):
        load_questions(data, "test", ("musique",))
    with pytest.raises(UserError, match="--data"):
        load_questions(tmp_path / "none", "dev")
    (data / "hotpotqa.dev.jsonl.gz").write_bytes(b"no gzip")
    with pytest.raises(UserError, match="damaged"):
        load_questions(data, "dev", ("hotpotqa",))


def test_a_run_finds_the_right_documents(data, tmp_path):
    rankers = ("bm25", "single_gradient", "bm25+single_gradient")
    how = {"data": str(data), "datasets": DATASETS, "model": PAIRS, "rankers": rankers}
    summary = Rerank(out=str(tmp_path / "run"), **how).run()
    rows = {(row["agent"], row["dataset"]): row for row in summary["rows"]}
    assert rows["single_gradient", "average"]["n"] == 6
    assert rows["single_gradient", "average"]["ndcg"] > 0.9
    tested = {(test["a"], test["b"]) for test in summary["tests"]}
    assert ("bm25", "single_gradient") in tested
