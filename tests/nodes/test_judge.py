"""The judge of answers: what it says of memories, and how it is trained."""

import gzip
import json

from stategate import Memory
from stategate.language.pairs import pair_chances
from stategate.stores.assets.weights import read_meta
from stategate.trainers import judge
from stategate.trainers.settings import JudgeSettings, read_settings


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
    few = judge.memory_examples()[:2]
    monkeypatch.setattr(judge, "memory_examples", lambda: few)
    monkeypatch.setattr(judge, "passage_examples", lambda folder: few)
    told = [f"questions={file}", "held_out=[b]", "epochs=1", "rank=2"]
    told += ["start=", f"run={tmp_path / 'run'}", f"checkpoint={tmp_path / 'made'}"]
    summary = judge.train(read_settings(JudgeSettings, "judge", told))
    meta = read_meta(str(tmp_path / "made"))
    assert summary["rows"][0]["n"] == 8 + 8 + 2
    assert 0 <= meta["metrics"][0]["auc_memories"] <= 1
    assert set(meta["calibration"]) == {"scale", "bias"}
    texts = [("What floats?", "Boats."), ("Who?", ""), ("Who?", " ")]
    chance, *blank = pair_chances(tmp_path / "made", texts)
    assert 0 <= chance <= 1
    assert blank == [0.0, 0.0]
