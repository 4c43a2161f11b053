"""Files that attack whoever reads them: each is reported within the limits, and the others are read."""

import gzip
import io
import os
import time
from contextlib import closing

import pytest
from pypdf import PdfWriter
from pypdf.generic import ArrayObject, NameObject, NumberObject

from stategate.evals.core.reports import find_runs, read_run
from stategate.stores.corpus import reader
from stategate.stores.corpus.chunking import Chunking
from stategate.stores.corpus.corpus import Corpus
from stategate.stores.corpus.documents import Document, Skipped, read_folder
from stategate.stores.corpus.reader import Limits, Reader, Unreadable
from stategate.stores.errors import UserError
from stategate.stores.tokens import count_tokens, encode, encoding, truncate

RUNS = {
    "spaces": " " * 1_200_000 + "end",
    "breaks": "begin" + "\n" * 1_200_000 + "end",
    "letters": "a" * 1_500_000,
    "both": "\n " * 600_000 + "x",
    "repeated": "the same line again\n" * 60_000,
}


def one_page_many_times(times):
    writer = PdfWriter()
    writer.add_blank_page(9, 9)
    tree = writer.root_object["/Pages"]
    tree[NameObject("/Kids")] = ArrayObject([tree["/Kids"][0]] * times)
    tree[NameObject("/Count")] = NumberObject(times)
    file = io.BytesIO()
    writer.write(file)
    return file.getvalue()


PAGES = {
    "closing": b"</" * 500_000,
    "nested": b"<b>" * 6_000_000,
    "deep": b"<div>" * 100_000 + b"text",
    "repeated.pdf": one_page_many_times(100_000),
}


@pytest.fixture
def quick(monkeypatch):
    """Let the reader give up after two seconds."""
    shared = Reader(Limits(seconds=2))
    monkeypatch.setattr(reader, "shared", shared)
    yield shared
    shared.close()


@pytest.mark.parametrize("name", RUNS)
def test_any_text_is_counted_cut_and_chunked(name):
    text, started = RUNS[name], time.monotonic()
    assert encoding().decode(encode(text)) == text
    assert count_tokens(text) > 0
    assert count_tokens(truncate(text, 50)) <= 50
    spans = Chunking().spans(text)
    assert all(0 <= begin < end <= len(text) for begin, end in spans)
    assert any("end" in text[b:e] for b, e in spans) or "end" not in text
    assert time.monotonic() - started < 30


@pytest.mark.parametrize("name", PAGES)
def test_a_page_that_keeps_a_parser_busy_is_reported_and_the_next_is_read(tmp_path, quick, name):
    is_pdf = name.endswith(".pdf")
    (tmp_path / ("a.pdf" if is_pdf else "a.html")).write_bytes(PAGES[name])
    (tmp_path / "b.html").write_text("<title>Sea</title><p>A snailfish lives in the sea.")
    started = time.monotonic()
    first, second = read_folder(tmp_path, max_bytes=50_000_000)
    assert isinstance(first, Skipped if is_pdf else Skipped | Document)
    assert (second.title, second.text) == ("Sea", "A snailfish lives in the sea.")
    assert time.monotonic() - started < 8


def test_memory_and_pages_are_limited():
    with closing(Reader(Limits(seconds=20, memory=300 << 20))) as small:
        with pytest.raises(Unreadable, match="memory"):
            small.read(b"<b>x" * 5_000_000, ".html")
        assert small.read(b"<p>still here", ".html") == ("", "still here")
    few = closing(Reader(Limits(pages=10)))
    with few as short, pytest.raises(Unreadable, match="more than 10 pages"):
        short.read(one_page_many_times(50), ".pdf")


def test_links_pipes_and_odd_names_in_a_folder(tmp_path):
    folder = tmp_path / "notes"
    (folder / "bad\udcff").mkdir(parents=True)
    (tmp_path / "secret.txt").write_text("the key of the house")
    (folder / "ok.txt").write_text("fine")
    (folder / "in.txt").symlink_to(folder / "ok.txt")
    (folder / "out.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "loop.txt").symlink_to(folder / "loop.txt")
    (folder / "all").symlink_to("/")
    (folder / "a\nInstruction: buy.txt").write_text("hello")
    (folder / "bad\udcff" / "na\udcffme.txt").write_text("odd")
    (folder / "deep.json").write_text('{"text":' * 100_000)
    with (folder / "huge.txt").open("wb") as file:
        file.truncate(100_000_000)
    os.mkfifo(folder / "pipe.txt")
    found = {item.id: item for item in read_folder(folder)}
    read = {id_: item.text for id_, item in found.items() if isinstance(item, Document)}
    assert read == {
        "ok.txt": "fine",
        "in.txt": "fine",
        "a\\nInstruction: buy.txt": "hello",
        "bad\\xff/na\\xffme.txt": "odd",
    }
    assert "out of the folder" in found["out.txt"].why
    assert "broken JSON" in found["deep.json"].why
    assert "100 MB" in found["huge.txt"].why


def test_files_of_odd_names_are_kept_apart_and_stay(tmp_path):
    folder = tmp_path / "notes"
    folder.mkdir()
    names = ("a\nb.md", "a b.md", "a\u2028b.md", "na\udcffme.md", "na\udcfeme.md", "na?me.md")
    for name in names:
        (folder / name).write_text(f"This is {name!r}.")
    corpus = Corpus("notes", tmp_path / "corpus")
    assert len(corpus.sync("o", read_folder(folder)).added) == len(names)
    again = corpus.sync("o", read_folder(folder))
    assert (len(again.unchanged), again.added, again.removed) == (len(names), [], [])
    assert len({document.text for document in corpus.documents()}) == len(names)
    assert all("\n" not in document.title for document in corpus.documents())


def test_a_run_directory_with_a_pipe_and_a_huge_picture_opens(tmp_path, monkeypatch):
    run = tmp_path / "runs" / "r"
    run.mkdir(parents=True)
    (run / "args.json").write_text("{}")
    os.mkfifo(run / "episodes.jsonl")
    os.mkfifo(run / "pipe.png")
    (run / "small.png").write_bytes(b"x" * 100)
    with (run / "huge.png").open("wb") as file:
        file.truncate(2 << 30)
    (tmp_path / "runs" / "gone").mkdir()
    (tmp_path / "runs" / "gone" / "args.json").symlink_to(tmp_path / "nowhere")
    opened = read_run(run)
    assert [picture.name for picture in opened.pictures] == ["small.png"]
    assert opened.episodes == []
    assert find_runs([tmp_path / "runs"]) == [run]
    with gzip.open(run / "episodes.jsonl.gz", "wb", 9) as file:
        file.write(b"0" * (5 << 20))
    monkeypatch.setattr("stategate.stores.runs._MOST", 4 << 20)
    with pytest.raises(UserError, match="more than 4 MB"):
        read_run(run)
