"""Reranking: metrics against hand-made values, pools, resumable runs, and the command."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from evals.multihop import data_folder, load_questions
from evals.rerank import run_rerank
from evals.rerank_metrics import compare, interval, measure
from evals.rerank_pool import given_pool, retrieved_pool
from evals.rerank_scorer import Scorer, Settings
from evals.rico_examples import EXAMPLES, run_examples
from nodes.build_context.rico.loading import load_backend
from stores.errors import UserError
from tests.evals.pairs import DATASETS, SSM, write_questions
from ui.cli.main import app

REAL = Path(os.environ.get("STATEGATE_DATA", "../shared/data")) / "qa" / "multihop"


@pytest.fixture(autouse=True)
def home(monkeypatch, tmp_path):
    monkeypatch.setenv("STATEGATE_HOME", str(tmp_path / "home"))


@pytest.fixture
def data(tmp_path):
    return write_questions(tmp_path / "data", 3)


def settings(**changes):
    made = {
        "datasets": DATASETS, "model": SSM, "loss": "mean",
        "rankers": ("bm25", "single_gradient", "bm25+2*single_gradient", "late_gradient"),
    }  # fmt: skip
    return Settings(**{**made, **changes})


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


def test_interval_and_comparison():
    groups = {"a": [0.0, 1.0] * 50, "b": [1.0] * 10}
    mean, error, low, high = interval(groups)
    assert mean == pytest.approx(0.75)
    assert error == pytest.approx(0.025, rel=0.1)
    assert low < 0.75 < high
    same = compare(groups, groups)
    assert (same["difference"], same["p"]) == (0, 1)
    better = {name: [v + 0.1 for v in values] for name, values in groups.items()}
    found = compare(groups, better)
    assert found["difference"] == pytest.approx(0.1)
    assert found["p"] < 0.001
    assert found["low"] == pytest.approx(0.1)
    noisy = {"a": [0.1, -0.1] * 20}
    assert compare({"a": [0.0] * 40}, noisy)["p"] > 0.5


def test_questions_alternate_between_sets(data, tmp_path):
    questions = load_questions(data_folder(str(data)), "dev", ("hotpotqa", "musique"), 2)
    assert [q.id for q in questions] == ["hotpotqa0", "musique0", "hotpotqa1", "musique1"]
    with pytest.raises(UserError, match="no file musique.test"):
        load_questions(data, "test", ("musique",))
    with pytest.raises(UserError, match="--data"):
        data_folder(str(tmp_path / "none"))
    (data / "hotpotqa.dev.jsonl.gz").write_bytes(b"no gzip")
    with pytest.raises(UserError, match="damaged"):
        load_questions(data, "dev", ("hotpotqa",))


def test_pools(data):
    questions = load_questions(data, "dev", ("hotpotqa", "musique"))
    assert given_pool(questions[0]).relevant == questions[0].relevant
    for question, pool in zip(questions, retrieved_pool(questions, 3), strict=True):
        assert len(pool.documents) == 3
        found = {pool.documents[i] for i in pool.relevant}
        assert found <= {question.documents[i] for i in question.relevant}
        assert len(found) + pool.missed == 1


def test_a_run_finds_the_right_documents_and_goes_on(data, tmp_path, monkeypatch):
    out = tmp_path / "run"
    whole = Scorer.score
    count = {"n": 0}

    def killed(self, name, question, pool):
        count["n"] += 1
        if count["n"] > 5:
            raise KeyboardInterrupt
        return whole(self, name, question, pool)

    monkeypatch.setattr(Scorer, "score", killed)
    with pytest.raises(KeyboardInterrupt):
        run_rerank(settings(), str(out), str(data))
    kept = (out / "scores.jsonl").read_text()
    assert kept.count("\n") == 5
    monkeypatch.setattr(Scorer, "score", whole)
    summary = run_rerank(settings(), str(out), str(data))
    assert (out / "scores.jsonl").read_text().startswith(kept)
    rows = {(row["agent"], row["dataset"]): row for row in summary["rows"]}
    assert rows["single_gradient", "average"]["n"] == 6
    assert rows["single_gradient", "average"]["ndcg"] > 0.9
    assert rows["single_gradient", "average"]["calls"] == 2
    assert rows["bm25", "average"]["calls"] == 0
    tested = {(test["a"], test["b"]) for test in summary["tests"]}
    assert ("bm25", "single_gradient") in tested
    with pytest.raises(UserError, match="other arguments"):
        run_rerank(settings(steps=7), str(out), str(data))


def test_every_ranker_runs(data, tmp_path):
    names = (
        "loss",
        "leave_one_out",
        "multistep",
        "zero_state",
        "naive",
        "warm_bm25",
        "oracle",
        "oracle_loss",
    )
    summary = run_rerank(
        settings(rankers=names, limit=1, steps=2, pool="bm25", depth=3),
        str(tmp_path / "r"),
        str(data),
    )
    assert {row["agent"] for row in summary["rows"]} == set(names)


def test_the_command(data, tmp_path):
    words = [
        "eval",
        "rerank",
        "--data",
        str(data),
        "--datasets",
        "hotpotqa",
        "--rankers",
        "bm25,bm25_stem",
    ]
    result = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "run")])
    assert result.exit_code == 0, result.output
    assert "bm25_stem against bm25" in result.output
    for wrong, told in (
        (["--split", "train"], "--split is one of dev, test"),
        (["--rankers", "best"], "unknown ranker 'best'"),
        (["--rankers", "x*bm25"], "bm25+2*minilm"),
    ):
        refused = CliRunner().invoke(app, [*words, *wrong, "--out", str(tmp_path / "no")])
        assert refused.exit_code == 2
        assert told in refused.stderr
        assert refused.stderr.count("\n") == 1


def test_rank_prints_weights_as_bars(tmp_path):
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "first.txt").write_text("k1 v1 k2 v2 k3 v3 k4 v4")
    (folder / "second.txt").write_text("k5 v5 k6 v6 k7 v7 k8 v8")
    words = ["rank", "k5 v5 k7 v7", "--corpus", str(folder), "--model", SSM, "--alone"]
    result = CliRunner().invoke(app, [*words, "--answer"])
    assert result.exit_code == 0, result.output
    lines = [line for line in result.output.splitlines() if "█" in line]
    assert "second" in lines[0]
    assert lines[0].count("█") > lines[1].count("█")
    assert "answer from the mixed state" in result.output
    found = json.loads(CliRunner().invoke(app, [*words, "--json", "-"]).stdout)
    assert found["documents"][0]["title"] == "second"
    assert sum(d["weight"] for d in found["documents"]) == pytest.approx(1)
    for wrong, told in (
        (["--with", "foo"], "--with knows"),
        (["--ranker", "foo"], "unknown ranker"),
    ):
        refused = CliRunner().invoke(app, [*words, *wrong])
        assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1)
        assert told in refused.stderr


def test_examples_are_weighed_and_drawn(tmp_path):
    backend = load_backend(SSM, loss="mean", max_tokens=64)
    summary = run_examples(backend, tmp_path / "run", model="ssm")
    assert {row["example"] for row in summary["rows"]} == {example.name for example in EXAMPLES}
    assert (tmp_path / "run" / "examples.png").stat().st_size > 10_000
    for row in summary["rows"]:
        top = set(np.argsort(row["weights"])[::-1][: len(row["wanted"])].tolist())
        assert row["holds"] == (top == set(row["wanted"]))


@pytest.mark.skipif(not REAL.is_dir(), reason="no ../shared/data/qa/multihop (or $STATEGATE_DATA)")
def test_real_questions_are_whole():
    questions = load_questions(REAL, "test")
    assert len(questions) == 282
    for question in questions:
        assert question.relevant
        assert max(question.relevant) < len(question.documents)


def test_the_page_is_made_from_run_directories(data, tmp_path):
    from evals.rerank_report import report

    run_rerank(settings(rankers=("bm25", "bm25_stem")), str(tmp_path / "first"), str(data))
    report([tmp_path / "first"], tmp_path / "docs" / "page.md")
    page = (tmp_path / "docs" / "page.md").read_text()
    summary = json.loads((tmp_path / "docs" / "runs" / "first" / "summary.json").read_text())
    best = next(r for r in summary["rows"] if r["agent"] == "bm25" and r["dataset"] == "average")
    assert f"{best['ndcg']:.3f}".removeprefix("0") in page
    assert "n = 3 hotpotqa, 3 musique, 6 average" in page
    assert (tmp_path / "docs" / "page.png").exists()
    with pytest.raises(UserError, match="no finished run"):
        report([tmp_path / "none"], tmp_path / "docs" / "page.md")
