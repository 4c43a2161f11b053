"""The judge of answers: what it says of memories, and how it is trained."""

import gzip
import json

import pytest

from stategate import Memory
from stategate.language.pairs import pair_chances
from stategate.stores.assets.weights import read_meta
from stategate.stores.errors import UserError
from stategate.stores.runs import read_rows
from stategate.trainers import classifier
from stategate.trainers.adapter import DATA
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
    assert memory.recall("What is the name of my hamster?")[0].support < 0.1


def test_of_a_fact_that_ended_in_part_the_rest_is_shown(home):
    memory = Memory(user="ana")
    memory.remember("I work at Siemens as an electrician. My dog is called Rex.", at=1.7e9)
    memory.remember("I have left Siemens, I work at Bosch now.", at=1.71e9)
    assert "My dog is called Rex." in [fact.passage for fact in memory.recall("My dog's name?")]
    before = [fact.passage for fact in memory.recall("Where do I work?", as_of=1.705e9)]
    assert before == ["I work at Siemens as an electrician. My dog is called Rex."]


def test_what_ended_a_part_stands_before_the_rest_and_ends_it_once_it_was_said(home):
    memory = Memory(user="ana")
    memory.remember("My dentist is Dr Wu. I live in Oslo.", at="2024-01-01")
    memory.remember("I moved to Bergen last month.", at="2024-08-01")
    assert memory.recall("Where do I live?")[0].passage == "I moved to Bergen last month."
    assert memory.recall("Who is my dentist?")[0].passage == "My dentist is Dr Wu."
    [before] = memory.recall("Where do I live?", as_of="2024-07-10")
    assert before.passage == "My dentist is Dr Wu. I live in Oslo."


def test_it_is_trained_by_memories_and_articles_and_calibrated(tmp_path):
    rows = (
        {"question": "What floats?", "is_impossible": False, "answers": [{"text": "Boats"}]},
        {"question": "What sinks?", "is_impossible": True, "plausible_answers": []},
    )
    paragraph = {"context": "Boats float well. Cats sleep.", "qas": rows}
    articles = [{"title": name, "paragraphs": [paragraph]} for name in "ab"]
    file = tmp_path / "articles.json.gz"
    file.write_bytes(gzip.compress(json.dumps({"data": articles}).encode()))
    memories = read_rows(DATA / "judge_memories.jsonl.gz")
    groups = [*dict.fromkeys(row["group"] for row in memories if row.get("split"))][:8]
    few = [row for row in memories if row.get("group") in groups] + memories[:6]
    (tmp_path / "few.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in few))
    told = [f"questions={file}", f"data=[{tmp_path / 'few.jsonl'}]", "paragraphs=", "held_out=[b]"]
    told += ["validation=[memories, articles]", "epochs=1", "rank=2"]
    told += ["start=", f"run={tmp_path / 'run'}", f"checkpoint={tmp_path / 'made'}"]
    settings = read_settings(JudgeSettings, "judge", told)
    learned = [(row.text, row.second, row.label) for row in classifier.read_data(settings)["train"]]
    assert ("What floats?", "a. Boats float well.", "yes") in learned
    assert ("What sinks?", "a. Boats float well.", "no") in learned
    summary = classifier.train(settings)
    meta = read_meta(str(tmp_path / "made"))
    assert {row["agent"]: row["n"] for row in summary["rows"]} == {"memories": 8, "articles": 2}
    assert 0 <= meta["metrics"][0]["auc"] <= 1
    assert set(meta["calibration"]) == {"scale", "bias"}
    texts = [("What floats?", "Boats."), ("Who?", ""), ("Who?", " ")]
    chance, *blank = pair_chances(tmp_path / "made", texts)
    assert 0 <= chance <= 1
    assert blank == [0.0, 0.0]


def test_a_passage_that_people_s_paragraphs_lack_is_named(tmp_path):
    told = [f"run={tmp_path}", f"checkpoint={tmp_path}", "questions="]
    with pytest.raises(UserError, match="no_folder"):
        classifier.train(read_settings(JudgeSettings, "judge", [*told, "paragraphs=no_folder"]))
    with pytest.raises(UserError, match="judge_passages.*docs/training.md"):
        classifier.train(read_settings(JudgeSettings, "judge", [*told, "paragraphs="]))
