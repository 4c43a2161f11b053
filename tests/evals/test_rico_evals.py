"""The smaller evaluations of RICO, on a tiny model of keys and values: resumed, summed up, shown."""

import json

import numpy as np
import pytest
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage

from evals.rerank import run_rerank
from evals.rerank_report import report
from evals.rerank_scorer import Settings
from evals.rico_answers import run_answers
from evals.rico_cost import run_cost
from evals.rico_forms import answer_kind, run_forms
from evals.rico_fusion import fit_weights, run_fusion
from evals.rico_order import run_order
from evals.rico_states import run_projection, run_states
from evals.rico_tables import short
from stores.errors import UserError
from tests.evals.pairs import DATASETS, SSM, write_questions


@pytest.fixture(autouse=True)
def home(monkeypatch, tmp_path):
    monkeypatch.setenv("STATEGATE_HOME", str(tmp_path / "home"))


@pytest.fixture
def data(tmp_path):
    return write_questions(tmp_path / "data", 4)


def ranked(data, tmp_path, rankers):
    settings = Settings(datasets=DATASETS, model=SSM, loss="mean", rankers=rankers, steps=3)
    run_rerank(settings, str(tmp_path / "scores"), str(data))
    return tmp_path / "scores"


def test_smaller_states(data, tmp_path):
    first = run_states(tmp_path / "run", 1, SSM, exact=True, data=str(data))
    rows = {row["agent"]: row for row in first["rows"]}
    assert rows["all layers, fp16"]["bytes"] * 2 == rows["all layers, fp32"]["bytes"]
    assert rows["all layers, int8"]["bytes"] < rows["all layers, fp16"]["bytes"] * 0.6
    assert rows["last half, fp16"]["bytes"] * 2 == rows["all layers, fp16"]["bytes"]
    assert rows["all layers, fp16"]["ndcg"] == rows["all layers, fp32"]["ndcg"]
    assert rows["all layers, fp32"]["n"] == 2
    kept = run_states(tmp_path / "kept", 1, SSM, data=str(data))
    assert len(kept["rows"]) == len(first["rows"]) - 1
    with pytest.raises(UserError, match="other arguments"):
        run_states(tmp_path / "run", 2, SSM, exact=True, data=str(data))


def test_projections(tmp_path):
    rows = run_projection(tmp_path / "run", 4, SSM)["rows"]
    sizes = [row["bytes"] for row in rows]
    assert sizes[0] > sizes[-1] > sizes[-2] > sizes[1]
    assert rows[0]["ndcg"] > rows[1]["ndcg"]


def test_cost_by_the_number_of_documents(data, tmp_path):
    summary = run_cost(tmp_path / "run", 1, (2, 6), SSM, str(data))
    calls = {(row["agent"], row["documents"]): row["calls"] for row in summary["rows"]}
    assert calls["loss", 6] == 6
    assert calls["single_gradient", 2] == calls["single_gradient", 6] == 2
    lines = (tmp_path / "run" / "costs.jsonl").read_text()
    run_cost(tmp_path / "run", 1, (2, 6), SSM, str(data))
    assert (tmp_path / "run" / "costs.jsonl").read_text() == lines, "a finished run measured again"
    with pytest.raises(UserError, match="fewer than"):
        run_cost(tmp_path / "other", 1, (500,), SSM, str(data))


def test_answers_from_the_best_documents(data, tmp_path):
    scores = ranked(data, tmp_path, ("bm25_stem", "bm25"))
    asked = []

    class Model(GenericFakeChatModel):
        def invoke(self, messages, *_, **__):
            asked.append(messages[-1][1])
            return AIMessage("Answer: v1.")

    model = Model(messages=iter(()))
    rankers = ("bm25_stem", "bm25")
    summary = run_answers(scores, tmp_path / "run", 2, 2, model, "fake", rankers, str(data))
    rows = [row for row in summary["rows"] if row["dataset"] == "average"]
    assert [row["f1"] for row in rows] == pytest.approx([2 / 3, 2 / 3])
    assert rows[0]["n"] == 4
    assert rows[0]["whole"] == 1
    assert len(asked) == 4, "the same documents in the same order are asked about once"
    kept = [json.loads(line) for line in (tmp_path / "run" / "answers.jsonl").open()]
    question = "hotpotqa0"
    best = next(row for row in kept if row["id"] == question)["order"][-1]
    assert best == 0, "the most relevant document is last"
    with pytest.raises(UserError, match="no scores of minilm"):
        run_answers(scores, tmp_path / "no", 2, 2, model, "fake", ("minilm",), str(data))


def test_learned_weights_follow_the_better_ranker(data, tmp_path):
    rng = np.random.default_rng(0)
    examples = []
    for _ in range(30):
        good = np.array([3.0, 0, 0, 0]) + rng.normal(size=4)
        examples.append((np.stack([good, rng.normal(size=4)], axis=1), (0,)))
    weights = fit_weights(examples)
    assert weights[0] > 1 > weights[1]
    scores = ranked(data, tmp_path, ("bm25_stem", "bm25", "single_gradient"))
    summary = run_fusion(scores, tmp_path / "run", ["bm25+single_gradient"], str(data))
    equal, learned = summary["rows"]
    assert equal["weights"] == {"bm25": 1.0, "single_gradient": 1.0}
    assert equal["n"] == learned["n"] == 8
    with pytest.raises(UserError, match="no scores of minilm"):
        run_fusion(scores, tmp_path / "no", ["minilm"], str(data))


def test_a_sweep_reads_steps_off_one_run(data, tmp_path):
    names = ("bm25", "multistep@1", "multistep@2", "multistep")
    folder = ranked(data, tmp_path, names)
    rows = [json.loads(line) for line in (folder / "scores.jsonl").open()]
    assert {row["ranker"] for row in rows} == {"bm25", "multistep"}
    stepped = next(row for row in rows if row["ranker"] == "multistep")
    assert len(stepped["path"]) == len(stepped["losses"]) == 3
    assert np.allclose(stepped["path"][-1], stepped["scores"], atol=1e-4)
    summary = json.loads((folder / "summary.json").read_text())
    calls = {row["agent"]: row["calls"] for row in summary["rows"]}
    assert (calls["multistep@2"], calls["multistep"]) == (4, 6)
    with pytest.raises(UserError, match="unknown ranker 'multistep@4'"):
        ranked(data, tmp_path / "x", ("multistep@4",))


def test_the_page_shows_every_kind_of_run(data, tmp_path):
    scores = ranked(data, tmp_path, ("bm25", "single_gradient"))
    run_states(tmp_path / "states", 1, SSM, data=str(data))
    run_cost(tmp_path / "cost", 1, (2, 4), SSM, str(data))
    run_fusion(scores, tmp_path / "fusion", ["bm25+single_gradient"], str(data))
    out = tmp_path / "docs" / "page.md"
    report([scores, tmp_path / "states", tmp_path / "cost", tmp_path / "fusion"], out)
    page = out.read_text()
    assert "| all layers, int8 |" in page
    assert "`loss` takes" in page
    assert "bm25+single_gradient, learned" in page
    assert (tmp_path / "docs" / "cost.png").exists()
    assert (short(0.5), short(10.25), short(None)) == (".500", "10.250", "")


def test_both_orders_are_asked_for_the_answer(data, tmp_path):
    scores = ranked(data, tmp_path, ("bm25",))
    one = run_order(scores, tmp_path / "one", "bm25", 2, 1, SSM, str(data))
    assert one["tests"][0]["difference"] == 0, "one document has one order"
    many = run_order(scores, tmp_path / "many", "bm25", 2, 3, SSM, str(data))
    assert many["tests"][0]["n"] == 4
    assert abs(many["tests"][0]["difference"]) > 1e-4
    with pytest.raises(UserError, match="no scores of minilm"):
        run_order(scores, tmp_path / "none", "minilm", 2, 3, SSM, str(data))


def test_other_forms_of_a_question(data, tmp_path):
    scores = ranked(data, tmp_path, ("bm25_stem", "minilm"))
    replies = ["", *["k1 v1"] * 15]  # the first says nothing: the question stands
    chat = GenericFakeChatModel(messages=iter([AIMessage(text) for text in replies]))
    summary = run_forms(scores, tmp_path / "run", 4, chat, "fake", SSM, str(data))
    rows = [json.loads(line) for line in (tmp_path / "run" / "forms.jsonl").open()]
    first = rows[0]
    assert first["scores"]["other words"] == first["scores"]["question"]
    assert first["scores"]["statement"] != first["scores"]["question"]
    assert first["scores"]["typed"] != first["scores"]["question"]
    average = {row["agent"]: row for row in summary["rows"] if row["dataset"] == "average"}
    assert average["question"]["n"] == 8
    assert {test["a"] for test in summary["tests"]} == {"question", "bm25_stem+minilm+question"}
    again = run_forms(scores, tmp_path / "run", 4, chat, "fake", SSM, str(data))
    assert again["rows"] == summary["rows"], "nothing is asked twice"
    report([tmp_path / "run"], tmp_path / "page.md")
    assert "bm25_stem+minilm+question+other words" in (tmp_path / "page.md").read_text()
    with pytest.raises(UserError, match="no reranking run"):
        run_forms(tmp_path / "none", tmp_path / "no", 4, chat, "fake", SSM, str(data))


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("Who directed it?", "a person"),
        ("In which city was the man whose film won born?", "a place"),
        ("What is the band of the singer?", "a name"),
        ("Which film has the older director?", "a film"),
        ("how many people live there", "a number"),
        ("What year did it end?", "a date"),
        ("Did they meet?", "a name"),
    ],
)
def test_the_kind_of_answer(question, kind):
    assert answer_kind(question) == kind
