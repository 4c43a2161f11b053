"""Imitation: training of the policy actor, on the sample catalogue."""

import json
import random
from collections import Counter

import pytest
import torch

from stategate.envs.webshop import WebShop
from stategate.envs.webshop.view import FEATURES, OPENED, PREV
from stategate.graph import build_graph, load_config
from stategate.nodes.act.encoding import encoder
from stategate.nodes.act.policy import Policy, load_scorer, make_scorer
from stategate.nodes.observe.webshop import WebShopEnv
from stategate.nodes.resources import Resources
from stategate.stores.assets.weights import read_meta
from stategate.stores.errors import UserError
from stategate.stores.traces.trajectories import read_trajectories
from stategate.trainers import trainer as trainer_module
from stategate.trainers.episodes import Readers, make_resources, parse_builder
from stategate.trainers.policy import imitation
from stategate.trainers.policy.imitation import choices
from stategate.trainers.policy.rollout import Player, Start, collate, sized_batches
from stategate.trainers.settings import ActorSettings, read_settings
from stategate.trainers.webshop.collect import collect_practice
from stategate.trainers.webshop.course import good_actions
from stategate.trainers.webshop.goals import practice


@pytest.fixture(scope="module")
def shop():
    return WebShop.load("sample", observation="rich")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("practice")
    collect_practice("sample", out, n=60, heldout=12)
    return out


@pytest.fixture(scope="module")
def imitated(folder, tmp_path_factory):
    out = tmp_path_factory.mktemp("actor")
    settings = _settings(folder, out)
    imitation.train(settings)
    return settings


def readers_of(builders, *budgets):
    return Readers(builders, make_resources("hashing", "none", WebShopEnv()), *budgets)


def _settings(folder, out, *more):
    return read_settings(
        ActorSettings,
        "actor",
        [
            f"data={folder / 'train.jsonl'}",
            f"heldout={folder / 'heldout.jsonl'}",
            "epochs=3",
            "builders={full: 1, window: 1, 'compress:allocator=uniform': 1, query_rag: 1}",
            "embedder=hashing",
            "updater=none",
            "batch=32",
            f"run={out / 'run'}",
            "validation=0.3",
            f"checkpoint={out / 'policy'}",
            *more,
        ],
    )


def test_practice_goals_are_of_no_product_that_an_earlier_goal_or_the_other_side_uses(shop):
    plan = practice(shop)
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
    readers = readers_of({"window:events=4": 1.0})
    name, params = readers._kinds[0]
    walk = readers.start(readers.reader(name, params, 220), shop.goals[2]["instruction_text"])
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


def test_a_rollout_is_the_episode_that_the_graph_plays(shop, imitated):
    scorer, reading, _ = load_scorer(imitated.checkpoint)
    readers = readers_of({"full": 1.0})
    name, params = readers._kinds[0]
    starts = [Start({"goal": g}, "rich", readers.reader(name, params, 2000)) for g in range(4)]
    played = Player({"rich": shop}, readers, reading, scorer).play(starts)
    overrides = [
        "updater.kind=none",
        "actor.kind=policy",
        "memory=[short_term]",
        f"actor.checkpoint={imitated.checkpoint}",
    ]
    graph = build_graph(load_config("webshop", overrides), checkpointer=False)
    for goal, one in enumerate(played):
        out = graph.invoke({"task": {"goal": goal}}, {"configurable": {"thread_id": str(goal)}})
        assert (out["reward"], out["done"], out["steps"]) == (one.reward, one.done, one.steps)


def test_readers_are_drawn_by_their_weights_at_budgets_within_bounds():
    readers = readers_of({"full": 3.0, "window:events=2": 1.0}, 80, 400)
    rng = random.Random(0)
    drawn = [readers.draw(rng) for _ in range(400)]
    assert 0.65 < sum(reader.name == "full" for reader in drawn) / 400 < 0.85
    assert all(80 <= reader.budget <= 400 for reader in drawn)
    assert parse_builder("window:events=2") == {"kind": "window", "events": 2}
    with pytest.raises(UserError, match="unknown context kind"):
        readers_of({"nonsense": 1.0})


def _stopped_after(calls, monkeypatch):
    """Make the loop stop, as by Ctrl-C, when it has kept ``calls`` epochs."""
    real, count = trainer_module._keep, iter(range(100))

    def keep(*words, **named):
        real(*words, **named)
        if next(count) == calls:
            raise KeyboardInterrupt

    monkeypatch.setattr(trainer_module, "_keep", keep)


def test_imitation_learns_resumes_and_says_what_it_is(folder, imitated, tmp_path, monkeypatch):
    history = json.loads((tmp_path / imitated.run / "history.json").read_text())
    assert history[-1]["accuracy"] > history[0]["accuracy"] + 0.2
    meta = read_meta(imitated.checkpoint)
    assert meta["kind"] == "policy"
    assert set(meta["builders"]) == {
        "full",
        "window",
        "compress:allocator=uniform",
        "query_rag",
    }
    Policy(checkpoint=imitated.checkpoint).build(Resources())
    stopped = _settings(folder, tmp_path)
    with monkeypatch.context() as patch:
        _stopped_after(1, patch)
        with pytest.raises(KeyboardInterrupt):
            imitation.train(stopped)
    assert len(json.loads((tmp_path / "run/history.json").read_text())) == 2
    imitation.train(stopped)
    assert read_meta(stopped.checkpoint)["sha256"] == meta["sha256"]  # same seed, same weights


def test_the_teacher_reads_features_leaves_what_is_wrong_and_buys_what_is_right(shop):
    shop = practice(shop).world
    readers = readers_of({"full": 1.0})
    rewards, done = [], Counter()
    for goal in range(30):
        session, page = shop.reset(goal=goal)
        past = [("", page.text)]
        walk = readers.start(readers.draw(random.Random(0)), shop.instruction(session))
        rng = random.Random(goal)
        while not page.done and len(past) <= 20:
            good = good_actions(shop, session, past, page, walk.events)
            wrong = [a for a in page.actions if OPENED.fullmatch(a)]
            # The policy errs now and then: it opens anything that is listed.
            action = rng.choice(wrong) if wrong and rng.random() < 0.4 else good[-1]
            assert action in page.actions or action.startswith("search[")
            done[action.partition("[")[0] if action.startswith("search") else action] += 1
            session, outcome = shop.step(session, action)
            walk.took(page, action, outcome)
            page = outcome
            past.append((action, page.text))
        rewards.append(page.reward)
    assert done[FEATURES] > 20 < done[PREV]
    assert sum(reward == 1 for reward in rewards) >= 24


def test_batches_hold_every_page_once(folder):
    readers = readers_of({"full": 1.0})
    trajectories = read_trajectories(folder / "heldout.jsonl")
    seen = [choice.seen for choice in choices(trajectories, readers, encoder("lexical"), 0)]
    places = [
        i for batch in sized_batches(seen, 7, torch.Generator().manual_seed(1)) for i in batch
    ]
    assert sorted(places) == list(range(len(seen)))
    rows, page, absent = collate(seen[:3], torch.device("cpu"))
    assert (~absent).sum(1).tolist() == [len(one.actions) for one in seen[:3]]
    make_scorer(rows.shape[2], page.shape[1], 8)(rows, page, absent)
