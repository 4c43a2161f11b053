"""The two folders: named by one variable, else the system's; data of before is found where it is."""

import pytest

from stategate.stores.home import cache, home


@pytest.fixture
def old(tmp_path, monkeypatch):
    """Somebody's folder of before, with a bank and a download."""
    monkeypatch.delenv("STATEGATE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / ".cache"))
    folder = tmp_path / ".cache" / "stategate"
    (folder / "banks").mkdir(parents=True)
    (folder / "assets").mkdir()
    return folder


def test_one_variable_names_both(old, tmp_path, monkeypatch):
    monkeypatch.setenv("STATEGATE_HOME", str(tmp_path / "mine"))
    assert home() == cache() == tmp_path / "mine"


def test_data_of_before_is_used_where_it_is_until_there_is_other(old, tmp_path):
    assert home() == cache() == old
    (tmp_path / "data" / "stategate" / "banks").mkdir(parents=True)
    assert home() == tmp_path / "data" / "stategate"
    assert cache() == old
