"""Steps of two episodes into the trace store, one of them stepped back, and an export."""

import json

from stategate.stores.files import write_lines, write_text
from stategate.stores.trace_store import TraceStore
from stategate.stores.traces import Event
from tests.faults.scenarios import kept

STEPS = [("a", 0), ("a", 1), ("b", 0), ("a", 2), ("b", 1), ("a", 1), ("a", 2), ("b", 2)]


def prepare():
    pass


def work(folder, acknowledge):
    store = TraceStore(kept(folder, "traces"))
    mark = folder / "at"
    at = int(mark.read_text() or 0) if mark.exists() else 0
    for number, (episode, step) in enumerate(STEPS[at:], at):
        last = number == len(STEPS) - 1
        events = [Event("OBS", f"page {number}", step), Event("ACT", f"act {number}", step)]
        store.write_step(episode, step, events, reward=float(number), done=last)
        write_text(mark, str(number + 1))
        acknowledge(number)
    write_lines(folder / "out.jsonl", store.exported())


def check(folder, acknowledged):
    store = TraceStore(kept(folder, "traces"))
    rows = {row["episode_id"]: row for row in store.episodes()}
    acts = {name: [e.text for e in store.events(name) if e.kind == "ACT"] for name in rows}
    for name, there in acts.items():
        assert len(there) == rows[name]["steps"], f"{name}: {there} for {rows[name]['steps']} steps"
    if acknowledged:
        episode, step = STEPS[max(acknowledged)]
        assert acts[episode][step] == f"act {max(acknowledged)}" or len(STEPS) - 1 > max(
            acknowledged
        )
    out = folder / "out.jsonl"
    exported = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    return [sorted(acts.items()), len(exported)]
