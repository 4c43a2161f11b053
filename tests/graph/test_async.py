"""`ainvoke` keeps no thread while a model thinks: 64 conversations wait for it at once."""

import asyncio
import json
import time
from collections import Counter

import pytest

from stategate.graph import build_graph, load_config
from tests.kit import completion, http_server

SESSIONS = 64


@pytest.fixture
def slow_model():
    """Serve answers after half a second each; count how many are thought about at once."""
    thinking, most = Counter(), [0]

    def answer(request):
        thinking[id(request)] = 1
        most[0] = max(most[0], len(thinking))
        time.sleep(0.5)
        del thinking[id(request)]
        return 200, "application/json", json.dumps(completion("A red lake.", 3, 4)).encode()

    with http_server(answer) as (url, _):
        yield f"{url}/v1", most


def test_sixty_four_sessions_wait_for_one_model_together(slow_model, tmp_path):
    url, most = slow_model
    settings = {
        "env": {"kind": "qa", "corpus": "sample"},
        "memory": ["conversation"],
        "actor": {"kind": "answer", "threshold": 0},
        "embedder": "hashing",
        "context": {"kind": "recall", "budget": 400},
        "llm": {"kind": "openai", "model": "m", "base_url": url},
        "max_steps": 100,
        "checkpoints": str(tmp_path / "c.sqlite"),
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
