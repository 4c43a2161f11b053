"""Episodes as decisions: states written alike offline and online, worth, words, moves."""

import pytest

from stategate.graph import build_graph, load_config
from stategate.nodes.experience.episode import Episode, Step, from_events, online_state
from stategate.nodes.experience.episode import annotate as annotated
from stategate.nodes.experience.episode import states_of as states_in
from stategate.nodes.observe.webshop import WebShopEnv
from stategate.nodes.protocols import ContextRequest
from stategate.stores.traces.store import TraceStore

WISH = (
    "Find me easy clean dog beds with memory foam with color: navy, "
    "and price lower than 50.00 dollars"
)


TOLD = WebShopEnv().experience()


def annotate(episode):
    return annotated(episode, TOLD)


def states_of(episode):
    return states_in(episode, TOLD)


def episode(reward=1.0, steps=None, **more):
    steps = steps or (
        Step("search", "easy clean memory foam dog beds navy", "start page", "results"),
        Step("click", "b0aaaaaaa2", "x [B0AAAAAAA1] y [B0AAAAAAA2]", "item"),
        Step("click", "navy", "item", "item navy"),
        Step("click", "buy now", "item navy", "done"),
    )
    return Episode("e", "t", WISH, tuple(steps), reward, reward == 1.0, **more)


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
        assert states_of(offline) == seen
        total += len(seen)
    assert total > 15


def test_worth_is_the_discounted_reward_to_go_and_failure_is_blamed():
    assert [worth for worth, _ in annotate(episode())] == [9.127, 9.409, 9.7, 10.0]
    # A purchase of 0.8 is no success: half its worth is left, under the least that advice must have.
    assert max(worth for worth, _ in annotate(episode(0.8))) == 4.0
    assert max(worth for worth, _ in annotate(episode(float("nan")))) == 0.0


@pytest.mark.parametrize(
    ("step", "move"),
    [
        (Step("search", "easy clean dog beds memory foam navy"), "search"),
        (Step("search", "easy clean dog beds memory foam"), "search_no_options"),
        (Step("search", "dog beds navy"), "search_kind_options"),
        (Step("search", "dog beds"), "search_kind"),
        (Step("click", "B0AAAAAAA2"), "open"),
        (Step("click", "Buy Now"), "buy now"),
        (Step("click", "navy"), "option"),
        (Step("click", "beige"), "other_option"),
        (Step("lookup", "x"), "lookup"),
        (Step("answer", "x"), "answer"),
    ],
)
def test_moves(step, move):
    assert TOLD.move_of(WISH, step.action) == move
