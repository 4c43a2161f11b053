"""Whole agents with experience: the bank grows, advice is followed, last step's is gone."""

import pytest

from stategate.graph import build_graph, load_config
from stategate.nodes.act.shop.rule import Rule
from stategate.nodes.conformance import check_actor, check_memory, check_updater
from stategate.nodes.update_state.ema import Ema
from stategate.nodes.write_memory.experience import ExperienceWriter
from stategate.stores.bank.search import StateBank
from tests.kit import built_contexts, piece_of
from tests.nodes.shop_pages import ITEM, ON_ITEM, ON_RESULTS, OPENED, RESULTS, WISH, context

SEARCH_PAGE = (["Search bar: search[<query>]"], ("search[<query>]",))
PLAIN = "Find me machine wash men's shirts with long sleeve, and price lower than 50.00 dollars"


def advised(lines, actions, move, history=(), step=None, follow=True, wish=WISH):
    advice = piece_of("experience", ("lead", "Experience: It went well. "), ("move", move))
    built = context(lines, actions, history, wish, [advice])
    return Rule(follow=follow).build(None)(built, len(history) if step is None else step)


@pytest.mark.parametrize(
    ("page", "move", "history", "bent"),
    [
        (SEARCH_PAGE, "search_kind", (), "search[men shirts]"),
        (SEARCH_PAGE, "search_kind_options", (), "search[men shirts black x-large]"),
        (SEARCH_PAGE, "search_no_options", (), "search[machine wash men shirts long sleeve]"),
        ((RESULTS, ON_RESULTS), "next >", OPENED[:1], "click[next >]"),
        ((RESULTS, ON_RESULTS), "back to search", OPENED[:1], "click[back to search]"),
        ((ITEM, ON_ITEM), "buy now", OPENED, "click[black]"),
    ],
)
def test_advice_bends_a_decision_only_with_the_switch_and_before_patience_ends(
    page, move, history, bent
):
    followed = advised(*page, move, history)
    assert followed.action == bent
    assert followed.reason.startswith(f"advice ({move}), not: ")
    own = advised(*page, move, history, follow=False)
    assert own.action != bent
    assert (
        advised(*page, move, history, step=12).action
        == advised(*page, move, history, step=12, follow=False).action
    )


def test_the_follower_the_updater_and_the_writer_conform(tmp_path):
    check_actor(Rule(follow=True))
    check_updater(Ema())
    check_memory(ExperienceWriter(bank=str(tmp_path / "b")))


def agent(folder, *more):
    memory = f"memory=[{{kind: short_term}}, {{kind: experience, bank: {folder}}}]"
    parts = [memory, "embedder.kind=hashing", *more]
    return build_graph(load_config("webshop", ["updater.kind=none", *parts]), checkpointer=False)


def play(graph, goal, thread=None):
    return graph.invoke(
        {"task": {"goal": goal}}, {"configurable": {"episode_id": thread or f"g{goal}"}}
    )


def test_a_bank_grows_by_finished_episodes_once_each_and_folds_repeats(tmp_path):
    graph = agent(tmp_path / "b")
    bank = StateBank(tmp_path / "b").bank if (tmp_path / "b").exists() else None
    steps = play(graph, 3)["steps"]
    bank = StateBank(tmp_path / "b").bank
    assert bank is not None
    assert len(bank) == steps
    play(graph, 3)  # the same episode id: already there
    assert len(bank) == steps
    play(graph, 3, "another attempt")  # the same states: folded
    assert len(bank) == steps
    assert {row.data["seen"] for row in bank.rows()} == {2}
    play(graph, 8)
    assert len(bank) > steps


def test_an_unfinished_episode_adds_nothing_and_the_cap_holds(tmp_path):
    play(agent(tmp_path / "b", "max_steps=3"), 3)
    assert len(StateBank(tmp_path / "b").bank) == 0
    memory = f"[{{kind: short_term}}, {{kind: experience, bank: {tmp_path / 'c'}, cap: 12}}]"
    graph = build_graph(
        load_config("webshop", ["updater.kind=none", "embedder.kind=hashing", f"memory={memory}"]),
        checkpointer=False,
    )
    for goal in range(6):
        play(graph, goal)
        assert len(StateBank(tmp_path / "c").bank) <= 12


def test_what_was_learned_is_told_at_once_and_its_use_is_counted(tmp_path):
    folder = tmp_path / "b"
    play(agent(folder), 3)
    advised_agent = agent(
        folder, "context.kind=experience", f"context.bank={folder}", "actor.follow=true"
    )
    contexts = built_contexts(advised_agent, {"goal": 3})
    given = [[p for p in c.pieces if p.kind == "experience" and p.text] for c in contexts]
    assert [len(pieces) for pieces in given] == [1] * len(contexts)
    # Each step has its own advice, and only that.
    assert all(c.text.count("Experience: ") == 1 for c in contexts)
    assert len({pieces[0].id for pieces in given}) > 3
    assert given[0][0].score == pytest.approx(1.0, abs=1e-5)
    bank = StateBank(folder).bank
    used = [row for row in bank.rows() if row.uses]
    assert {f"experience:{row.id}" for row in used} == {pieces[0].id for pieces in given}
    assert {row.helped for row in used} == {1.0}
