"""Readers of pairs: trained by their recipes, and read as their trainer's network reads."""

import json
from collections import Counter

import numpy as np
import pytest
import torch
from torch import Generator

from stategate.language.instruction.tagger import TAGS
from stategate.language.pairs import pair_chances
from stategate.language.updates import SURE, end_chances
from stategate.stores.assets.weights import load_arrays, read_meta, save_weights
from stategate.stores.errors import UserError
from stategate.trainers import classifier
from stategate.trainers.adapter import Row
from stategate.trainers.classifier import Classifier, drawn_rows
from stategate.trainers.instruction.marked import unmarked
from stategate.trainers.instruction.tags import HELD_SHOP, read_lines
from stategate.trainers.settings import UpdateSettings, UtteranceSettings, read_settings


def test_a_reader_in_bytes_and_its_trainer_in_floats_read_alike(tmp_path):
    torch.manual_seed(0)
    model = Classifier("update", 4).eval()
    for up in model.up.values():
        torch.nn.init.normal_(up, std=0.02)
    meta = {"kind": "update", "architecture": {}, "calibration": {"scale": 1.0, "bias": 0.0}}
    save_weights(tmp_path / "update", model.arrays(), meta, half=False)
    pairs = [("I live in Oslo.", "We moved to Bergen, all of us, in May.")]
    pairs += [(f"I have {i} cats.", "One has died.") for i in range(12)]
    chances = pair_chances(tmp_path / "update", [*pairs, ("", "x")])
    with torch.inference_mode():
        rows = [model.example(Row(*pair, label="no")) for pair in pairs]
        expected = model(rows).softmax(1)[:, 1].numpy()
    assert np.allclose(chances[:-1], expected, atol=0.04)
    assert chances[-1] == 0.0


def test_it_is_trained_by_rows_as_often_as_they_weigh_and_calibrated(tmp_path):
    told = [("It is red.", "It is blue.", "yes", 2), ("It is red.", "I am ill.", "no", 0.5)]
    held = [("I am ill.", "I am well.", "yes", "development"), ("a", "b", "no", "development")]
    rows = [{"text": a, "second": b, "label": c, "weight": w} for a, b, c, w in told]
    rows += [{"text": a, "second": b, "label": c, "split": s} for a, b, c, s in held]
    path, made = tmp_path / "rows.jsonl", str(tmp_path / "made")
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    more = [f"data=[{path}]", "validation=[development]", "epochs=1", "rank=2", "start="]
    more.append(f"run={tmp_path / 'run'}")
    settings = read_settings(UpdateSettings, "update", [*more, f"checkpoint={made}"])
    splits = classifier.read_data(settings)
    assert [row.label for row in splits["development"]] == ["yes", "no"]
    drawn = [r for i in range(50) for r in drawn_rows(splits["train"], Generator().manual_seed(i))]
    counts = Counter(row.label for row in drawn)
    assert counts["yes"] == 100
    assert 10 < counts["no"] < 40
    summary = classifier.train(settings)
    assert [(row["agent"], row["n"]) for row in summary["rows"]] == [("development", 2)]
    assert set(read_meta(made)["calibration"]) == {"scale", "bias"}


def test_a_further_training_is_scored_as_it_is_averaged(tmp_path):
    path, run = tmp_path / "rows.jsonl", tmp_path / "run"
    rows = [{"text": f"I have {i} cats.", "second": "One died.", "label": "no"} for i in range(8)]
    rows += [{**row, "split": "development", "label": "yes"} for row in rows[:4]]
    rows += [{**rows[-1], "second": "It rains.", "label": "no"}]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    more = [f"data=[{path}]", "validation=[development]", "epochs=1", "share=0", f"run={run}"]
    made = str(tmp_path / "made")
    classifier.train(read_settings(UpdateSettings, "update", [*more, f"checkpoint={made}"]))
    before, after = json.loads((run / "history.json").read_text())
    assert before["right"] == after["right"]
    old, new = (load_arrays(name, "update")[0] for name in ("update", made))
    assert all(np.allclose(old[name], new[name], atol=1e-3) for name in old)


def test_our_own_rows_and_texts_are_all_read():
    own = ["questions=", "people="]
    splits = classifier.read_data(read_settings(UpdateSettings, "update"))
    assert set(splits) == {"train", "development", "held out", "written"}
    assert len(splits["train"]) > 39_000
    splits = classifier.read_data(read_settings(UtteranceSettings, "utterance", own))
    assert {name: len(rows) for name, rows in splits.items()} == {
        "train": 10_323,
        "validation": 600,
        "held out": 210,
    }
    for text in read_lines(HELD_SHOP)[:50]:
        plain, tags = unmarked(text)
        assert "</" not in plain
        assert TAGS.index("thing") in tags


def test_a_label_that_is_no_class_is_named_with_its_file(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"text": "a", "second": "b", "label": "maybe"}\n')
    settings = read_settings(UpdateSettings, "update", [f"data=[{path}]"])
    with pytest.raises(UserError, match="rows.jsonl"):
        classifier.read_data(settings)


@pytest.mark.parametrize(
    ("old", "new", "is_end"),
    [
        ("I live in Oslo.", "We moved to Bergen in May.", True),
        ("I have a dog called Rex.", "Rex died last week.", True),
        ("My dentist is Dr Wu.", "My sister has a new dentist.", False),
        ("I like jazz.", "I like opera, too.", False),
        ("I live in Oslo.", "I live in Oslo.", False),
        ("I am a vegetarian.", "I eat meat again.", True),
        ("I swim every Tuesday.", "I skipped swimming this Tuesday.", False),
    ],
)
def test_plain_ends_are_read(old, new, is_end):
    assert (end_chances([(old, new)])[0] >= SURE) == is_end
