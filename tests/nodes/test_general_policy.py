"""The general encoder of the policy actor: what it reads of any world's contexts."""

import random

import pytest
import torch

from stategate.envs.protocols import Fragment, Observation
from stategate.envs.webshop import WebShop
from stategate.graph import build_graph, load_config
from stategate.nodes.act import general
from stategate.nodes.act.encoding import encoder
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
from stategate.stores.assets.weights import save_weights
from stategate.stores.errors import UserError
from stategate.stores.traces import Event
from stategate.trainers.episodes import Readers, make_resources
from tests.kit import context_of, step_piece
from tests.nodes.test_past import moments, request  # noqa: F401 - a fixture

PROFILE = AlfWorldEnv().profile()
VIEW = PROFILE.view
GENERAL = encoder("general")


@pytest.fixture(scope="module")
def resources():
    return Resources(None, Hashing())


def column(rows, name):
    return {action: row.get(name, 0.0) for action, row in rows.items()}


def test_what_was_done_is_known_from_the_lines_or_from_the_marks(moments, resources):  # noqa: F811
    asked = request(moments[-1], resources, 3000)
    done = {event.text for event in asked.events if event.kind == "ACT"}
    there = done & set(asked.observation.actions)
    assert there
    full, _ = general.describe(resources.get(Full())(asked), 9, PROFILE)
    assert {a for a, value in column(full, "done").items() if value} == there
    compress = Compress(allocator="uniform", ratio=0.01)
    marked, _ = general.describe(resources.get(compress)(asked), 9, PROFILE)
    assert {a for a, value in column(marked, "marked").items() if value} == there
    blind, page = general.describe(resources.get(Window(events=0))(asked), 9, PROFILE)
    assert not any(column(blind, "done").values())
    assert page["cut history"] == 1


def test_every_feature_has_a_column_of_the_checkpoint_that_ships(moments, resources):  # noqa: F811
    context = resources.get(Full())(request(moments[-1], resources, 3000))
    rows, page = general.describe(context, 9, PROFILE)
    assert {name for row in rows.values() for name in row} <= set(GENERAL.row_features)
    assert set(page) <= set(GENERAL.page_features)
    seen = GENERAL.encode(context, 9, PROFILE)
    assert seen.rows.shape == (len(seen.actions), len(GENERAL.row_features))
    assert seen.page.shape == (len(GENERAL.page_features),)


def test_an_untrained_general_policy_conforms_in_every_world(tmp_path):
    torch.manual_seed(0)
    names = {"row": GENERAL.row_features, "page": GENERAL.page_features}
    sizes = {"d_row": len(names["row"]), "d_page": len(names["page"]), "hidden": 8}
    meta = {"kind": "policy", "architecture": sizes, "encoder": GENERAL.version, "embedder": None}
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
    source = PageSource(VIEW, page, lambda: resources.embedder).after(events)
    built = resources.get(Full())(
        ContextRequest("put two mug in table.", page, source, tuple(events), 2000, None, PROFILE)
    )
    rows, facts = general.describe(built, 6, PROFILE)
    open_, settled = column(rows, "where open"), column(rows, "where settled")
    assert open_["go to shelf 1"] > 0.5 > open_["go to table 4"]
    assert settled["go to table 4"] > 0.5 > settled["go to shelf 1"]
    assert column(rows, "names carried")["move pen 5 to shelf 3"] == 1
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


# Entries, choices and what is shown by itself -----------------------------------------------------


@pytest.fixture(scope="module")
def pages():
    """Return what is read at each step of a WebShop episode, (rows, page), and the actions."""
    world = WebShop.load("sample", observation="rich")
    readers = Readers({"full": 1}, make_resources("hashing", "none", WebShopEnv()), 2000, 2000)
    goal = next(i for i, g in enumerate(world.goals) if len(g["goal_options"]) > 1)
    session, page = world.reset({"goal": goal})
    walk = readers.start(readers.draw(random.Random(0)), world.instruction(session))
    seen, taken = [], []
    for wanted in ("written 0", "is entry", "is value", "< prev", "end"):
        rows, facts = general.describe(walk.look(page), walk.step, readers.resources.profile)
        seen.append((rows, facts))
        if wanted == "end":
            break
        offers = [a for a, row in rows.items() if row.get(f"offered: {wanted}")]
        taken.append("click[< prev]" if wanted == "< prev" else offers[0])
        session, after = world.step(session, taken[-1])
        walk.took(page, taken[-1], after)
        page = after
    return seen, taken


def test_texts_to_write_are_made_of_what_is_asked(pages):
    rows = pages[0][0][0]
    texts = [a for a, row in rows.items() if row.get("takes text")]
    assert len(texts) > 1
    assert all(sum(f"offered: written {i}" in rows[a] for i in range(5)) == 1 for a in texts)


def test_entries_are_ranked_and_known_again_when_they_were_opened(pages):
    seen, taken = pages
    first, back = seen[1][0], seen[4][0]
    entries = {a: row for a, row in first.items() if row.get("offered: is entry")}
    assert len(entries) > 1
    assert sum(row["offered: rank"] == 0 for row in entries.values()) == 1
    assert not any(row["offered: tried"] for row in entries.values())
    opened = back[taken[1]]
    assert [opened[f"offered: {name}"] for name in ("tried", "last opened", "is met")] == [1] * 3
    assert sum(column(back, "offered: tried").values()) == 1


def test_a_value_that_was_taken_is_chosen_and_waits_no_more(pages):
    seen, taken = pages
    (before, page), (after, then) = seen[2], seen[3]
    assert before[taken[2]]["offered: chosen now"] == 0
    assert after[taken[2]]["offered: chosen now"] == 1
    assert page["offered: has subject"] == then["offered: has subject"] == 1
    assert then["offered: since opening"] > page["offered: since opening"]
    assert (page["offered: something chosen"], then["offered: something chosen"]) == (0, 1)
