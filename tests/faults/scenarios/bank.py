"""A state bank that is built, used, edited and pruned."""

import numpy as np

from stategate.stores.bank import Bank, Row
from stategate.stores.sql import is_database
from tests.faults.scenarios import kept

EPISODES = 6
_DATA = {"action": "a", "move": "m", "experience": "e", "by": "return", "steps": 3, "seen": 1}


def _vector(seed):
    return np.random.default_rng(seed).normal(size=16).astype(np.float32)


def _place(folder, name):
    place = kept(folder, name, "")
    return f"{place}#{name}" if is_database(place) else place


def _open(folder, name="bank"):
    return Bank(_place(folder, name), "state", "h/16", create=True)


def prepare():
    pass


def work(folder, acknowledge):
    bank = _open(folder)
    for number in range(EPISODES):
        name = f"e{number}"
        data = {**_DATA, "episode": name}
        rows = [
            (
                Row(f"{name}-{step}", name, float(step), {**data, "step": step}),
                _vector(10 * number + step),
            )
            for step in range(3)
        ]
        folded = [(f"e{number - 1}-0", 4.0)] if number else []
        bank.add(rows, source=name, folded=folded)
        acknowledge(["added", name])
        hits = bank.search(_vector(10 * number + 1), 2)
        assert hits[0].row.id == f"{name}-1"
    gone = [row.n for row in bank.rows() if row.task == "e5"]
    bank.remove(gone)
    acknowledge(["removed", "e5"])


def check(folder, acknowledged):
    bank = _open(folder)
    rows = {row.id: row for row in bank.rows()}
    vectors = bank.vectors()[1].tolist()
    assert sorted(vectors) == sorted(row.n for row in rows.values()), "rows without their vectors"
    read = {name for name in map("e{}".format, range(EPISODES)) if bank.is_read(name)}
    said = {(what, name) for what, name in acknowledged}
    for name in (f"e{number}" for number in range(EPISODES)):
        there = [row for row in rows.values() if row.task == name]
        is_removed = name == "e5" and name in read and not there
        assert len(there) == (3 if name in read and not is_removed else 0), f"half of {name}"
        assert ("added", name) not in said or name in read, f"{name} is lost"
        if name != "e5" and f"e{int(name[1:]) + 1}" in read:
            assert rows[f"{name}-0"].q == 2.0, "an episode's worth was folded in twice, or never"
            assert rows[f"{name}-0"].data["seen"] == 2
    assert ("removed", "e5") not in said or not [r for r in rows.values() if r.task == "e5"]
    hits = bank.search(_vector(1), 1) if rows else []
    assert not rows or hits[0].row.id == "e0-1"
    return [sorted((row.id, row.q, row.data["experience"]) for row in rows.values())]
