"""The tiny state space model: it learns, and a shipped one's gradient finds the right document."""

import json
from pathlib import Path

import numpy as np
import pytest

from nodes.build_context.rico.rankers import rank
from nodes.models.decoders.backend import Document
from nodes.models.decoders.loading import load_backend
from stores.errors import UserError
from trainers.mamba2.tasks import Pairs, Spans
from trainers.mamba2.train import Recipe, main, train

SHIPPED = Path(__file__).parents[1] / "nodes" / "rico" / "ssm_pairs"


@pytest.fixture(scope="module")
def shipped():
    return load_backend(str(SHIPPED), loss="mean", max_tokens=64)


@pytest.mark.parametrize("ranker", ["single_gradient", "zero_state", "loss", "leave_one_out"])
def test_the_gradient_finds_the_right_document(shipped, ranker):
    """On 40 new questions over eight documents; chance is one in eight."""
    rng = np.random.default_rng(11)
    task = Pairs()
    hits = 0
    for _ in range(40):
        example = task.draw(rng, 8)
        states = shipped.encode(example.documents)
        scores = rank(ranker, shipped, states, example.question).scores
        hits += int(scores.argmax()) == example.relevant
    assert hits >= 30


def test_the_gradient_follows_the_question_not_the_place(shipped):
    documents = [Document("", "k1 v1 k2 v2 k3 v3 k4 v4"), Document("", "k5 v5 k6 v6 k7 v7 k8 v8")]
    states = shipped.encode(documents)
    for question, right in (("k1 v1 k3 v3", 0), ("k5 v5 k8 v8", 1)):
        scores = rank("single_gradient", shipped, states, question).scores
        assert scores.argmax() == right


def test_training_lowers_the_loss_and_says_how(tmp_path):
    recipe = Recipe(hidden=16, head=8, state=8, steps=40, batch=8, learning_rate=2e-2)
    report = train(Pairs(keys=40, values=4), recipe, tmp_path / "ssm", quiet=True)
    assert report["last_loss"] < report["first_loss"] - 0.2
    kept = json.loads((tmp_path / "ssm" / "training.json").read_text())
    assert kept["recipe"]["steps"] == 40
    assert kept["ranking"]["chance"] == 1 / 8
    assert not list((tmp_path / "ssm").glob("*.bin"))
    assert load_backend(str(tmp_path / "ssm")).layers == 2


def test_examples_have_one_right_document():
    rng = np.random.default_rng(0)
    for _ in range(20):
        example = Pairs().draw(rng, 6)
        key = example.question.split()[0]
        holders = [i for i, d in enumerate(example.documents) if key in d.text.split()]
        assert holders == [example.relevant]
    with pytest.raises(UserError, match="need 80 keys"):
        Pairs().draw(rng, 20)


def test_spans_of_real_text(tmp_path):
    texts = [" ".join(f"word{i}{j}" for j in range(30)) for i in range(5)]
    task = Spans([Document("", text) for text in texts], length=20, span=5)
    example = task.draw(np.random.default_rng(0), 3)
    assert example.question in example.documents[example.relevant].text
    with pytest.raises(UserError, match="longer ones"):
        Spans([Document("", "too short")])
    (tmp_path / "a.txt").write_text("short")
    with pytest.raises(SystemExit):
        main(["--out", str(tmp_path / "x"), "--text", str(tmp_path / "a.txt")])
