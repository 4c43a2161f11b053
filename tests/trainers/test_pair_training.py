"""Readers of pairs: trained by their recipes, and read as their trainer's network reads."""

import json

import numpy as np
import pytest
import torch

from stategate.language.pairs import pair_chances
from stategate.language.updates import SURE, end_chances
from stategate.stores.assets.weights import read_meta, save_weights
from stategate.trainers import update
from stategate.trainers.adapter import PairModel
from stategate.trainers.settings import UpdateSettings, read_settings


def test_a_reader_in_bytes_and_its_trainer_in_floats_read_alike(tmp_path):
    torch.manual_seed(0)
    model = PairModel(4, 128).eval()
    for up in model.up.values():
        torch.nn.init.normal_(up, std=0.02)
    meta = {"kind": "update", "architecture": {}, "calibration": {"scale": 1.0, "bias": 0.0}}
    save_weights(tmp_path / "update", model.arrays(), meta, half=False)
    pairs = [("I live in Oslo.", "We moved to Bergen, all of us, in May.")]
    pairs += [(f"I have {i} cats.", "One has died.") for i in range(12)]
    chances = pair_chances(tmp_path / "update", [*pairs, ("", "x")])
    with torch.inference_mode():
        expected = torch.sigmoid(model(pairs)).numpy()
    assert np.allclose(chances[:-1], expected, atol=0.04)
    assert chances[-1] == 0.0


STORY = (("It is red.",), ("I am ill.",), ("It is blue.", 0), ("I am well.", 1))


def test_it_is_trained_by_stories_line_after_line_and_calibrated(tmp_path, monkeypatch):
    path = tmp_path / "told.jsonl"
    rows = ({"story": 1, "text": text, "ends": ended} for text, *ended in STORY)
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    labels = {(old, new): end for old, new, end, _ in update.told_pairs(path)}
    assert labels == {
        ("It is red.", "I am ill."): 0.0,
        ("It is red.", "It is blue."): 1.0,
        ("I am ill.", "It is blue."): 0.0,
        ("I am ill.", "I am well."): 1.0,
        ("It is blue.", "I am well."): 0.0,  # red has ended: it is asked about no more
    }
    for name in ("TOLD", "DEVELOPMENT", "HELD_OUT"):
        monkeypatch.setattr(update, name, path)
    made = str(tmp_path / "made")
    told = ["epochs=1", "rank=2", "start=", f"run={tmp_path / 'run'}", f"checkpoint={made}"]
    summary = update.train(read_settings(UpdateSettings, "update", told))
    assert [(row["agent"], row["n"]) for row in summary["rows"]] == [("held out", 5)]
    assert set(read_meta(made)["calibration"]) == {"scale", "bias"}


@pytest.mark.parametrize(
    ("old", "new", "is_end"),
    [
        ("I live in Oslo.", "We moved to Bergen in May.", True),
        ("I have a dog called Rex.", "Rex died last week.", True),
        ("My dentist is Dr Wu.", "My sister has a new dentist.", False),
        ("I like jazz.", "I like opera, too.", False),
        ("I live in Oslo.", "I live in Oslo.", False),
    ],
)
def test_plain_ends_are_read(old, new, is_end):
    assert (end_chances([(old, new)])[0] >= SURE) == is_end
