"""Documents, chunkings, corpora and vectors: what is read, how it is cut, what an ingest changes."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stategate.stores.corpus.chunking import Chunking, contains_evidence, cut_passages
from stategate.stores.corpus.corpus import Corpus, open_corpus, prepare
from stategate.stores.corpus.documents import (
    Document,
    Skipped,
    read_document,
    read_folder,
    read_web,
)
from stategate.stores.corpus.vectors import Vectors
from stategate.stores.errors import UserError
from tests.kit import DATA, http_server

pytestmark = pytest.mark.usefixtures("home")
PHENOMENA = DATA / "qa" / "phenomena"
needs_data = pytest.mark.skipif(
    not PHENOMENA.is_dir(), reason="no reference corpus: set STATEGATE_DATA"
)


def read_file(path):
    return read_document(path, path.name)


@needs_data
@pytest.mark.parametrize(("chunking", "name"), [("256-50", "256"), ("1024-100", "1024")])
def test_fixed_chunking_makes_the_reference_chunks_byte_for_byte(chunking, name):
    documents = [d for d in read_folder(PHENOMENA / "corpus") if isinstance(d, Document)]
    made = [
        p.text
        for d in documents
        for p in cut_passages(d.id, d.title, d.text, Chunking.parse(f"fixed-{chunking}"))
    ]
    lines = (PHENOMENA / f"reference_chunks_fixed_{name}.jsonl").read_text("utf-8").split("\n")
    assert made == [json.loads(line)["text"] for line in lines if line]


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=400), st.sampled_from(["fixed-16-4", "fixed-5-0"]))
def test_passages_are_stretches_of_their_document_and_lose_nothing_but_space(text, chunking):
    passages = cut_passages("d", "t", text, Chunking.parse(chunking))
    assert all(text[p.start : p.end] == p.text for p in passages)
    covered = {i for p in passages for i in range(p.start, p.end)}
    assert all(text[i].isspace() for i in range(len(text)) if i not in covered)


def test_ids_derive_from_content_so_one_changed_passage_changes_one_id():
    words = [f"word{i}" for i in range(200)]
    before = cut_passages("d", "t", " ".join(words), Chunking(64, 0))
    words[-1] = "changed"
    after = cut_passages("d", "t", " ".join(words), Chunking(64, 0))
    assert [p.id for p in before[:-1]] == [p.id for p in after[:-1]]
    assert before[-1].id != after[-1].id
    twice = cut_passages("d", "t", "same " * 200, Chunking(10, 0))
    assert len({p.id for p in twice}) == len(twice)


def test_evidence_finds_its_passage_under_another_chunking():
    text = " ".join(f"w{i}" for i in range(300))
    evidence = " ".join(f"w{i}" for i in range(140, 150))
    for chunking in ("fixed-64-16", "fixed-256-50"):
        passages = cut_passages("d", "t", text, Chunking.parse(chunking))
        bearing = [p for p in passages if contains_evidence(p.text, evidence)]
        assert 1 <= len(bearing) <= 3
        assert all("w144" in p.text or "w145" in p.text for p in bearing)


@pytest.mark.parametrize("wrong", ["fixed", "fixed-10-10", "other-10-2", "fixed-0-0", ""])
def test_a_wrong_chunking_says_how_one_is_written(wrong):
    with pytest.raises(UserError, match="fixed-256-50"):
        Chunking.parse(wrong)


@pytest.fixture(params=["files", "postgres"])
def place(request):
    """Return the name of a corpus that is not there yet: of this home, or shared."""
    return "notes" if request.param == "files" else request.getfixturevalue("database")()


def test_a_second_ingest_updates_what_changed_and_removes_what_is_gone(tmp_path, place):
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "a.md").write_text("# Alpha\n\nThe first text.")
    (folder / "b.txt").write_text("The second text.")
    with pytest.raises(UserError, match="no corpus"):
        open_corpus(place)
    corpus = Corpus(place)
    assert corpus.is_new()
    first = corpus.sync("notes", read_folder(folder))
    assert sorted(first.added) == ["a.md", "b.txt"]
    again = corpus.sync("notes", read_folder(folder))
    assert sorted(again.unchanged) == ["a.md", "b.txt"]
    assert [again.added, again.updated, again.removed] == [[], [], []]
    (folder / "a.md").write_text("# Alpha\n\nAnother text.")
    (folder / "b.txt").unlink()
    (folder / "c.html").write_text("<title>Gamma</title><body><p>Third.</p><script>x</script>")
    changes = corpus.sync("notes", read_folder(folder))
    assert (changes.added, changes.updated, changes.removed) == (["c.html"], ["a.md"], ["b.txt"])
    again = open_corpus(place)
    assert {d.title: d.text.strip() for d in again.documents()} == {
        "Alpha": "Another text.",
        "Gamma": "Third.",
    }
    assert again.fingerprint() == corpus.fingerprint()
    chunking = Chunking.parse("fixed-64-10")
    assert prepare(again, chunking)[0] == prepare(corpus, chunking)[0] != []


@pytest.mark.parametrize(
    ("name", "raw", "why"),
    [
        ("blank.md", b" \n\t\n", "no text"),
        ("program.txt", b"\x7fELF\x00\x01\x02\x00" * 50, "binary"),
        ("noise.txt", bytes(range(128, 256)) * 20, "UTF-8"),
        ("half.txt", b"\xff\xfe\x41", "UTF-16"),
        ("broken.json", b'{"title": "x", ', "JSON"),
        ("deep.json", b"[" * 100_000, "JSON"),
        ("broken.pdf", b"%PDF-1.4 nothing", "PDF"),
    ],
)
def test_a_file_that_gives_no_text_is_skipped_with_its_reason(tmp_path, name, raw, why):
    path = tmp_path / name
    path.write_bytes(raw)
    found = read_file(path)
    assert isinstance(found, Skipped)
    assert why in found.why


RUSSIAN, POLISH = "Живая вода и мёртвая вода", "Zażółć gęślą jaźń"


@pytest.mark.parametrize(
    ("text", "codec", "head"),
    [
        (RUSSIAN, "windows-1251", '<meta charset="windows-1251">'),
        (RUSSIAN, "koi8-r", '<meta http-equiv="Content-Type" content="text/html; charset=koi8-r">'),
        (POLISH, "iso-8859-2", '<?xml version="1.0" encoding="iso-8859-2"?>'),
        (POLISH, "utf-16", ""),
        (POLISH, "utf-8-sig", '<meta charset="iso-8859-1">'),
        ("Café — “naïve”", "cp1252", '<meta charset="iso-8859-1">'),
        ("Café — naïve", "cp1252", '<meta charset="utf-8">'),
        ("Café — naïve", "utf-8", '<meta charset="no-such-charset">'),
    ],
)
def test_a_page_is_read_in_the_charset_that_it_declares(tmp_path, text, codec, head):
    path = tmp_path / "page.html"
    path.write_bytes(f"{head}<title>{text}</title><body><p>{text}</p>".encode(codec))
    page = read_file(path)
    assert isinstance(page, Document), page
    assert (page.title, page.text) == (text, text)


def test_a_page_keeps_its_headings_rows_and_items_apart(tmp_path):
    (tmp_path / "page.html").write_text(
        "<h2>Ships</h2><p>The <b>Klara</b>\nis old.</p><table><tr><th>ship</th><th>crew</th></tr>"
        "<tr><td>Klara</td><td>9</td></tr></table><ul><li>Dogs welcome</li><li>No prams</li></ul>"
    )
    text = read_file(tmp_path / "page.html").text
    assert [line for line in text.splitlines() if line] == [
        "## Ships",
        "The Klara is old.",
        "| ship | crew |",
        "| Klara | 9 |",
        "- Dogs welcome",
        "- No prams",
    ]


PAGES = {
    "/page": ("text/html", b"<title>Ferry</title><script>x()</script><p>It leaves at noon.</p>"),
    "/note.json": ("application/json", b'{"title": "Lamp", "content": "It burns."}'),
    "/blob": ("application/octet-stream", bytes(range(256))),
    "/russian": (
        'text/html; charset="windows-1251"',
        f"<meta charset=utf-8><p>{RUSSIAN}</p>".encode("cp1251"),
    ),
}


def test_pages_of_a_server_are_read_by_their_kind_and_faults_are_told(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")  # it must not go through that
    gone = 404, "text/plain", b""
    with http_server(lambda asked: (200, *PAGES[asked.path]) if asked.path in PAGES else gone) as (
        server,
        _,
    ):
        page, note = read_web(f"{server}/page"), read_web(f"{server}/note.json")
        assert (page.title, page.text) == ("Ferry", "It leaves at noon.")
        assert (note.title, note.text) == ("Lamp", "It burns.")
        assert read_web(f"{server}/russian").text == RUSSIAN, "its charset goes before the page's"
        assert read_web(f"{server}/blob") == Skipped(f"{server}/blob", "a binary file")
        assert read_web(f"{server}/gone").why == "the server answers 404 Not Found"
    assert "refused" in read_web("http://127.0.0.1:1/x").why


def test_a_corpus_that_is_not_there_is_told_with_those_that_are():
    Corpus("kept").sync("x", [])
    with pytest.raises(UserError, match="kept"):
        open_corpus("lost")
    with pytest.raises(UserError, match="no corpus name"):
        Corpus("../up")


ROWS = np.eye(4, dtype=np.float32)


@pytest.mark.parametrize("kind", ["folder", "server"])
def test_vectors_are_kept_found_and_removed(tmp_path, request, kind):
    where = tmp_path if kind == "folder" else request.getfixturevalue("chroma")
    Vectors(where, "kept").put(["a", "b", "c", "d"], ROWS)
    vectors = Vectors(where, "kept")
    assert vectors.ids() == {"a", "b", "c", "d"}
    best, second = vectors.search(np.array([0.9, 0.1, 0, 0], dtype=np.float32), 2)
    assert best[0] == "a"
    assert best[1] > second[1]
    vectors.remove(["a", "unknown"])
    assert vectors.ids() == {"b", "c", "d"}
    assert len(vectors.search(ROWS[1], 9)) == 3


def test_a_missing_server_is_told():
    with pytest.raises(UserError, match="chroma run"):
        Vectors("http://127.0.0.1:9", "kept")


def test_damaged_vectors_are_made_anew_in_a_folder_of_our_own_alone(tmp_path, home):
    for folder in (home / "chroma", tmp_path / "theirs"):
        folder.mkdir(parents=True)
        (folder / "chroma.sqlite3").write_bytes(bytes(range(256)) * 40)
    vectors = Vectors(home / "chroma", "kept")
    vectors.put(["a"], np.eye(1, 4, dtype=np.float32))
    assert vectors.ids() == {"a"}
    with pytest.raises(UserError, match="name another folder"):
        Vectors(tmp_path / "theirs", "kept")
    assert (tmp_path / "theirs" / "chroma.sqlite3").exists()


def test_a_long_text_is_cut_as_if_at_once(monkeypatch):
    text = " ".join(f"word{i},\n  naïve 漢字 🙂{i}" for i in range(400))
    whole = Chunking(32, 4).spans(text)
    monkeypatch.setattr("stategate.stores.corpus.chunking._PART", 50)
    assert Chunking(32, 4).spans(text) == whole
