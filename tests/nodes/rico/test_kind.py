"""The ``rico`` context builder: the rules of the kit, its order, and documents from files."""

import json
from dataclasses import replace

import pytest

from stategate.envs.protocols import Chunk, Observation, View
from stategate.nodes.build_context.rico import Rico, documents_of
from stategate.nodes.conformance import check_built, requests
from stategate.nodes.models.decoders.loading import shared_backend
from stategate.nodes.models.embedders import Hashing
from stategate.nodes.protocols import ContextRequest, WorldProfile
from stategate.nodes.resources import Resources
from stategate.nodes.retrieval.page import PageSource
from stategate.stores.errors import UserError
from stategate.stores.tokens import count_tokens


@pytest.fixture(autouse=True)
def _own_home(home):
    """Each test keeps its states in a home of its own."""


@pytest.fixture
def resources():
    return Resources(None, Hashing())


@pytest.fixture
def corpus(resources):
    texts = [
        "paris is the capital of france .",
        "rome is the capital of italy .",
        "the cat sat on the mat .",
        "the dog sat in the river .",
    ]

    class Documents(View):
        def chunks(self, observation):
            return [Chunk(f"d{i}", "chunk", text) for i, text in enumerate(texts)]

    observation = Observation("", ())
    source = PageSource(Documents(), observation, lambda: resources.embedder)
    asked = "what is the capital of italy ?"
    return ContextRequest(asked, observation, source, (), 400, profile=WorldProfile(Documents()))


def test_it_keeps_the_rules(resources, llama_folder):
    build = Rico(model=str(llama_folder), top_k=3).build(resources)
    for request in requests(resources, (60, 400), ["qa"]):
        check_built(build(request), request)


def test_the_most_relevant_document_is_last(corpus, resources, llama_folder):
    params = Rico(model=str(llama_folder), fuse_with=("bm25",), top_k=3)
    context = params.build(resources)(corpus)
    check_built(context, corpus)
    shown = [piece for piece in context.pieces if piece.kind == "passage" and piece.text]
    assert len(shown) == 3
    assert [piece.score for piece in shown] == sorted(piece.score for piece in shown)
    weights = [piece.score for piece in context.pieces if piece.kind == "passage"]
    assert sum(weights) == pytest.approx(1)
    tight = replace(corpus, budget=count_tokens(context.text) - 12)
    cut = params.build(resources)(tight)
    check_built(cut, tight)
    assert shown[-1].text in cut.text, "the most relevant document lost room to another"


def test_more_chunks_than_candidates(corpus, resources, llama_folder):
    params = Rico(model=str(llama_folder), candidates=2, top_k=2)
    context = params.build(resources)(corpus)
    check_built(context, corpus)
    scored = [piece for piece in context.pieces if piece.score is not None]
    assert len(scored) == 2


def test_a_document_is_read_once(corpus, llama_folder, home, monkeypatch):
    backend = shared_backend(str(llama_folder), max_tokens=300)
    read = []
    encode = backend.encode
    monkeypatch.setattr(backend, "encode", lambda docs: read.extend(docs) or encode(docs))
    build = Rico(model=str(llama_folder), fuse_with=()).build(Resources(None, Hashing()))
    first = build(corpus)
    assert len(read) == 4
    fresh = Rico(model=str(llama_folder), fuse_with=()).build(Resources(None, Hashing()))
    assert fresh(replace(corpus)).pieces == first.pieces
    assert len(read) == 4
    assert list((home / "document_states").iterdir())


def test_documents_from_files(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a_note.txt").write_text("one")
    (tmp_path / "b.json").write_text(
        json.dumps({"documents": [{"title": "t", "text": "two"}, "x"]})
    )
    (tmp_path / "c.jsonl").write_text('{"text": "three"}\n\n{"title": "u", "text": "four"}\n')
    (tmp_path / "d.png").write_bytes(b"\x89")
    found = [(d.title, d.text) for d in documents_of(str(tmp_path))]
    assert found == [("t", "two"), ("b", "x"), ("c", "three"), ("u", "four"), ("a note", "one")]
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "e.json").write_text("{")
    for place in ("none", "bad"):
        with pytest.raises(UserError):
            documents_of(str(tmp_path / place))
