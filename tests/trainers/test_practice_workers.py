"""Practice shared by two workers fills the store as one process does."""

from stategate.stores.traces.store import TraceStore
from stategate.stores.workers import Crew
from stategate.trainers.webshop.practice import practise


def held(path):
    store = TraceStore(path)
    return {
        row["episode_id"]: [(e.kind, e.text) for e in store.events(row["episode_id"])]
        for row in store.episodes()
    }


def test_two_workers_practise_what_one_process_does_and_go_on(tmp_path):
    styles = ("careful", "slips")
    assert practise("webshop", "0-3", tmp_path / "one.sqlite", styles=styles) == 8
    half = practise("webshop", "0-1", tmp_path / "two.sqlite", styles=styles, crew=Crew(2))
    rest = practise("webshop", "0-3", tmp_path / "two.sqlite", styles=styles, crew=Crew(2))
    assert (half, rest) == (4, 4)
    assert held(tmp_path / "one.sqlite") == held(tmp_path / "two.sqlite")
