"""The doctor says of each thing what is wrong and what to do about it."""

import shutil
from collections import namedtuple

import pytest

from stategate.stores.home import home
from stategate.stores.traces import Event
from stategate.stores.traces.store import TraceStore
from stategate.ui.cli.doctor import CHECKS, DoctorSettings, examine

pytestmark = pytest.mark.usefixtures("own_home")


def told(name, *overrides):
    """Return whether the check ``name`` is well, and what it says."""
    finding = examine(name, DoctorSettings(overrides=overrides))
    return finding.ok, finding.text


def test_everything_is_looked_at_without_a_fault():
    assert all("Error:" not in told(name)[1] for name in CHECKS)


def test_a_damaged_store_is_named_with_what_to_do():
    TraceStore(home() / "traces.sqlite").write_step("e", 0, [Event("OBS", "x" * 30_000, 0)])
    assert told("stores")[0]
    (home() / "long_term.sqlite").write_bytes(b"no database at all " * 100)
    ok, text = told("stores")
    assert (ok, "long_term.sqlite" in text) == (False, True)


def test_a_model_without_its_key_and_an_embedder_without_its_packages(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    ok, text = told("model", "llm={kind: openai}")
    assert (ok, "OPENAI_API_KEY" in text) == (False, True)
    assert told("embedder", "embedder.kind=hashing")[0]
    monkeypatch.setattr("stategate.ui.cli.doctor.find_spec", lambda name: None)
    for name in ("embedder", "model"):
        ok, text = told(name)
        assert (ok, "stategate[local]" in text) == (False, True)


def test_a_full_disk_is_wrong(monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage(1 << 40, 1 << 40, 5_000_000))
    ok, text = told("home")
    assert (ok, "checkpoints prune" in text) == (False, True)
