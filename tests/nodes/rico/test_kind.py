"""The ``rico`` context builder: the rules of the kit, its order, and documents from files."""

import json

import pytest

from stategate.nodes.build_context.rico import Rico, documents_of
from stategate.nodes.conformance import check_built, requests
from stategate.nodes.models.embedders import Hashing
from stategate.nodes.resources import Resources
from stategate.stores.errors import UserError


@pytest.fixture(autouse=True)
def _own_home(home):
    """Each test keeps its states in a home of its own."""


@pytest.fixture
def resources():
    return Resources(None, Hashing())


def test_it_keeps_the_rules(resources, llama_folder):
    build = Rico(model=str(llama_folder), top_k=3).build(resources)
    for request in requests(resources, (60, 400), ["qa"]):
        check_built(build(request), request)


def test_documents_from_files(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a_note.txt").write_text("one")
    (tmp_path / "b.json").write_text(json.dumps({"title": "t", "text": "two"}))
    (tmp_path / "d.png").write_bytes(b"\x89")
    found = [(d.title, d.text) for d in documents_of(str(tmp_path))]
    assert found == [("t", "two"), ("a note", "one")]
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "e.json").write_text("{")
    for place in ("none", "bad"):
        with pytest.raises(UserError):
            documents_of(str(tmp_path / place))
