"""Advice that the learned state does not foresee is withheld."""

from types import SimpleNamespace

import numpy as np
import pytest
from nodes.experience.foresight import Foresight, class_of
from nodes.update_state.action_classes import ACTION_CLASSES, action_class
from nodes.update_state.kinds import Gru

from nodes.build_context.experience import Experience
from nodes.experience.grow import make_of, updater_make
from nodes.experience.returns import MOVES
from nodes.models.embedders import Hashing
from nodes.resources import Resources
from nodes.update_state.ema import Ema
from stores.bank.state_bank import StateBank
from stores.errors import UserError

PAGE = SimpleNamespace(
    state=np.ones(4, np.float32), observation=SimpleNamespace(text="[button] Buy Now [button_]")
)


class Seer:
    def predict(self, state):
        return {"buy": 0.7, "back": 0.05, "details": 0.2}


def test_moves_of_too_small_a_chance_are_dropped():
    seer = Foresight(Seer())
    moves = {"buy now", "< prev", "features", "open"}
    assert seer.moves(PAGE, moves, 0.1) == {"buy now", "features"}
    assert seer.moves(PAGE, moves, 0.05) == {"buy now", "features", "< prev"}
    assert seer.moves(SimpleNamespace(state=None), moves, 0.9) == moves


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("search", "WebShop\nInstruction:\nx\n[button] Search [button_]"),
        ("results", "Instruction:\nx\nPage 1 (Total results: 50)\n[button] Next > [button_]"),
        ("item", "Instruction:\nx\n[button] < Prev [button_]\nA thing\n[button] Buy Now [button_]"),
    ],
)
def test_classes_of_moves_are_those_that_the_model_was_trained_on(page, text):
    for move in ("back to search", "< prev", "features", "buy now", "next >"):
        offered = page == "item" or move in ("back to search", "next >", "< prev")
        if offered and not (page in ("search", "item") and move == "next >") and page != "search":
            assert class_of(move, page) == action_class(text, f"click[{move}]")
    assert class_of("search_kind", page) == action_class(text, "search[x]")
    assert {class_of(move, page) for move in MOVES} <= set(ACTION_CLASSES)


def test_the_gate_needs_a_state_that_foretells_and_a_bank_its_own_updater(tmp_path):
    plain = Resources(None, Hashing())
    StateBank(tmp_path / "b", make_of(plain.embedder), updater_make(Ema()), create=True)
    with pytest.raises(UserError, match="updater.kind=gru"):
        Experience(bank=str(tmp_path / "b"), foreseen=0.1).build(Resources(None, Hashing(), Ema()))
    other = Resources(None, Hashing(), Ema(dimension=64))
    with pytest.raises(UserError, match="vectors of state"):
        Experience(bank=str(tmp_path / "b"), key="state").build(other)
    Experience(bank=str(tmp_path / "b"), key="state").build(Resources(None, Hashing(), Ema()))


def test_a_learned_state_is_named_by_its_weights():
    assert updater_make(Gru()) == updater_make(Gru(checkpoint="state-gru"))
    assert updater_make(Gru()).startswith("gru/")
