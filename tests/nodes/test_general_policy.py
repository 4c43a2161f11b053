"""The general encoder of the policy actor: what it reads of any world's contexts."""

import pytest
import torch

from stategate.envs.protocols import Fragment, Observation
from stategate.graph import build_graph, load_config
from stategate.nodes.act.encoding import encoder
from stategate.nodes.act.general import GENERAL, PAGE_FEATURES, ROW_FEATURES
from stategate.nodes.act.policy import Policy, make_scorer
from stategate.nodes.act.simple import vain_actions
from stategate.nodes.build_context.baselines import Full, Window
from stategate.nodes.build_context.compress import Compress
from stategate.nodes.conformance import check_actor
from stategate.nodes.models.embedders import Hashing
from stategate.nodes.observe.alfworld import AlfWorldEnv
from stategate.nodes.observe.webshop import WebShopEnv
from stategate.nodes.protocols import ContextRequest, Piece
from stategate.nodes.resources import Resources
from stategate.nodes.retrieval.page import PageSource
from stategate.nodes.retrieval.past import WithPast, past_chunks
from stategate.stores.assets.weights import save_weights
from stategate.stores.errors import UserError
from stategate.stores.traces import Event
from tests.kit import context_of, step_piece
from tests.nodes.test_past import moments, request  # noqa: F401 - a fixture

PROFILE = AlfWorldEnv().profile()
VIEW = PROFILE.view


@pytest.fixture(scope="module")
def resources():
    return Resources(None, Hashing())


def column(seen, name):
    return dict(zip(seen.actions, seen.rows[:, ROW_FEATURES.index(name)].tolist(), strict=True))


def test_what_was_done_is_known_from_the_lines_or_from_the_marks(moments, resources):  # noqa: F811
    asked = request(moments[-1], resources, 3000)
    done = {event.text for event in asked.events if event.kind == "ACT"}
    there = done & set(asked.observation.actions)
    assert there
    full = GENERAL.encode(resources.get(Full())(asked), 9, PROFILE)
    assert {a for a, value in column(full, "done").items() if value} == there
    compress = Compress(allocator="uniform", ratio=0.01)
    marked = GENERAL.encode(resources.get(compress)(asked), 9, PROFILE)
    assert {a for a, value in column(marked, "marked").items() if value} == there
    blind = GENERAL.encode(resources.get(Window(events=0))(asked), 9, PROFILE)
    assert not any(column(blind, "done").values())
    cut = PAGE_FEATURES.index("cut history")
    assert blind.page[cut] == 1
    assert full.rows.shape == (len(full.actions), len(ROW_FEATURES))
    assert full.page.shape == (len(PAGE_FEATURES),)


def test_an_experts_action_is_found_among_the_candidates(moments, resources):  # noqa: F811
    for moment in moments:
        seen = GENERAL.encode(resources.get(Full())(request(moment, resources, 3000)), 0, PROFILE)
        assert seen.actions[GENERAL.stands_for(moment[3], seen.actions)] == moment[3]
    texts = ["search[red scarf]", "search[wool]", "click[a]"]
    assert GENERAL.stands_for("search[scarf red]", texts) == 0
    assert GENERAL.stands_for("search[blue hat]", texts) is None


def test_an_untrained_general_policy_conforms_in_every_world(tmp_path):
    torch.manual_seed(0)
    sizes = {"d_row": len(ROW_FEATURES), "d_page": len(PAGE_FEATURES), "hidden": 8}
    meta = {"kind": "policy", "architecture": sizes, "encoder": GENERAL.name, "embedder": None}
    scorer = make_scorer(**sizes)
    save_weights(tmp_path / "any", scorer.state_dict(), meta, half=False)
    check_actor(Policy(checkpoint=str(tmp_path / "any")))
    save_weights(tmp_path / "rooms", scorer.state_dict(), meta | {"world": "alfworld"}, half=False)
    assert "was trained for alfworld, not for webshop" in Policy(
        checkpoint=str(tmp_path / "rooms")
    ).misfit(WebShopEnv())
    with pytest.raises(UserError, match="no encoder 'nobody'"):
        encoder("nobody-1234")


def test_numbered_things_are_followed_from_step_to_step(resources):
    steps = [
        ("go to shelf 1", "You arrive at shelf 1. On the shelf 1, you see a mug 2, and a mug 1."),
        ("take mug 1 from shelf 1", "You pick up the mug 1."),
        ("go to table 4", "You arrive at table 4. On the table 4, you see nothing."),
        ("move mug 1 to table 4", "You move the mug 1 to the table 4."),
        ("go to shelf 3", "You arrive at shelf 3. On the shelf 3, you see a pen 5."),
        ("take pen 5 from shelf 3", "You pick up the pen 5."),
    ]
    events = [
        e
        for t, (action, answer) in enumerate(steps)
        for e in (Event("ACT", action, t), Event("OBS", answer, t + 1))
    ]
    going = [f"go to {place}" for place in ("shelf 1", "shelf 2", "table 4")]
    page = Observation(steps[-1][1], (*going, "move pen 5 to shelf 3", "examine pen 5"))
    asked = "put two mug in table."
    source = WithPast(
        PageSource(VIEW, page, lambda: resources.embedder),
        past_chunks(events),
        VIEW,
        lambda: resources.embedder,
    )
    built = resources.get(Full())(
        ContextRequest(asked, page, source, tuple(events), 2000, None, PROFILE)
    )
    seen = GENERAL.encode(built, 6, PROFILE)
    open_, settled = column(seen, "where open"), column(seen, "where settled")
    assert open_["go to shelf 1"] > 0.5 > open_["go to table 4"]
    assert settled["go to table 4"] > 0.5 > settled["go to shelf 1"]
    assert column(seen, "names carried")["move pen 5 to shelf 3"] == 1
    facts = dict(zip(PAGE_FEATURES, seen.page.tolist(), strict=True))
    assert (facts["carried asked"], facts["carried other"]) == (0, 1)
    assert (facts["open things"], facts["settled things"]) == pytest.approx((1 / 3, 1 / 3))


@pytest.mark.parametrize(
    ("checkpoint", "world", "task"),
    [
        ("policy-alfworld", "alfworld", "game"),
        ("policy-joint", "alfworld", "game"),
        ("policy-joint", "webshop", "goal"),
    ],
)
def test_shipped_policies_play_worlds_whose_words_they_never_saw(checkpoint, world, task):
    choose = ["actor.kind=policy", f"actor.checkpoint={checkpoint}", "memory=[short_term]"]
    choose.append("updater.kind=none")
    graph = build_graph(load_config(world, choose), checkpointer=False)
    thread = {"configurable": {"thread_id": "t"}}
    out = [graph.invoke({"task": {task: i}}, thread) for i in range(6)]
    assert sum(one["reward"] == 1 for one in out) >= 4


def test_what_was_done_is_left_alone_where_the_last_step_brought_nothing_new():
    def vain(*steps):
        marked = Fragment(" | 2*", "go to bed 2", is_done=True)
        places = (Fragment("Go to bed 1", "go to bed 1"), marked)
        page = Piece("p", "places", "Go to bed 1 | 2*", (), 9, 9, fragments=places)
        return vain_actions(context_of(*(step_piece(*step) for step in steps), page))

    box, room = ("open it", "A box."), ("look", "A room.")
    assert vain(box, room) == frozenset()
    assert vain(box, room, box) == {"open it", "look", "go to bed 2"}
    assert vain(("look", "A room, a bed."), ("look", "A room")) == {"look", "go to bed 2"}
    assert vain(room, ("look", "A wood.")) == frozenset()
