"""What the tests of command line and app share: a home of their own, and a terminal's width."""

import pytest


@pytest.fixture
def own_home(tmp_path, monkeypatch):
    """Keep the user's own traces, memory and checkpoints out of it."""
    folder = tmp_path / "home"
    monkeypatch.setenv("STATEGATE_HOME", str(folder))
    monkeypatch.setenv("COLUMNS", "100")
    return folder
