"""The policy learns from a teacher's word on its own play, on the sample's invented rooms."""

import random

import pytest
import torch

from stategate.envs.alfworld import AlfWorld
from stategate.envs.alfworld.expert import decide, knowledge_of
from stategate.nodes.act.encoding import shipped_encoder
from stategate.nodes.act.policy import load_scorer, make_scorer
from stategate.stores.assets.weights import read_meta
from stategate.stores.errors import UserError
from stategate.trainers.alfworld.course import course
from stategate.trainers.episodes import Readers, make_resources
from stategate.trainers.policy import dagger
from stategate.trainers.policy.rollout import Player, Start
from stategate.trainers.settings import DaggerSettings, read_settings


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
            session, page = world.reset(task)
            past, asked = [("", page.text)], world.instruction(session)
            while not page.done and len(past) < 50:
                if is_teacher:
                    action = rng.choice(list(plan.teacher(world, session, past, page)))
                else:
                    known = knowledge_of(past, page.text, page.actions)
                    action, _ = decide(asked, known, page.actions)
                session, page = world.step(session, action)
                past.append((action, page.text))
            assert page.done
            taken.append(len(past) - 1)
        steps.append(taken)
    assert sum(knowing for knowing, _ in steps) < sum(blind for _, blind in steps)


def test_it_learns_resumes_and_says_what_it_is(tmp_path):
    whole = dagger.train(settings(tmp_path / "a"))
    meta = read_meta(str(tmp_path / "a" / "policy"))
    assert (meta["world"], meta["episodes"], meta["kind"]) == ("alfworld", 6, "policy")
    assert whole["rows"][0]["n"] == 2
    weights = load_scorer(str(tmp_path / "a" / "policy"))[0].state_dict()
    (tmp_path / "a" / "policy.safetensors").unlink()
    dagger.train(settings(tmp_path / "a"))  # nothing is left to do
    again = load_scorer(str(tmp_path / "a" / "policy"))[0].state_dict()
    assert all(torch.equal(weights[name], again[name]) for name in weights)
    with pytest.raises(UserError, match="another width"):
        dagger.train(settings(tmp_path / "b", "start=policy"))


def test_it_learns_in_several_worlds_at_once(tmp_path):
    beside = "also={dagger: [data=sample, games=3, exam=1, max_steps=4, 'builders={full: 1}']}"
    summary = dagger.train(settings(tmp_path, "games=2", "max_steps=4", beside))
    meta = read_meta(str(tmp_path / "policy"))
    assert (meta["world"], meta["episodes"], len(meta["data"]["sha256"])) == (
        "alfworld, alfworld",
        5,
        2,
    )
    assert [row["n"] for row in summary["rows"]] == [2, 1]


def test_a_teacher_helps_where_it_is_asked_to_and_is_noted_at_every_decision():
    plan = course("sample", 0)
    readers = Readers({"full": 1}, make_resources(plan.env), 2000, 2000)
    reading = shipped_encoder()
    torch.manual_seed(0)
    scorer = make_scorer(len(reading.row_features), len(reading.page_features), 8)
    starts = [
        Start(task, "train", readers.draw(random.Random(0)), 1.0) for task in plan.training[:3]
    ]
    generator = torch.Generator().manual_seed(0)
    player = Player(plan.worlds, readers, reading, scorer, 30)
    helped = [player.play(start, generator, plan.teacher) for start in starts]
    assert all(one.reward == 1 for one in helped)
    assert all(len(one.good) == len(one.picks) and all(one.good) for one in helped)
    alone = [player.play(start, generator) for start in starts]
    assert not any(one.good for one in alone)
    assert sum(one.reward for one in alone) < 3
