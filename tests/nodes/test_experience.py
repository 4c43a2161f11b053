"""Experience: episodes as states, the context that advises, and whole agents whose bank grows."""

import numpy as np
import pytest

from stategate.graph import build_graph, load_config
from stategate.nodes.act.shop.rule import Rule
from stategate.nodes.build_context.baselines import Full
from stategate.nodes.build_context.experience import Experience, ExperienceTrace
from stategate.nodes.conformance import check_actor, check_context, check_memory, requests
from stategate.nodes.experience.episode import (
    Episode,
    Step,
    add_episode,
    annotate,
    from_events,
    make_of,
    online_state,
    states_of,
)
from stategate.nodes.models.embedders import Hashing, HashingEmbedder
from stategate.nodes.observe.webshop import WebShopEnv
from stategate.nodes.protocols import ContextRequest
from stategate.nodes.resources import Resources
from stategate.nodes.write_memory.experience import ExperienceWriter
from stategate.stores.bank import Bank, Row
from stategate.stores.trace_store import TraceStore
from stategate.trainers.bank import build_bank
from tests.kit import FakeLlm, built_contexts, piece_of
from tests.nodes.shop_pages import ITEM, ON_ITEM, ON_RESULTS, OPENED, RESULTS, context

TOLD = WebShopEnv().experience()
WISH = "Find me a warm wool scarf with color: red, and price lower than 30.00 dollars"


def trajectory(number, reward=1.0, question=WISH):
    steps = (
        Step("search[warm wool scarf red]", "WebShop Search"),
        Step("click[features]", "An invented wool scarf"),
        Step("click[buy now]", "An invented wool scarf"),
    )
    return Episode(f"e{number}", f"t{number}", question, steps, reward)


@pytest.fixture
def resources():
    return Resources(FakeLlm(), Hashing(), env=WebShopEnv())


@pytest.fixture
def folder(tmp_path, resources):
    bank = Bank(tmp_path / "state", "state", make_of(resources.embedder), create=True)
    for i, question in enumerate([WISH, "Find me a blue chair", "Find me a lamp"]):
        episode = trajectory(i, question=question)
        add_episode(bank, episode, resources.embedder, TOLD)
    return str(tmp_path / "state")


@pytest.fixture
def traces(tmp_path, resources):
    episodes = [trajectory(0), trajectory(1, question="Find me a lamp"), trajectory(2, 0.5)]
    build_bank("trace", tmp_path / "trace", episodes, resources)
    return str(tmp_path / "trace")


def item(resources, budget=600):
    return list(requests(resources, (budget,), ["webshop"]))[4]


def test_it_conforms_in_both_modes_around_other_builders(folder, traces, resources):
    for inner in ({"kind": "full"}, {"kind": "query_rag"}):
        check_context(Experience(bank=folder, inner=inner), resources)
        check_context(ExperienceTrace(bank=traces, inner=inner, min_q=0), resources)


def test_advice_is_a_message_of_its_own_and_takes_from_the_inner_budget(folder, resources):
    build = Experience(bank=folder, min_score=-1).build(resources)
    request = item(resources, 200)
    built = build(request)
    assert len(built.messages) == 2
    advice = built.pieces[-1]
    assert advice.text == built.messages[1].content
    assert advice.text.startswith("Experience: ")
    assert "Suggested next: " in advice.text
    alone = Full().build(resources)(request)
    assert built.tokens - advice.tokens_after <= 200 - advice.tokens_after
    assert built.text.startswith(alone.text[:40])
    # No advice: the inner context as it is.
    none = Experience(bank=folder, min_q=10.0, min_score=0.999).build(resources)(request)
    assert none.text == alone.text


def put(bank, resources, request, rows):
    vector = resources.embedder.embed([online_state(TOLD, request)])[0]
    bank.add(
        (
            Row(name, "t", q, {"experience": f"Say {name}.", "move": move}),
            vector + nudge * np.roll(vector, 1),
        )
        for name, q, move, nudge in rows
    )


def test_the_filters_are_worth_likeness_and_nearest_first(tmp_path, resources):
    request = item(resources)
    bank = Bank(tmp_path / "b", "state", make_of(resources.embedder), create=True)
    put(bank, resources, request, [("poor", 4.9, "features", 0), ("near", 6, "buy now", 0.1)])
    put(bank, resources, request, [("twin", 7, "< prev", 0.1), ("far", 10, "features", 0.5)])
    path = str(tmp_path / "b")

    def told(**params):
        return Experience(bank=path, **params).build(resources)(request).pieces[-1].id

    assert told() == "experience:twin"  # as near as "near", and worth more
    assert told(min_q=0) == "experience:poor"
    assert told(min_q=8) == "experience:far"
    assert not told(min_q=8, min_score=0.99).startswith("experience")


def test_trace_mode_tells_the_plan_of_the_nearest_task_once_an_episode(
    traces, resources, monkeypatch
):
    build = ExperienceTrace(bank=traces).build(resources)
    built = build(item(resources))
    assert "succeeded by: search, then features, then buy now." in built.text
    assert "Suggested plan: search, features, buy now" in built.text
    monkeypatch.setattr(HashingEmbedder, "embed", lambda *a: pytest.fail("a second search"))
    build(next(requests(resources, (600,), ["webshop"])))


def test_a_bank_state_is_the_state_that_the_agent_was_in(tmp_path, monkeypatch):
    from stategate.nodes.build_context import baselines as full

    seen = []
    real = full.assemble

    def spy(request: ContextRequest, *rest, **named):
        seen.append(online_state(TOLD, request))
        return real(request, *rest, **named)

    monkeypatch.setattr(full, "assemble", spy)
    db = tmp_path / "t.sqlite"
    memory = f"memory=[{{kind: short_term}}, {{kind: trace, path: {db}}}]"
    graph = build_graph(load_config("webshop", ["updater.kind=none", memory]), checkpointer=False)
    total = 0
    for goal in (0, 5, 14):
        seen.clear()
        graph.invoke({"task": {"goal": goal}}, {"configurable": {"episode_id": f"g{goal}"}})
        store = TraceStore(db)
        row = next(r for r in store.episodes() if r["episode_id"] == f"g{goal}")
        offline = from_events(
            "x", store.events(f"g{goal}"), question=row["instruction"], reward=row["reward"]
        )
        assert states_of(offline, TOLD) == seen
        total += len(seen)
    assert total > 15


def test_worth_is_the_discounted_reward_to_go_and_failure_is_blamed():
    assert [worth for worth, _ in annotate(trajectory(0), TOLD)] == [9.409, 9.7, 10.0]
    # A purchase of 0.8 is no success: half its worth is left, under the least that advice must have.
    assert max(worth for worth, _ in annotate(trajectory(0, 0.8), TOLD)) == 4.0
    assert max(worth for worth, _ in annotate(trajectory(0, float("nan")), TOLD)) == 0.0


SEARCH_PAGE = (["Search bar: search[<query>]"], ("search[<query>]",))


def advised(lines, actions, move, history=(), step=None, follow=True):
    advice = piece_of("experience", ("lead", "Experience: It went well. "), ("move", move))
    built = context(lines, actions, history, further=[advice])
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
    assert advised(*page, move, history, follow=False).action != bent
    late = [advised(*page, move, history, 12, follow).action for follow in (True, False)]
    assert late[0] == late[1]


def test_the_rule_with_and_without_advice_and_the_writer_conform(tmp_path):
    check_actor(Rule())
    check_actor(Rule(follow=True))
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
    steps = play(graph, 3)["steps"]
    bank = Bank(tmp_path / "b", "state")
    assert len(bank) == steps
    play(graph, 3)  # the same episode id: already there
    assert len(bank) == steps
    play(graph, 3, "another attempt")  # the same states: folded
    assert len(bank) == steps
    assert {row.data["seen"] for row in bank.rows()} == {2}
    play(graph, 8)
    assert len(bank) > steps


def test_an_unfinished_episode_adds_nothing(tmp_path):
    play(agent(tmp_path / "b", "max_steps=3"), 3)
    assert len(Bank(tmp_path / "b", "state")) == 0


def test_what_was_learned_is_told_at_once(tmp_path):
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
