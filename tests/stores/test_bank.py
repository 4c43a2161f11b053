"""Banks on disk: nothing double, nothing lost, nothing of another make; search against brute force."""

import numpy as np
import pytest

from stategate.stores.bank import Bank, Row, row_table
from stategate.stores.errors import UserError
from tests.kit import run_processes


def vectors(count, width=16, seed=0):
    rows = np.random.default_rng(seed).normal(size=(count, width)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def entries(rows, first=0):
    return [
        (Row(f"r{i}", f"t{i % 5}", float(i % 10), {"i": i}), row)
        for i, row in enumerate(rows, first)
    ]


def bank(folder, make="m/16"):
    return Bank(folder, "state", make, create=True)


def nearest_by_hand(rows, query, k):
    return [f"r{i}" for i in np.argsort(-(rows @ query), kind="stable")[:k]]


def ids(found):
    return [hit.row.id for hit in found]


def test_a_row_is_added_once_and_its_source_is_marked_in_the_same_transaction(place):
    store = bank(place())
    assert store.add(entries(vectors(4)), "s") == 4
    assert store.add(entries(vectors(6)), "s") == 2
    assert store.is_read("s")
    assert not store.is_read("other")

    def broken():
        yield from entries(vectors(1, seed=3), first=90)
        raise RuntimeError("killed here")

    with pytest.raises(RuntimeError):
        store.add(broken(), "half")
    assert len(store) == 6
    assert not store.is_read("half")


def test_another_embedder_or_kind_is_refused_by_name(place):
    bank(place()).close()
    with pytest.raises(UserError, match=r"'m/16', not 'other/8'"):
        Bank(place(), "state", "other/8")
    with pytest.raises(UserError, match="kind 'state', not 'trace'"):
        Bank(place(), "trace")
    with pytest.raises(UserError, match="no bank"):
        Bank(place("nowhere"), "state")


def test_a_vector_of_another_size_or_without_direction_is_refused(place):
    store = bank(place())
    store.add(entries(vectors(3)))
    with pytest.raises(UserError, match="size 4"):
        store.search(np.ones(4, np.float32), 1)
    with pytest.raises(UserError, match="no direction"):
        store.add([(Row("z", "t", 1, {}), np.full(16, np.nan, np.float32))])
    assert len(store) == 3


def test_search_finds_what_brute_force_finds(place):
    rows = vectors(600)
    store = bank(place())
    store.add(entries(rows[:500]))
    for query in vectors(20, seed=1):
        found = store.search(query, 5)
        assert ids(found) == nearest_by_hand(rows[:500], query, 5)
        assert found[0].score == pytest.approx(float((rows[:500] @ query).max()), abs=1e-5)
    # Rows added later are found.
    for upto in (520, 600):
        store.add(entries(rows[500:upto], first=500))
        for query in vectors(5, seed=2):
            found = store.search(query, 5)
            assert ids(found) == nearest_by_hand(rows[:upto], query, 5)
    # A removed row does not come back, and neither do rows that are left out.
    best = store.search(rows[7], 1)[0].row.n
    assert best == 8
    store.remove([8])
    assert 8 not in [hit.row.n for hit in store.search(rows[7], 5)]
    left_out = {row.n for row in store.rows(row_table.c.task == "t1")}
    assert not left_out & {hit.row.n for hit in store.search(rows[6], 50, left_out)}


def _write(folder, first):
    store = bank(folder)
    for i in range(first, first + 40):
        row = vectors(1, seed=i)
        store.add(entries(row, first=i), f"s{i}")
        assert ids(store.search(row[0], 1)) == [f"r{i}"]


def test_processes_that_make_write_and_search_a_bank_at_once_lose_nothing(place):
    assert run_processes(_write, [(place(), n) for n in (0, 20, 40)]) == [0] * 3
    store = bank(place())
    assert sorted(row.id for row in store.rows()) == sorted(f"r{i}" for i in range(80))
    assert len(store.vectors()[1]) == 80


def _make(folder):
    for turn in range(30):
        bank(folder / str(turn)).close()


def test_many_make_the_same_new_file_at_once(tmp_path):
    """SQLite refuses some of those who switch a new file to its log, whatever their timeout."""
    assert run_processes(_make, [(tmp_path,)] * 6) == [0] * 6


def test_further_sightings_are_folded_into_a_running_mean(place):
    store = bank(place())
    store.add(entries(vectors(2)))
    store.add([], folded=[("r1", 9.0), ("unknown", 1.0)])
    store.add([], folded=[("r1", 2.0)])
    _, second = store.rows()
    assert (second.q, second.data["seen"]) == (4.0, 3)
