"""Gates: which earlier steps compress shows, what they read, what they refuse."""

import numpy as np
import pytest
import torch

from stategate.envs.alfworld import AlfWorld
from stategate.envs.alfworld.expert import decide, knowledge_of
from stategate.nodes.act.seeker import seek
from stategate.nodes.build_context.assemble import assemble
from stategate.nodes.build_context.compress import Compress, squeeze
from stategate.nodes.build_context.gates import FACTS, facts_of, make_gates, texts_of
from stategate.nodes.build_context.needed import needed
from stategate.nodes.conformance import check_built
from stategate.nodes.models.embedders import Hashing
from stategate.nodes.resources import Resources
from stategate.stores.assets.weights import save_weights
from stategate.stores.errors import UserError
from stategate.stores.traces import Event
from tests.nodes.test_past import VIEW, moments, request  # noqa: F401 - a fixture


@pytest.fixture(scope="module")
def resources():
    return Resources(None, Hashing())


def _late(moments, resources, budget=3000):  # noqa: F811
    return request(moments[-1], resources, budget)


def _past(asked):
    return [chunk for chunk in asked.source.all() if chunk.role == "past"]


def test_only_the_steps_that_are_needed_are_shown_and_no_command_is_lost(moments, resources):  # noqa: F811
    asked = _late(moments, resources)
    whole = assemble(asked, asked.source.all())
    weights = {chunk.id: 1.0 for chunk in asked.source.all()}
    past = _past(asked)
    for wanted in ([], past[1:2], past[-2:]):
        built = squeeze(asked, whole, 3000, weights, past={c.id: 0.9 for c in wanted})
        check_built(built, asked)
        shown = {p.id for p in built.pieces if p.kind == "event" and p.text}
        assert shown == {chunk.id for chunk in wanted}
        assert set(built.actions) == set(asked.observation.actions)


def test_what_is_needed_brings_the_decision_back(resources):
    world = AlfWorld.load("sample")
    session, seen = world.reset({"game": "valid_unseen/two-jug-crate-13/trial_0007"})
    asked, pairs, events, found = world.instruction(session), [("", seen.text)], [], 0
    for t in range(12):
        action, _ = decide(asked, knowledge_of(pairs, seen.text, seen.actions), seen.actions)
        now = request((asked, seen, tuple(events), action), resources, 3000)
        past = _past(now)
        labels = needed(seek, now, t)
        assert len(labels) == len(past)
        if any(label > 0 for label in labels):
            found += 1
            whole = assemble(now, now.source.all())
            weights = {chunk.id: 1.0 for chunk in now.source.all()}
            kept = {c.id: 1.0 for c, label in zip(past, labels, strict=True) if label > 0}
            with_it = seek(squeeze(now, whole, 3000, weights, past=kept), t)
            without = seek(squeeze(now, whole, 3000, weights, past={}), t)
            wanted = seek(whole, t)
            assert wanted.action == with_it.action or wanted.reason == with_it.reason
            assert without.reason != wanted.reason
        events += [Event("OBS", VIEW.gist(seen.text), t), Event("ACT", action, t)]
        session, seen = world.step(session, action)
        pairs.append((action, seen.text))
        if seen.done:
            break
    assert found


def test_facts_tell_of_the_step_and_not_of_the_page(moments, resources):  # noqa: F811
    asked = _late(moments, resources)
    past = _past(asked)
    rows = facts_of(asked, past)
    assert rows.shape == (len(past), len(FACTS))
    assert np.isfinite(rows).all()
    assert rows[0, FACTS.index("is start")] == 1
    assert rows[:, FACTS.index("is last")].tolist() == [0.0] * (len(past) - 1) + [1.0]
    takes = [i for i, (act, _) in enumerate(texts_of(asked, past)) if act.startswith("take")]
    assert all(rows[i, FACTS.index("says thing")] > 0 for i in takes)


def _saved(path, network, **facts):
    sizes = {"d_state": 8, "d_text": 256, "facts": len(FACTS)}
    meta = {"kind": "gates", "architecture": sizes, "embedder": "hashing/256"} | facts
    save_weights(path, network.state_dict(), meta)
    return str(path)


def test_gates_without_a_state_need_no_updater_and_others_need_theirs(moments, resources, tmp_path):  # noqa: F811
    torch.manual_seed(0)
    network = make_gates(8, 256, len(FACTS))
    free = _saved(tmp_path / "free", network)
    params = Compress(allocator="uniform", ratio=0.3, gates=free, threshold=0.0)
    assert params.checkpoints("none") == (free,)
    asked = _late(moments, resources)
    built = resources.get(params)(asked)
    check_built(built, asked)
    shut = resources.get(params.model_copy(update={"threshold": 1.0}))(asked)
    assert sum(p.kind == "event" and bool(p.text) for p in shut.pieces) == 0
    assert shut.tokens < built.tokens
    bound = _saved(tmp_path / "bound", network, state_sha256="0" * 64, state="gru", state_name="s")
    with pytest.raises(UserError, match="was trained on state model 's'.*train gates again"):
        resources.get(params.model_copy(update={"gates": bound}))
