"""RICO in a question-answering agent: weights in the trace, states on disk."""

import json
import re
from pathlib import Path

import pytest

from stategate.graph import build_graph, load_config
from stategate.nodes.build_context.rico import Rico, documents_of
from stategate.nodes.conformance import check_built, requests
from stategate.nodes.models.documents import Document, shared_backend
from stategate.nodes.models.embedders import Hashing
from stategate.nodes.resources import Resources
from stategate.stores import progress
from stategate.stores.errors import UserError
from tests.kit import call, refused, run_command

#: A Llama of two layers, trained for 2,000 steps to say a key's value: its gradient finds the pairs.
MODEL = str(Path(__file__).parent / "pairs")
TEXTS = {
    "first.md": "# First\n\nk1 v1 k2 v2 k3 v3 k4 v4",
    "second.md": "# Second\n\nk5 v5 k6 v6 k7 v7 k8 v8",
    "third.md": "# Third\n\nk9 v9 k10 v10 k11 v11 k12 v12",
    "fourth.md": "# Fourth\n\nk13 v13 k14 v14 k15 v15 k16 v16",
}
QUESTION = "k5 v5 k7 v7?"


@pytest.fixture(autouse=True)
def _own_home(home):
    """Each test keeps its states in a home of its own."""


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "texts"
    place.mkdir()
    for name, text in TEXTS.items():
        (place / name).write_text(text)
    return place


@pytest.fixture
def settings(folder):
    return {
        "env": {"kind": "qa", "corpus": str(folder)},
        "embedder": "hashing",
        "context": {
            "kind": "rico",
            "model": MODEL,
            "fuse_with": ["bm25"],
            "top_k": 2,
            "candidates": 3,
            "budget": 400,
        },
        "actor": {"kind": "extract", "sentences": 1},
        "memory": [{"kind": "conversation"}],
        "max_steps": 10,
    }


def asked(values, question=QUESTION):
    task, thread = {"task": {"question": question}}, {"configurable": {"thread_id": "t"}}
    return build_graph(load_config(values)).invoke(task, thread, output_keys=["context", "action"])


def test_every_candidate_has_its_weight_and_the_best_is_last(settings):
    made = asked(settings)
    passages = [piece for piece in made["context"].pieces if piece.kind == "passage"]
    assert len(passages) == 3, "all candidates are told, also those without room"
    assert sum(piece.score for piece in passages) == pytest.approx(1)
    assert [piece.score for piece in passages] == sorted(piece.score for piece in passages)
    assert [bool(piece.text) for piece in passages] == [False, True, True]
    assert "k5 v5" in passages[-1].text
    assert made["action"] == "answer[k5 v5 k6 v6 k7 v7 k8 v8]"
    tight = {**settings, "context": {**settings["context"], "budget": 60}}
    kept = [p for p in asked(tight)["context"].pieces if p.kind == "passage" and p.text]
    assert [piece.id for piece in kept] == [passages[-1].id], "the best one has room first"


def weighed(printed):
    """The rows of a printed table that begin with a weight."""
    return [line for line in printed.splitlines() if re.match(r"\W*\d\.\d{3}\b", line)]


def test_rank_and_ask_share_states_and_show_weights(folder, settings, tmp_path, monkeypatch):
    call("ingest", folder, "--corpus", "towns")
    documents = documents_of("towns")
    assert Document("Second", "k5 v5 k6 v6 k7 v7 k8 v8") in documents
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    run = run_command("rank", QUESTION, "--corpus", "towns", "--model", MODEL, "--with", "bm25")
    assert "stategate: weighing the documents: 00:00 so far" in run.stderr
    assert "Second" in weighed(run.stdout)[0]
    assert "corpora: sample, towns" in refused("rank", "q", "--corpus", "nowhere")
    config = tmp_path / "agent.yaml"
    settings["env"]["corpus"] = "towns"
    config.write_text(json.dumps(settings))
    backend = shared_backend(MODEL, max_tokens=300)
    monkeypatch.setattr(backend, "encode", lambda _: pytest.fail("rank had read it"))
    said = call("ask", QUESTION, "--config", config, "--show", "--json", tmp_path / "a.json")
    assert "* Second" in weighed(said)[0]
    assert len(weighed(said)) == 3
    told = json.loads((tmp_path / "a.json").read_text())
    weights = {p["title"]: p["score"] for p in told["pieces"] if p["kind"] == "passage"}
    assert max(weights, key=weights.get) == "Second"


def test_it_keeps_the_rules(llama_folder):
    resources = Resources(None, Hashing())
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
