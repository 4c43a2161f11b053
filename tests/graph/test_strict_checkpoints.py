"""A checkpoint file from elsewhere is data: nothing in it is called."""

import sqlite3
from contextlib import suppress

import ormsgpack
import pytest

from stategate.graph import build_graph, load_config
from tests.graph.test_graph import TASK, thread


def _evil(path):
    """Return msgpack's extension 0 as LangGraph writes constructors: module, name, argument."""
    call = ormsgpack.packb(("os", "system", f"touch {path}"))
    return ormsgpack.packb(ormsgpack.Ext(0, call))


@pytest.mark.parametrize("place", ["checkpoint", "write"])
def test_a_checkpoint_runs_no_code(tmp_path, place):
    mark, path = tmp_path / "ran", tmp_path / "c.sqlite"
    settings = {"actor": "rule", "memory": ["short_term"], "checkpoints": str(path)}
    build_graph(load_config(settings)).invoke(TASK, thread())
    with sqlite3.connect(path) as db:
        if place == "checkpoint":
            db.execute("update checkpoints set checkpoint = ?, type = 'msgpack'", (_evil(mark),))
        else:
            row = db.execute(
                "select thread_id, checkpoint_ns, checkpoint_id from checkpoints"
                " order by checkpoint_id desc limit 1"
            ).fetchone()
            db.execute(
                "insert into writes (thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel,"
                " type, value) values (?, ?, ?, 'task', 0, 'action', 'msgpack', ?)",
                (*row, _evil(mark)),
            )
    with suppress(Exception):  # what the file leaves of a checkpoint may be none
        build_graph(load_config(settings)).get_state(thread())
    assert not mark.exists()
