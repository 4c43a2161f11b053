"""An episode of the sample shop with checkpoints and traces, gone on with by ``Session``."""

import sqlite3

from stategate.graph import Session, build_graph, load_config
from stategate.stores.trace_store import TraceStore
from tests.faults.scenarios import kept

_RESOURCES = []


def _graph(folder):
    traces = kept(folder, "traces")
    memory = f"memory=[short_term, {{kind: trace, path: '{traces}'}}]"
    settled = load_config({"actor": "rule", "checkpoints": kept(folder, "checkpoints")}, [memory])
    return build_graph(settled, resources=_RESOURCES[0] if _RESOURCES else None)


def prepare():
    graph = build_graph(load_config({"actor": "rule"}), checkpointer=False)
    graph.invoke({"task": {"goal": 3}})
    _RESOURCES.append(graph.agent.resources)


def work(folder, acknowledge):
    session = Session(_graph(folder), "t")
    if "session" not in session.values:
        session.start({"goal": 3})
    while not session.done:
        result = session.step()
        acknowledge([result.step, result.decision.action])


def check(folder, acknowledged):
    traces = TraceStore(kept(folder, "traces"))
    episodes = traces.episodes()
    assert len(episodes) <= 1, episodes
    events = traces.events(episodes[0]["episode_id"]) if episodes else []
    actions = {e.t: e.text for e in events if e.kind == "ACT"}
    assert len(actions) == sum(e.kind == "ACT" for e in events), "a step is there twice"
    for step, action in acknowledged:
        assert actions.get(step) == action, f"step {step} ({action}) is lost or another: {actions}"
    for path in folder.glob("*.sqlite"):
        with sqlite3.connect(path) as db:
            assert db.execute("pragma integrity_check").fetchone()[0] == "ok"
    values = Session(_graph(folder), "t").values
    keys = ("reward", "done", "steps", "tokens", "action")
    return [[values.get(key) for key in keys], sorted(actions.items())]
