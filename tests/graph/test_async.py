"""`ainvoke` keeps no thread while a model thinks: 64 conversations wait for it at once."""

import asyncio
import json
import threading
import time

import pytest

from stategate.graph import build_graph, load_config
from tests.kit import completion, http_server

SESSIONS = 64


@pytest.fixture
def slow_model():
    """Serve answers after half a second each; count how many are thought about at once."""
    thinking, most = [0], [0]
    lock = threading.Lock()

    def answer(_):
        with lock:
            thinking[0] += 1
            most[0] = max(most[0], thinking[0])
        time.sleep(0.5)
        with lock:
            thinking[0] -= 1
        return 200, "application/json", json.dumps(completion("A red lake.", 3, 4)).encode()

    with http_server(answer) as (url, _):
        yield f"{url}/v1", most


@pytest.mark.parametrize("where", ["memory", "sqlite"])
def test_sixty_four_sessions_wait_for_one_model_together(slow_model, tmp_path, where):
    url, most = slow_model
    settings = {
        "env": {"kind": "qa", "corpus": "sample"},
        "memory": ["conversation"],
        "actor": {"kind": "answer", "threshold": 0},
        "embedder": "hashing",
        "context": {"kind": "recall", "budget": 400},
        "llm": {"kind": "openai", "model": "m", "base_url": url},
        "max_steps": 100,
        "checkpoints": None if where == "memory" else str(tmp_path / "c.sqlite"),
    }
    graph = build_graph(load_config(settings))

    async def ask(i):
        config = {"configurable": {"thread_id": f"t{i}"}}
        return await graph.ainvoke({"task": {"question": f"Why is Blood Falls red? ({i})"}}, config)

    async def all_at_once():
        await ask(-1)  # what is built once is built
        return await asyncio.gather(*map(ask, range(SESSIONS)))

    answers = asyncio.run(all_at_once())
    assert {out["action"] for out in answers} == {"answer[A red lake.]"}
    assert {out["model_tokens"] for out in answers} == {7}
    assert most[0] > 24, "threads of the default executor would be 6 on two cores"


def test_an_actor_without_a_coroutine_is_played_all_the_same():
    graph = build_graph(load_config({"actor": "rule", "memory": ["short_term"]}))
    config = {"configurable": {"thread_id": "t"}}
    assert asyncio.run(graph.ainvoke({"task": {"goal": 3}}, config))["done"]


def test_a_person_is_asked_in_a_served_run_too():
    from langgraph.types import Command

    graph = build_graph(load_config({"actor": "human", "memory": ["short_term"]}))
    config = {"configurable": {"thread_id": "t"}}
    out = asyncio.run(graph.ainvoke({"task": {"goal": 3}}, config))
    assert out["__interrupt__"][0].value["actions"]
    asyncio.run(graph.ainvoke(Command(resume="search[lamp]"), config))
    assert graph.get_state(config).values["action"] == "search[lamp]"
