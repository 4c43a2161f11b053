"""What a newcomer ran into in the app, without a browser: wishes, meters, cuts, banks, downloads."""

import pytest
from langchain_core.messages import HumanMessage

from stategate.graph import Session, build_graph, load_config
from stategate.nodes.protocols import SLOTS, BuiltContext, Piece
from stategate.nodes.registry import registry
from stategate.stores.bank.bank import bank_place, known_banks, seeded
from stategate.stores.home import home
from stategate.ui.actions import things
from stategate.ui.app.context import cuts, render_context
from stategate.ui.app.tabs.episode import MORE, quick
from stategate.ui.cli.transcript import kept_line

PLAIN = ["updater.kind=none", "embedder.kind=hashing", "memory=[short_term]"]
SQUEEZE = [*PLAIN, "context.kind=compress", "context.budget=300"]


pytestmark = pytest.mark.usefixtures("own_home")


def test_a_long_wish_is_read_as_far_as_it_fits():
    wish = (
        "I would like a warm scarf that is long enough to wrap twice around my neck and soft " * 30
    )
    for budget in (60, 150, 300):
        graph = build_graph(load_config("webshop", [*SQUEEZE, f"context.budget={budget}"]))
        seen = Session(graph, "t", task={"instruction": wish}).look(act=False)
        assert budget - 16 <= seen.context.tokens <= budget, "the room is used"


def test_a_wish_of_ones_own_ends_without_a_figure_and_says_why():
    graph = build_graph(load_config("webshop", [*PLAIN, "actor.kind=rule"]))
    session = Session(graph, "t", task={"instruction": "green tea"})
    session.run()
    end = session.observation
    assert "nobody can score it" in end.info["outcome"]["unscored"]


def test_what_is_kept_is_never_more_than_there_was():
    pieces = (Piece("a", "text", "a b c\n", (), 2, 3), Piece("b", "text", "d\n", (), 1, 1))
    built = BuiltContext((HumanMessage("a b c\nd\n"),), pieces, 4)
    assert "4 of 4 tokens" in kept_line(built)
    over = BuiltContext((HumanMessage("x"),), (Piece("a", "text", "x", ("go",), 9, 9),), 9, True)
    drawn = render_context(over, 5)
    assert "the budget is too small" in drawn
    assert "sg-tight" in drawn


def test_cuts_stand_where_they_were_made():
    whole = "Lamp, red shade, with a long cord, 12 inches"
    stretches = cuts(whole, "Lamp, with a cord,")
    shown = "".join(text for text, gone in stretches if not gone)
    assert shown.split() == "Lamp, with a cord,".split()
    assert "red shade," in " ".join(text for text, gone in stretches if gone)
    assert things(["click[a]"]) == "buttons and links"
    assert things(["go hall"]) == "commands"


def test_only_what_fits_the_world_is_offered_each_with_a_hint():
    config = load_config("webshop", PLAIN)
    actors, contexts = (quick(slot, config, True)["choices"] for slot in ("actor", "context"))
    assert not {"learned_state", "answer", "extract", "human"} & set(actors)
    assert ("recall" in contexts, "experience" in contexts) == (False, True)
    assert quick("context", config)["choices"] == ["full", "window", "compress", "retrieve", MORE]
    rooms = quick("actor", load_config("alfworld"), True)["choices"]
    assert "policy" in rooms
    assert not {"rule", "extract"} & set(rooms)
    for slot in SLOTS:
        for name, kind in registry().kinds(slot).items():
            assert 5 < len(kind.hint) < 110, f"{slot} {name}: {kind.hint}"


def test_a_bank_ships_and_is_found_by_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    place = bank_place(None)
    assert place == home() / "banks" / "state" == bank_place("state")
    assert str(bank_place("banks/mine")) == "banks/mine"
    assert seeded(place, "no such world", None) == place
    assert known_banks() == []
    seeded(place, "webshop", "another make")
    assert known_banks() == [], "made with another embedder: of no use"
    seeded(place, "webshop", None)
    assert known_banks() == [place]
    from stategate.stores.bank.bank import open_bank

    assert len(open_bank(place)) == 305
