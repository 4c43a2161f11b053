"""The policy actor's training, on the sample: goals, readers, rollouts, a teacher's word."""

import random
from collections import Counter

import pytest
import torch

from stategate.envs.alfworld import AlfWorld
from stategate.envs.alfworld.expert import decide, goal_here, knowledge_of
from stategate.envs.webshop import WebShop
from stategate.envs.webshop.view import FEATURES, OPENED, PREV
from stategate.graph import build_graph, load_config
from stategate.nodes.act.policy import load_scorer, make_scorer, shipped_encoder
from stategate.nodes.build_context.baselines import Full
from stategate.nodes.models.embedders import Hashing
from stategate.nodes.observe.webshop import WebShopEnv
from stategate.nodes.resources import Resources
from stategate.stores.assets.weights import read_meta
from stategate.stores.errors import UserError
from stategate.trainers import dagger
from stategate.trainers.alfworld import course
from stategate.trainers.dagger import Player
from stategate.trainers.episodes import Walk
from stategate.trainers.settings import DaggerSettings, read_settings
from stategate.trainers.webshop import good_actions, practice


def settings(out, *more):
    return read_settings(
        DaggerSettings,
        "dagger",
        [
            "data=sample",
            f"run={out / 'run'}",
            f"checkpoint={out / 'policy'}",
            "epochs=1",
            "games=6",
            "exam=2",
            "batch=16",
            "hidden=16",
            "max_steps=8",
            "builders={full: 1}",
            "start=",
            *more,
        ],
    )


def test_every_command_that_the_teacher_calls_good_wins_sooner_than_searching():
    plan = course("sample", 0)
    world = plan.worlds["train"]
    assert isinstance(world, AlfWorld)
    steps = []
    for task in plan.training[:12]:
        taken = []
        for is_teacher in (True, False):
            rng = random.Random(3)
            walk = Walk(Resources(None, Hashing(), env=plan.env), world, task, Full())
            while walk.goes_on(49):
                if is_teacher:
                    action = rng.choice(list(plan.teacher(walk)))
                else:
                    known = knowledge_of(walk.past, walk.page.text, walk.page.actions)
                    action, _ = decide(goal_here(walk.instruction, known), known)
                walk.take(action)
            assert walk.page.done
            taken.append(walk.step)
        steps.append(taken)
    assert sum(knowing for knowing, _ in steps) < sum(blind for _, blind in steps)


def test_it_learns_in_two_worlds_resumes_and_says_what_it_is(tmp_path):
    beside = "also={dagger: [data=sample, games=3, exam=1, max_steps=4, 'builders={full: 1}']}"
    whole = dagger.train(settings(tmp_path / "a", beside))
    meta = read_meta(str(tmp_path / "a" / "policy"))
    assert (meta["world"], meta["epochs"], meta["kind"]) == ("alfworld, alfworld", 1, "policy")
    assert (meta["settings"]["games"], len(meta["data"]["sha256"])) == (6, 2)
    assert [row["n"] for row in whole["rows"]] == [2, 1]
    weights = load_scorer(str(tmp_path / "a" / "policy"))[0].state_dict()
    (tmp_path / "a" / "policy.safetensors").unlink()
    dagger.train(settings(tmp_path / "a", beside))  # nothing is left to do
    again = load_scorer(str(tmp_path / "a" / "policy"))[0].state_dict()
    assert all(torch.equal(weights[name], again[name]) for name in weights)
    with pytest.raises(UserError, match="another width"):
        dagger.train(settings(tmp_path / "b", "start=policy"))


def test_a_teacher_helps_where_it_is_asked_to_and_is_noted_at_every_decision(tmp_path, monkeypatch):
    plan = course("sample", 0)
    reading = shipped_encoder()
    torch.manual_seed(0)
    scorer = make_scorer(len(reading.row_features), len(reading.page_features), 8)
    player = Player(settings(tmp_path, "max_steps=30", "low=2000", "high=2000"), reading, scorer)
    tasks, generator = plan.training[:3], torch.Generator().manual_seed(0)
    monkeypatch.setattr(dagger, "_HELP_RATE", 1.0)
    helped = player.roll_out(tasks, random.Random(0), generator)
    assert all(one.reward == 1 for one in helped)
    assert all(step.good for rollout in helped for step in rollout.labelled)
    alone = player.roll_out(tasks, random.Random(0))
    assert not any(step.good for rollout in alone for step in rollout.labelled)
    assert sum(one.reward for one in alone) < 3


@pytest.fixture(scope="module")
def shop():
    return WebShop.load("sample", observation="rich")


@pytest.fixture(scope="module")
def plan(shop):
    return practice(shop)


def walk_of(shop, goal, context):
    return Walk(Resources(None, Hashing(), env=WebShopEnv()), shop, {"goal": goal}, context)


def test_practice_goals_are_of_no_product_that_an_earlier_goal_or_the_other_side_uses(shop, plan):
    tested = {goal["asin"] for goal in shop.goals[: min(plan.heldout + plan.training) // 2]}
    sides = [{plan.world.goals[i]["asin"] for i in part} for part in (plan.training, plan.heldout)]
    assert all(sides[0])
    assert not sides[0] & sides[1]
    assert not tested & (sides[0] | sides[1])
    assert plan.world.goals[: len(shop.goals)] == shop.goals
    assert practice(shop).world.goals == plan.world.goals


def test_a_rollout_is_the_episode_that_the_graph_plays(tmp_path):
    scorer, reading, _ = load_scorer("policy")
    shop = f"course={good_actions.__module__}"
    told = settings(tmp_path, shop, "low=2000", "high=2000", "max_steps=20", "memory={}")
    player = Player(told, reading, scorer)
    played = player.roll_out([{"goal": g // 2} for g in range(8)], random.Random(0))[::2]
    overrides = [
        "updater.kind=none",
        "actor.kind=policy",
        "memory=[short_term]",
    ]
    graph = build_graph(load_config("webshop", overrides), checkpointer=False)
    for goal, rollout in enumerate(played):
        out = graph.invoke({"task": {"goal": goal}}, {"configurable": {"thread_id": str(goal)}})
        assert (out["reward"], out["steps"]) == (rollout.reward, rollout.length)


def test_the_teacher_reads_features_leaves_what_is_wrong_and_buys_what_is_right(plan):
    shop = plan.world
    rewards, done = [], Counter()
    for goal in range(30):
        walk = walk_of(shop, goal, Full())
        rng = random.Random(goal)
        while walk.goes_on(20):
            good = good_actions(walk)
            wrong = [a for a in walk.page.actions if OPENED.fullmatch(a)]
            # The policy errs now and then: it opens anything that is listed.
            action = (
                rng.choice(wrong)
                if wrong and rng.random() < 0.4
                else good[0 if walk.session["page"] == "item" else -1]
            )
            assert action in walk.page.actions or action.startswith("search[")
            done[action.partition("[")[0] if action.startswith("search") else action] += 1
            walk.take(action)
        rewards.append(walk.page.reward)
    assert done[FEATURES] > 20 < done[PREV]
    assert sum(reward == 1 for reward in rewards) >= 24
