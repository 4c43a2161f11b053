"""The one writer: all of a file or nothing, under a name of its own, with one line for a full disk."""

import json
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from stategate.stores.errors import UserError
from stategate.stores.files import atomic_path, write_bytes, write_json, write_lines, write_text
from stategate.stores.home import cache, home


def test_each_kind_of_content_comes_back(tmp_path):
    write_bytes(tmp_path / "new" / "b", b"\x00\xff")
    write_text(tmp_path / "t", "é\r\n\ud83d")
    write_json(tmp_path / "j", {"é": [1]})
    assert write_lines(tmp_path / "l", [{"a": 1}, {"b": "\u2028"}]) == 2
    assert (tmp_path / "new" / "b").read_bytes() == b"\x00\xff"
    assert (tmp_path / "t").read_bytes() == "é\r\n?".encode()
    assert json.loads((tmp_path / "j").read_text("utf-8")) == {"é": [1]}
    assert (tmp_path / "l").read_text("utf-8").split("\n")[1] == '{"b": "\u2028"}'


def test_a_failure_leaves_the_target_and_nothing_else(tmp_path):
    target = tmp_path / "rows.jsonl"
    write_text(target, "old")

    def rows():
        yield {"a": 1}
        raise RuntimeError("killed here")

    with pytest.raises(RuntimeError):
        write_lines(target, rows())

    def full():
        yield {"a": 1}
        raise OSError(28, "No space left on device")

    with pytest.raises(UserError, match=r"cannot write '.*rows.jsonl' \(No space left"):
        write_lines(target, full())
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]
    with pytest.raises(UserError, match="name another file"):
        write_text(tmp_path / "rows.jsonl" / "below", "x")


def test_a_folder_takes_the_place_of_a_folder(tmp_path):
    target = tmp_path / "index"
    for word in ("one", "two"):
        with atomic_path(target) as partial:
            partial.mkdir()
            (partial / word).touch()
    assert [path.name for path in target.iterdir()] == ["two"]


def test_a_link_stays_and_a_pipe_is_written_to(tmp_path):
    file, link, pipe = (tmp_path / name for name in ("file", "link", "pipe"))
    file.write_text("old")
    link.symlink_to("file")
    write_text(link, "new")
    assert (link.is_symlink(), file.read_text()) == (True, "new")
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(pipe.read_text)
        write_json(pipe, {"a": 1})
        assert read.result(10) == '{"a": 1}\n'
    assert pipe.is_fifo()
    assert {path.name for path in tmp_path.iterdir()} == {"file", "link", "pipe"}


def test_threads_that_write_one_file_at_once_leave_one_whole_file(tmp_path):
    target, texts = tmp_path / "x", [str(i) * 200_000 for i in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda text: write_text(target, text), texts))
    assert target.read_text() in texts
    assert list(tmp_path.iterdir()) == [target]


def test_one_variable_names_both_else_each_lies_at_the_system_s_place(tmp_path, monkeypatch):
    monkeypatch.setenv("STATEGATE_HOME", str(tmp_path / "mine"))
    assert home() == cache() == tmp_path / "mine"
    monkeypatch.delenv("STATEGATE_HOME")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert (home(), cache()) == (tmp_path / "data/stategate", tmp_path / "cache/stategate")
