"""The doctor says of each thing what is wrong and what to do about it."""

import shutil
from collections import namedtuple

import pytest

from stategate.stores.home import home
from stategate.stores.traces import Event
from stategate.stores.traces.store import TraceStore
from stategate.ui.cli import doctor
from stategate.ui.cli.doctor import DoctorSettings


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("STATEGATE_HOME", str(tmp_path))
    for name in ("STATEGATE_POSTGRES", "STATEGATE_CHROMA"):
        monkeypatch.delenv(name, raising=False)


def told(name, *overrides, deep=False):
    """Return what the check ``name`` says."""
    settings = DoctorSettings(overrides=overrides, deep=deep)
    return [(one.what, one.ok, one.text) for one in doctor.CHECKS[name](settings)]


def test_a_damaged_store_is_named_with_what_to_do():
    assert told("stores") == [("stores", None, "none yet")]
    path = home() / "traces.sqlite"
    TraceStore(path).write_step("e", 0, [Event("OBS", "x" * 30_000, 0)])
    ((what, ok, text),) = told("stores")
    assert (what, ok) == ("stores", True)
    assert "1 databases are whole" in text
    (home() / "long_term.sqlite").write_bytes(b"no database at all " * 100)
    found = told("stores")
    assert found[0][1] is False
    assert "long_term.sqlite is damaged" in found[0][2]
    assert "restore a backup" in found[0][2]


def test_a_server_that_is_named_and_not_there_is_wrong(monkeypatch):
    assert told("servers") == []
    monkeypatch.setenv("STATEGATE_POSTGRES", "postgresql://ann:secret7@127.0.0.1:9/none")
    ((what, ok, text),) = told("servers")
    assert (what, ok) == ("postgresql", False)
    assert "start it" in text
    assert "secret7" not in text


def test_servers_that_answer_are_well(monkeypatch, postgres, chroma):
    monkeypatch.setenv("STATEGATE_POSTGRES", postgres)
    monkeypatch.setenv("STATEGATE_CHROMA", chroma)
    assert [(what, ok) for what, ok, _ in told("servers")] == [
        ("postgresql", True),
        ("chroma", True),
    ]


def test_a_model_without_its_key_and_an_embedder_without_its_packages(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    unkeyed = DoctorSettings(overrides=("llm={kind: openai}", "embedder.kind=hashing"))
    wrong = [one.text for one in doctor.findings(unkeyed) if one.ok is False]
    assert "OPENAI_API_KEY" in " ".join(wrong)
    monkeypatch.setattr("stategate.ui.cli.doctor.find_spec", lambda name: None)
    found = told("models", "llm={kind: embedded}")
    assert [(what, ok) for what, ok, _ in found] == [("model", False), ("embedder", False)]
    assert all("stategate[local]" in text for _, _, text in found)


def test_deep_asks_for_real():
    fake = ["llm={kind: fake, replies: ['yes']}", "embedder.kind=hashing"]
    found = told("models", *fake, deep=True)
    assert [(what, ok) for what, ok, _ in found] == [("model", True), ("embedder", True)]
    assert "numbers a text" in found[1][2]


def test_a_full_disk_is_wrong(monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage(1 << 40, 1 << 40, 5_000_000))
    found = told("home")
    assert {ok for _, ok, _ in found} == {False}
    assert "checkpoints prune" in found[0][2]
