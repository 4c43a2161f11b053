"""Recording, ingesting and building banks with several workers: what one process makes, made by two."""

import json
from pathlib import Path

import pytest

from stategate.nodes.registry import registry
from stategate.stores.corpus.documents import read_folder
from stategate.stores.errors import UserError
from stategate.stores.workers import Crew, in_order
from stategate.trainers.collect import collect
from tests.evals.jobs import halves

SHOP, ROOMS = (f"stategate.trainers.{world}.course" for world in ("webshop", "alfworld"))
HASHING = registry().parse("embedder", "hashing")


@pytest.mark.parametrize("crew", [None, Crew(1), Crew(2)])
def test_results_come_in_the_order_of_the_jobs(crew):
    assert in_order(halves, [5, 3, 8, 1], crew, "halve") == [2.5, 1.5, 4.0, 0.5]


def test_a_job_that_fails_is_told():
    with pytest.raises(UserError, match="halve: ValueError: an unlucky number"):
        in_order(halves, [1, 13], Crew(2), "halve")


def _same_files(a: Path, b: Path) -> bool:
    names = sorted(p.name for p in a.iterdir())
    return names == sorted(p.name for p in b.iterdir()) and all(
        (a / name).read_bytes() == (b / name).read_bytes() for name in names
    )


def test_two_workers_record_the_bytes_that_one_process_records(tmp_path):
    collect(SHOP, "sample", tmp_path / "one", n=4, heldout=2, seed=3)
    collect(SHOP, "sample", tmp_path / "two", n=4, heldout=2, seed=3, crew=Crew(2))
    assert _same_files(tmp_path / "one", tmp_path / "two")
    collect(ROOMS, "sample", tmp_path / "a", n=3, heldout=2)
    collect(ROOMS, "sample", tmp_path / "b", n=3, heldout=2, crew=Crew(2))
    assert _same_files(tmp_path / "a", tmp_path / "b")
    assert json.loads((tmp_path / "a" / "collect.json").read_text())["splits"]["train"]["episodes"]


def test_two_workers_read_the_files_that_one_process_reads(tmp_path):
    for number in range(5):
        (tmp_path / f"{number}.html").write_text(f"<title>{number}</title><p>Page {number}.")
    (tmp_path / "bad.json").write_text("{")
    assert list(read_folder(tmp_path, crew=Crew(2))) == list(read_folder(tmp_path))
