"""The aligner's trainer: what it learns from, and that what runs without torch reads as it does."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from stategate.envs.asking import weights
from stategate.envs.asking.request import read_request
from stategate.envs.asking.words import word_roles, word_rows
from stategate.envs.webshop import WebShop
from stategate.envs.webshop.wordings import names_of
from stategate.stores.errors import UserError
from stategate.trainers.settings import AlignerSettings, read_settings
from stategate.trainers.webshop.alignment import Aligner, train
from stategate.trainers.webshop.recombined import recombined

SHIPPED = Path(__file__).parents[2] / "checkpoints" / "aligner"
SAID = "Hers was the silver, x-large; mine is a lamp for the hall. Nothing over 40 dollars, please."


@pytest.fixture
def restored():
    """What a test installs is forgotten behind it."""
    yield
    weights.install(weights._shipped())


def shipped_meaning():
    from safetensors.torch import load_file

    arrays = load_file(f"{SHIPPED}.safetensors")
    return {name: tensor for name, tensor in arrays.items() if name.startswith("meaning/")}


def test_words_are_read_without_torch_as_the_network_reads_them(restored):
    torch.manual_seed(3)
    model = Aligner(shipped_meaning()).eval()
    weights.install({name: tensor.detach().numpy() for name, tensor in model.arrays().items()})
    request = read_request(SAID)
    rows = torch.from_numpy(word_rows(request))
    with torch.inference_mode():
        batch = torch.stack([rows, torch.ones_like(rows)])  # a longer one beside it changes nothing
        logits = model.word(batch, torch.tensor([len(rows), len(rows)]))[0]
    asked = [
        i for i, t in enumerate(request.tokens) if not t.is_small and i not in request.in_limit
    ]
    np.testing.assert_allclose(word_roles(request)[asked], logits.softmax(-1)[asked], atol=1e-5)


def test_recombined_goals_say_all_their_parts_and_mix_them():
    shop = WebShop.load("sample")
    goals = [goal for goal in shop.goals if goal["goal_options"]][:60]
    products = [shop.products[asin] for asin in sorted({goal["asin"] for goal in goals})]
    made = recombined(goals, products, names_of("blind"), 50, seed=1)
    assert made == recombined(goals, products, names_of("blind"), 50, seed=1)
    assert len(made) == 50
    together = {(goal["query"], text) for goal in goals for text in goal["attributes"]}
    for goal in made:
        parts = [goal["query"], *goal["attributes"], *goal["goal_options"].values()]
        assert all(part.lower() in goal["instruction_text"].lower() for part in parts)
    assert {(g["query"], text) for g in made for text in g["attributes"]} - together


def test_an_earlier_network_is_refused_in_one_line(monkeypatch):
    from stategate.stores.assets import weights as assets

    arrays, meta = assets.load_arrays("aligner", "aligner")
    old = {name: array for name, array in arrays.items() if name != "word/u2"}
    monkeypatch.setattr(assets, "load_arrays", lambda *_: (old, meta))
    with pytest.raises(UserError, match="stategate train aligner"):
        weights._shipped()


def test_it_trains_on_the_sample_and_names_what_it_learned_from(tmp_path, restored):
    shutil.copy(f"{SHIPPED}.safetensors", tmp_path / "aligner.safetensors")  # the words' meanings
    overrides = [
        "data=sample",
        "epochs=1",
        "times=1",
        "recombined=20",
        f"run={tmp_path / 'run'}",
        f"checkpoint={tmp_path / 'aligner'}",
    ]
    summary = train(read_settings(AlignerSettings, "aligner", overrides))
    assert {"all", "template", "rethink"} <= {row["agent"] for row in summary["rows"]}
    meta = json.loads((tmp_path / "aligner.json").read_text("utf-8"))
    assert set(names_of("blind")) <= set(meta["families"])
    assert not set(names_of("blind-fifth")) & set(meta["families"])
