"""Agents do step for step what they did before the code moved: actions, rewards, and every context.

The golden rows were recorded at commit 3caac6c: goals 0-99 of the real data (``rule`` and ``policy``
with ``full`` and ``compress`` at 0.4) and goals 0-7 of the sample (more builders). A digest is of the
built context's text. Whoever trains or rewrites a node on purpose records them again.
"""

import gzip
import hashlib
import json
from pathlib import Path

import pytest

from graph import build_graph, load_config
from tests.envs.test_webshop_parity import DATA

ROWS = [
    json.loads(line)
    for line in gzip.decompress(
        (Path(__file__).parent / "golden" / "webshop_steps.jsonl.gz").read_bytes()
    ).splitlines()
]
BUILDERS = {
    "full": ["context.kind=full"],
    "full-300": ["context.kind=full", "context.budget=300"],
    "compress": ["context.kind=compress", "context.ratio=0.4"],
    "compress-300": ["context.kind=compress", "context.budget=300"],
    "window": ["context.kind=window"],
    "query_rag": ["context.kind=query_rag"],
    "retrieve": ["context.kind=retrieve"],
}
AGENTS = sorted({(row["data"], row["agent"]) for row in ROWS})
_SHARED: dict[str, object] = {}


@pytest.mark.parametrize(("data", "agent"), AGENTS)
def test_same_steps_as_before(data: str, agent: str) -> None:
    actor, builder = agent.split("/")
    if data == "official" and not DATA.exists():
        pytest.skip(f"no real data in {DATA}: set STATEGATE_DATA")
    folder = str(DATA) if data == "official" else data
    settings = [f"env.data={folder}", f"actor.kind={actor}", "memory=[short_term]"]
    graph = build_graph(
        load_config("webshop", [*settings, *BUILDERS[builder]]),
        checkpointer=False,
        resources=_SHARED.get(data),
    )
    _SHARED[data] = graph.agent.resources
    for row in ROWS:
        if (row["data"], row["agent"]) == (data, agent):
            assert played(graph, row["goal"]) == row["steps"], f"goal {row['goal']}"


def played(graph, goal):
    steps, digest = [], ""
    for update in graph.stream({"task": {"goal": goal}}, stream_mode="updates"):
        for node, change in update.items():
            if node == "build_context":
                digest = hashlib.sha1(change["context"].text.encode()).hexdigest()[:8]
            if node == "act":
                steps.append([change["action"], round(change["reward"], 6), digest])
    return steps
