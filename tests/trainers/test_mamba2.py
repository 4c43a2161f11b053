"""The tiny state space model: it learns, and a shipped one's gradient finds the right document."""

import json
from pathlib import Path

import numpy as np
import pytest

from nodes.build_context.rico.rankers import rank
from nodes.models.decoders.backend import Document
from nodes.models.decoders.loading import load_backend
from stores.errors import UserError
from trainers.mamba2 import Pairs, train
from trainers.settings import Mamba2Settings, read_settings

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


def test_training_lowers_the_loss_resumes_and_says_how(tmp_path):
    def settings(name):
        return read_settings(Mamba2Settings, "mamba2", [
            "hidden=16", "head=8", "state=8", "keys=40", "values=4", "steps=20", "batch=8",
            "learning_rate=0.02", "epochs=2", "questions=5", f"run={tmp_path / name}",
            f"checkpoint={tmp_path / name / 'model'}",
        ])  # fmt: skip

    rows = train(settings("whole"), ["test"])["rows"]
    assert [row["agent"] for row in rows][-1] == "random order"
    assert rows[-1]["found"] == 1 / 8
    folder = tmp_path / "whole" / "model"
    history = json.loads((tmp_path / "whole" / "history.json").read_text())
    assert history[2]["train_loss"] < history[1]["train_loss"] - 0.2
    report = json.loads((folder / "training.json").read_text())
    assert report["settings"]["steps"] == 20
    assert not list(folder.glob("*.bin"))
    assert load_backend(str(folder)).layers == 2
    first = (folder / "model.safetensors").read_bytes()
    train(settings("whole"), ["test"])  # nothing is left to do
    assert (folder / "model.safetensors").read_bytes() == first


def test_examples_have_one_right_document():
    rng = np.random.default_rng(0)
    for _ in range(20):
        example = Pairs().draw(rng, 6)
        key = example.question.split()[0]
        holders = [i for i, d in enumerate(example.documents) if key in d.text.split()]
        assert holders == [example.relevant]
    with pytest.raises(UserError, match="need 80 keys"):
        Pairs().draw(rng, 20)
