"""What the policy actor is trained with: goals, readers, rollouts and the teacher, on the sample."""

import random
from collections import Counter

import pytest
import torch

from stategate.envs.webshop import WebShop
from stategate.envs.webshop.view import FEATURES, OPENED, PREV
from stategate.graph import build_graph, load_config
from stategate.nodes.act.policy import load_scorer, make_scorer
from stategate.nodes.observe.webshop import WebShopEnv
from stategate.stores.errors import UserError
from stategate.trainers.episodes import Readers, Walk, make_resources, parse_kind
from stategate.trainers.policy.rollout import Player, Start, collate, sized_batches
from stategate.trainers.webshop.course import good_actions, weight
from stategate.trainers.webshop.goals import practice


@pytest.fixture(scope="module")
def shop():
    return WebShop.load("sample", observation="rich")


@pytest.fixture(scope="module")
def plan(shop):
    return practice(shop)


def readers_of(builders, *budgets):
    return Readers(builders, make_resources(WebShopEnv()), *budgets)


def test_practice_goals_are_of_no_product_that_an_earlier_goal_or_the_other_side_uses(shop, plan):
    tested = {goal["asin"] for goal in shop.goals[: min(plan.heldout + plan.training) // 2]}
    sides = [
        {plan.world.goals[i]["asin"] for i in part}
        for part in (plan.training, plan.heldout, plan.made_heldout)
    ]
    assert all(sides[0])
    assert not sides[0] & sides[1]
    assert not sides[0] & sides[2]
    assert not tested & (sides[0] | sides[1])
    assert plan.world.goals[: len(shop.goals)] == shop.goals
    again = practice(shop)
    assert [g["instruction_text"] for g in again.world.goals] == [
        g["instruction_text"] for g in plan.world.goals
    ]


def test_a_walk_builds_the_contexts_that_the_graph_builds(shop):
    readers = readers_of({"window:events=4": 1.0}, 220, 220)
    walk = Walk(readers, readers.draw(random.Random(0)), shop.goals[2]["instruction_text"])
    overrides = [
        "updater.kind=none",
        "embedder.kind=hashing",
        "context.budget=220",
        "context.kind=window",
        "context.events=4",
        "memory=[short_term]",
    ]
    graph = build_graph(load_config("webshop", overrides), checkpointer=False)
    seen = []
    for update in graph.stream(
        {"task": {"goal": 2}}, {"configurable": {"thread_id": "w"}}, stream_mode="updates"
    ):
        seen += [u["context"] for n, u in update.items() if n == "build_context"]
        seen += [u["action"] for n, u in update.items() if n == "act"]
    session, page = shop.reset(goal=2)
    for built, action in zip(seen[::2], seen[1::2], strict=True):
        assert walk.look(page) == built
        session, outcome = shop.step(session, action)
        walk.took(page, action, outcome)
        page = outcome


def test_a_rollout_is_the_episode_that_the_graph_plays(shop):
    scorer, reading, _ = load_scorer("policy")
    readers = readers_of({"full": 1.0}, 2000, 2000)
    starts = [Start({"goal": g}, "rich", readers.draw(random.Random(0))) for g in range(4)]
    player = Player({"rich": shop}, readers, reading, scorer)
    played = [player.play(start) for start in starts]
    overrides = [
        "updater.kind=none",
        "actor.kind=policy",
        "memory=[short_term]",
    ]
    graph = build_graph(load_config("webshop", overrides), checkpointer=False)
    for goal, one in enumerate(played):
        out = graph.invoke({"task": {"goal": goal}}, {"configurable": {"thread_id": str(goal)}})
        assert (out["reward"], out["steps"]) == (one.reward, one.steps)


def test_readers_are_drawn_by_their_weights_at_budgets_within_bounds():
    readers = readers_of({"full": 3.0, "window:events=2": 1.0}, 80, 400)
    rng = random.Random(0)
    drawn = [readers.draw(rng) for _ in range(400)]
    assert 0.65 < sum(reader.context.kind == "full" for reader in drawn) / 400 < 0.85
    assert all(80 <= reader.budget <= 400 for reader in drawn)
    assert parse_kind("window:events=2") == {"kind": "window", "events": 2}
    with pytest.raises(UserError, match="unknown context kind"):
        readers_of({"nonsense": 1.0})


def test_the_teacher_reads_features_leaves_what_is_wrong_and_buys_what_is_right(plan):
    shop = plan.world
    readers = readers_of({"full": 1.0})
    rewards, done = [], Counter()
    for goal in range(30):
        session, page = shop.reset(goal=goal)
        past = [("", page.text)]
        walk = Walk(readers, readers.draw(random.Random(0)), shop.instruction(session))
        rng = random.Random(goal)
        while not page.done and len(past) <= 20:
            good = good_actions(shop, session, past, page, walk.events)
            wrong = [a for a in page.actions if OPENED.fullmatch(a)]
            # The policy errs now and then: it opens anything that is listed.
            action = (
                rng.choice(wrong)
                if wrong and rng.random() < 0.4
                else good[0 if session["page"] == "item" else -1]
            )
            assert action in page.actions or action.startswith("search[")
            done[action.partition("[")[0] if action.startswith("search") else action] += 1
            session, outcome = shop.step(session, action)
            walk.took(page, action, outcome)
            page = outcome
            past.append((action, page.text))
        rewards.append(page.reward)
    assert done[FEATURES] > 20 < done[PREV]
    assert sum(reward == 1 for reward in rewards) >= 24


def test_batches_hold_every_page_once(shop):
    readers = readers_of({"full": 1.0})
    starts = [Start({"goal": g}, "rich", readers.draw(random.Random(0))) for g in range(6)]
    scorer, reading, _ = load_scorer("policy")
    player = Player({"rich": shop}, readers, reading, scorer)
    played = [player.play(start) for start in starts]
    seen = [page for one in played for page in one.seen]
    generator = torch.Generator().manual_seed(1)
    places = [i for batch in sized_batches(seen, 7, generator) for i in batch]
    assert sorted(places) == list(range(len(seen)))
    rows, page, absent = collate(seen[:3], torch.device("cpu"))
    assert (~absent).sum(1).tolist() == [len(one.actions) for one in seen[:3]]
    make_scorer(rows.shape[2], page.shape[1], 8)(rows, page, absent)


def test_goals_with_options_and_rivals_are_practised_oftener(plan):
    weights = [weight(plan.world, goal) for goal in plan.training[:40]]
    assert min(weights) >= 1 < max(weights)
