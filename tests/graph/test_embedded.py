"""One whole episode through the real llama.cpp server with the small model."""

import pytest

from stategate.graph import Session, build_graph, load_config

pytestmark = pytest.mark.model


def test_a_whole_episode_with_the_small_model(tmp_path):
    config = load_config("smoke", [f"memory=[short_term, {{kind: trace, path: {tmp_path}/t.db}}]"])
    here = Session(build_graph(config), "smoke", task={"env": "webshop", "goal": 3})
    steps = here.run()
    assert here.done
    assert 1 <= len(steps) <= config.max_steps
    assert steps[0].decision.action.startswith("search[")
    for step in steps:
        assert step.decision.tokens_in > 0
        assert step.decision.cost == 0.0
        action = step.decision.action
        is_legal = action in step.context.actions or action.startswith("search[")
        assert is_legal or step.decision.fallback is not None


def test_a_server_that_dies_in_mid_episode_is_started_again():
    from stategate.nodes.models.server import stop_all

    here = Session(build_graph(load_config("smoke")), "dies", task={"goal": 3})
    here.step()
    stop_all()
    assert here.step().step == 1
