"""What a new user ran into on the command line: each once ended in a traceback or said too little."""

import json
import socket

import pytest

from stategate.nodes.models.embedders import HashingEmbedder
from stategate.nodes.retrieval import corpus as retrieval
from stategate.stores.corpus.chunking import Chunking
from stategate.stores.corpus.corpus import Corpus, corpus_names
from stategate.stores.corpus.documents import Document
from stategate.ui.cli.main import app


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    monkeypatch.setenv("STATEGATE_HOME", str(tmp_path / "home"))


def cli(*words: object) -> int:
    with pytest.raises(SystemExit) as ended:
        app([str(word) for word in words], prog_name="stategate")
    return int(ended.value.code or 0)


@pytest.mark.parametrize(
    "words",
    [
        ("traces", "list"),
        ("memory", "list"),
        ("run", "demo", "--thread", "t"),
        ("ingest", "README.md", "--corpus", "x"),
        ("ask", "Who?"),
        ("chat",),
    ],
)
def test_a_home_that_cannot_be_made_is_one_line(words, monkeypatch, capsys):
    monkeypatch.setenv("STATEGATE_HOME", "/proc/none/home")
    assert cli(*words) == 2
    told = capsys.readouterr().err
    assert "set STATEGATE_HOME" in told
    assert "Traceback" not in told


def test_a_slot_that_is_misspelt_is_suggested(capsys):
    assert cli("run", "demo", "--set", "contxt.kind=full") == 2
    assert "did you mean 'context'?" in capsys.readouterr().err
    assert cli("run", "demo", "--set", "context.budgt=4") == 2
    assert "did you mean 'budget'?" in capsys.readouterr().err


def test_a_broken_config_is_told_in_our_words(tmp_path, capsys):
    broken = tmp_path / "mine.yaml"
    broken.write_text("env: [\n")
    assert cli("ui", "--config", broken) == 2
    told = capsys.readouterr().err
    assert "no YAML in line" in told
    assert "unicode string" not in told


def test_a_port_that_is_taken_is_told_in_our_words(capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert cli("ui", "--port", taken.getsockname()[1]) == 2
    told = capsys.readouterr().err
    assert "is taken" in told
    assert "GRADIO" not in told


def test_json_goes_to_a_file_or_to_stdout_everywhere(tmp_path, capsys):
    for words in (("kinds",), ("traces", "list"), ("memory", "list"), ("doctor",)):
        target = tmp_path / f"{words[0]}.json"
        cli(*words, "--json", target)
        capsys.readouterr()
        cli(*words, "--json", "-")
        assert (
            json.loads(capsys.readouterr().out).__class__
            is json.loads(target.read_text()).__class__
        )


def test_a_failed_ingest_leaves_no_corpus(tmp_path, capsys):
    assert cli("ingest", "http://127.0.0.1:9/x", "--corpus", "one", "--embedder", "hashing") == 2
    assert corpus_names() == []


def test_a_page_that_cannot_be_reached_is_told_by_the_exit_code(tmp_path, capsys):
    note = tmp_path / "note.txt"
    note.write_text("The boat is called Halcyon and lies in the harbour.")
    words = ("ingest", note, "http://127.0.0.1:9/x", "--corpus", "two", "--embedder", "hashing")
    assert cli(*words) == 2
    assert corpus_names() == ["two"]  # what could be read was


def test_an_episode_that_nobody_scores_has_no_reward(tmp_path, capsys):
    note = tmp_path / "note.txt"
    note.write_text("The boat is called Halcyon and lies in the harbour.")
    light = ("--set", "embedder.kind=hashing", "--set", "actor.kind=extract")
    rules = ("--set", "memory=[{kind: trace}]")
    assert cli("ask", "What is the boat called?", "--corpus", note, *light, *rules) == 0
    capsys.readouterr()
    assert cli("traces", "list", "--json", "-") == 0
    assert [row["reward"] for row in json.loads(capsys.readouterr().out)] == [None]
    assert cli("traces", "list") == 0
    assert "0.00" not in capsys.readouterr().out


class Counting(HashingEmbedder):
    """An embedder that remembers how many texts it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def embed(self, texts):
        self.count += len(texts)
        return super().embed(texts)


def test_a_large_folder_is_not_embedded_before_the_first_answer(tmp_path):
    corpus = Corpus("folder-x", tmp_path / "corpus")
    words = [f"w{i}" for i in range(40_000)]
    words[25_000:25_000] = "The lighthouse keeper is Ingrid Solheim.".split()
    corpus.sync("o", [Document("log", "o", "log", " ".join(words))])
    embedder = Counting()
    index = retrieval.CorpusIndex(
        corpus, Chunking("fixed", 64, 8), embedder, str(tmp_path / "chroma"), lazy_from=100
    )
    index.sync()
    assert len(index.passages) > 500
    assert embedder.count == 0
    best = index.find("Who is the lighthouse keeper?", 3)
    assert "Ingrid Solheim" in index.passages[best[0][0]].text
    assert embedder.count < len(index.passages) / 2
    # What needs all of them gets all of them.
    assert len(index.nearest(embedder.embed(["w7"])[0], 400)) == 400
