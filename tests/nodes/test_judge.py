"""The judge of answers: what it says of memories, and that it reads as its trainer's network does."""

import gzip
import json

import numpy as np
import pytest
import torch

from stategate import Memory
from stategate.language.pairs import PairReader
from stategate.stores.assets.weights import load_arrays, read_meta, save_weights
from stategate.trainers import judge
from stategate.trainers.settings import JudgeSettings, read_settings


@pytest.fixture(scope="module")
def adapted():
    torch.manual_seed(0)
    model = judge.PairModel(4, 160).eval()
    for up in model.up.values():
        torch.nn.init.normal_(up, std=0.02)
    return model


def test_a_reader_in_bytes_and_its_trainer_in_floats_read_alike(adapted, tmp_path):
    meta = {"kind": "judge", "architecture": {}, "calibration": {"scale": 1.0, "bias": 0.0}}
    save_weights(tmp_path / "judge", adapted.arrays(), meta, half=False)
    pairs = [("Who keeps bees?", "My cousin Lena keeps bees."), ("When?", "On Tuesday, I think.")]
    reader = PairReader(*load_arrays(str(tmp_path / "judge"), "judge"))
    chances = [reader.chances([pair])[0] for pair in pairs]
    with torch.inference_mode():
        expected = torch.sigmoid(adapted(pairs)).numpy()
    assert np.allclose(chances, expected, atol=0.02)
    assert reader.chances([("Who?", ""), ("Who?", " ")]) == [0.0, 0.0]


def test_what_was_not_told_of_a_thing_is_less_likely_than_what_was(home):
    memory = Memory(user="ana")
    memory.remember("My sister Ines moved to Porto in May.")
    memory.remember("We paid 1,400 euros for the new boiler, the plumber is called Rui.")
    for told, untold in (
        ("Which city does my sister live in now?", "What does my sister Ines do for a living?"),
        ("How much was the boiler?", "What brand is the new boiler?"),
    ):
        answered, missed = (memory.recall(question)[0].support for question in (told, untold))
        assert answered > missed
    assert memory.recall("What is the name of my accountant?", at_least=0.5) == []


def test_it_is_trained_by_memories_and_articles_and_calibrated(tmp_path, monkeypatch):
    rows = (
        {"question": "What floats?", "is_impossible": False, "answers": [{"text": "Boats"}]},
        {"question": "What sinks?", "is_impossible": True, "plausible_answers": []},
    )
    paragraph = {"context": "Boats float well. Cats sleep.", "qas": rows}
    articles = [{"title": name, "paragraphs": [paragraph]} for name in "ab"]
    file = tmp_path / "articles.json.gz"
    file.write_bytes(gzip.compress(json.dumps({"data": articles}).encode()))
    few = judge.memory_examples()[:3]
    monkeypatch.setattr(judge, "memory_examples", lambda: few)
    monkeypatch.setattr(judge, "passage_examples", lambda folder: few[:2])
    told = [f"questions={file}", "held_out=[b]", "epochs=1", "rank=2"]
    told += ["start=", f"run={tmp_path / 'run'}", f"checkpoint={tmp_path / 'made'}"]
    summary = judge.train(read_settings(JudgeSettings, "judge", told))
    meta = read_meta(str(tmp_path / "made"))
    assert summary["rows"][0]["n"] == 8 + 8 + 2
    assert 0 <= meta["metrics"][0]["auc_memories"] <= 1
    assert set(meta["calibration"]) == {"scale", "bias"}
    made = PairReader(*load_arrays(str(tmp_path / "made"), "judge"))
    assert 0 <= made.chances([("What floats?", "Boats.")])[0] <= 1
