"""A backup restored into an empty home holds what every store held."""

import io
import tarfile

import numpy as np
import pytest

from stategate.graph import Session, build_graph, load_config
from stategate.stores.backup import back_up, restore
from stategate.stores.corpus.corpus import Corpus, open_corpus
from stategate.stores.corpus.documents import Document
from stategate.stores.errors import UserError
from stategate.stores.home import home
from stategate.stores.memory.long_term import open_long_term
from stategate.stores.memory.records import Namespace, Turn
from stategate.stores.traces import Event
from stategate.stores.traces.store import TraceStore


@pytest.fixture
def full(tmp_path, monkeypatch):
    monkeypatch.setenv("STATEGATE_HOME", str(tmp_path / "old"))
    TraceStore(home() / "traces.sqlite").write_step("e", 0, [Event("ACT", "look", 0)])
    Corpus("notes").sync("o", [Document("d", "o", "t", "A snailfish lives deep.")])
    unit = np.ones(4, dtype=np.float32) / 2
    turn = Turn("t", "e", 0, "Where?", "There.", unit, unit, "hashing/4", True, 0.5, (), ())
    open_long_term().write(Namespace(), turn)
    graph = build_graph(
        load_config({"actor": "rule", "checkpoints": str(home() / "checkpoints.sqlite")})
    )
    Session(graph, "t", {"goal": 3}).step()
    return tmp_path


def test_every_store_comes_back(full, monkeypatch):
    files, size = back_up(full / "b.tar.gz")
    assert files >= 4
    assert size > 1000
    monkeypatch.setenv("STATEGATE_HOME", str(full / "new"))
    assert restore(full / "b.tar.gz") == files
    assert TraceStore(home() / "traces.sqlite").events("e") == [Event("ACT", "look", 0)]
    assert [d.text for d in open_corpus("notes").documents()] == ["A snailfish lives deep."]
    assert [fact.question for fact in open_long_term().facts(Namespace())] == ["Where?"]
    graph = build_graph(
        load_config({"actor": "rule", "checkpoints": str(home() / "checkpoints.sqlite")})
    )
    assert Session(graph, "t").run()[-1].done
    with pytest.raises(UserError, match="already: set STATEGATE_HOME"):
        restore(full / "b.tar.gz")


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "ui/../../evil", "other.txt"])
def test_an_archive_that_reaches_out_is_refused(full, monkeypatch, name):
    path = full / "evil.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        member = tarfile.TarInfo(name)
        member.size = 4
        archive.addfile(member, io.BytesIO(b"evil"))
    monkeypatch.setenv("STATEGATE_HOME", str(full / "new"))
    with pytest.raises(UserError):
        restore(path)
    assert not list(full.rglob("evil"))


def test_what_is_no_backup_is_one_line(full, monkeypatch):
    monkeypatch.setenv("STATEGATE_HOME", str(full / "new"))
    (full / "b").write_text("no archive")
    for path in (full / "b", full / "missing"):
        with pytest.raises(UserError, match="is it a whole backup"):
            restore(path)


def test_a_restore_that_was_killed_is_ended_by_the_next(tmp_path, monkeypatch):
    from stategate.stores.backup import back_up, restore

    monkeypatch.setenv("STATEGATE_HOME", str(tmp_path / "old"))
    for name in ("banks/a.txt", "corpora/b.txt"):
        (tmp_path / "old" / name).parent.mkdir(parents=True)
        (tmp_path / "old" / name).write_text(name)
    back_up(tmp_path / "b.tar.gz")
    monkeypatch.setenv("STATEGATE_HOME", str(tmp_path / "new"))
    moves = iter([True, True, False])

    real = type(tmp_path).rename

    def rename(self, target):
        if not next(moves, True):
            raise KeyboardInterrupt
        return real(self, target)

    monkeypatch.setattr(type(tmp_path), "rename", rename)
    with pytest.raises(KeyboardInterrupt):
        restore(tmp_path / "b.tar.gz")
    monkeypatch.undo()
    monkeypatch.setenv("STATEGATE_HOME", str(tmp_path / "new"))
    restore(tmp_path / "b.tar.gz")
    restored = {p.read_text() for p in (tmp_path / "new").rglob("*.txt")}
    assert restored == {"banks/a.txt", "corpora/b.txt"}
    assert not list((tmp_path / "new").glob(".restore*"))
