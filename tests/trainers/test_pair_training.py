"""Readers of pairs: trained by their recipes, and read in NumPy as their trainer's network does."""

import json

import numpy as np
import pytest
import torch

from stategate.language.instruction.weights import load_checkpoint
from stategate.language.pairs import PairReader
from stategate.language.updates import ends
from stategate.stores.assets.weights import read_meta, save_weights
from stategate.trainers import update
from stategate.trainers.adapter import PairModel
from stategate.trainers.settings import UpdateSettings, read_settings

HOME = {
    "kind": "one",
    "about": "home",
    "old": ["I live in Oslo.", "My flat is in Rome."],
    "ends": ["I moved to Bergen.", "I live nowhere now."],
    "keeps": ["My sister moved to Paris."],
    "again": ["Oslo is still my home.", "I am in my flat in Rome."],
}
PETS = {
    "kind": "many",
    "about": "pets",
    "old": ["I have a dog.", "We keep bees."],
    "ends": ["The dog died.", "We sold the bees."],
    "keeps": ["I have a cat, too."],
    "again": ["There is a dog in our house.", "Our bees are fine."],
}


def test_numpy_and_torch_read_alike(tmp_path):
    torch.manual_seed(0)
    model = PairModel(4, 128).eval()
    for up in model.up.values():
        torch.nn.init.normal_(up, std=0.02)
    meta = {"kind": "update", "architecture": {}, "calibration": {"scale": 1.0, "bias": 0.0}}
    save_weights(tmp_path / "update", model.arrays(), meta, half=False)
    pairs = [("I live in Oslo.", "We moved to Bergen, all of us, in May.")]
    pairs += [(f"I have {i} cats.", "One has died.") for i in range(12)]
    chances = PairReader(*load_checkpoint(tmp_path / "update")).chances([*pairs, ("", "x")])
    with torch.inference_mode():
        expected = torch.sigmoid(model(pairs)).numpy()
    assert np.allclose(chances[:-1], expected, atol=1e-4)
    assert chances[-1] == 0.0


def test_a_group_says_which_later_statements_end_which_earlier_ones():
    labels = {
        (old, new): end for group in (HOME, PETS) for old, new, end, _ in update.pairs_of(group)
    }
    assert labels["I live in Oslo.", "I moved to Bergen."] == 1.0
    assert labels["I live in Oslo.", "My flat is in Rome."] == 1.0
    assert labels["I live in Oslo.", "Oslo is still my home."] == 0.0
    assert labels["I live in Oslo.", "My sister moved to Paris."] == 0.0
    assert labels["I have a dog.", "The dog died."] == 1.0
    assert labels["I have a dog.", "We sold the bees."] == 0.0
    assert labels["I have a dog.", "We keep bees."] == 0.0


def story(*lines):
    return [{"story": 1, "text": text, "ends": list(ended)} for text, *ended in lines]


STORY = story(("It is red.",), ("I am ill.",), ("It is blue.", 0), ("I am well.", 1))


def test_a_story_is_read_line_after_line_beside_what_holds(tmp_path):
    path = tmp_path / "told.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in STORY))
    labels = {(old, new): end for old, new, end, _ in update.told_pairs(path)}
    assert labels == {
        ("It is red.", "I am ill."): 0.0,
        ("It is red.", "It is blue."): 1.0,
        ("I am ill.", "It is blue."): 0.0,
        ("I am ill.", "I am well."): 1.0,
        ("It is blue.", "I am well."): 0.0,  # red has ended: it is asked about no more
    }


def test_it_is_trained_by_groups_and_stories_and_calibrated(tmp_path, monkeypatch):
    files = {"GROUPS": [HOME, PETS, HOME, PETS], "TOLD": STORY, "DEVELOPMENT": STORY}
    for name, rows in {**files, "HELD_OUT": STORY}.items():
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        monkeypatch.setattr(update, name, path)
    told = [
        "epochs=1",
        "rank=2",
        "start=",
        f"run={tmp_path / 'run'}",
        f"checkpoint={tmp_path / 'made'}",
    ]
    summary = update.train(read_settings(UpdateSettings, "update", told))
    meta = read_meta(str(tmp_path / "made"))
    assert [row["agent"] for row in summary["rows"]] == ["left out", "held out"]
    assert summary["rows"][1]["n"] == 5
    assert set(meta["calibration"]) == {"scale", "bias"}


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
    assert ends([(old, new)]) == [is_end]
