"""The two folders: named by one variable, else the system's."""

from stategate.stores.home import cache, home


def test_one_variable_names_both_else_each_lies_at_the_system_s_place(tmp_path, monkeypatch):
    monkeypatch.setenv("STATEGATE_HOME", str(tmp_path / "mine"))
    assert home() == cache() == tmp_path / "mine"
    monkeypatch.delenv("STATEGATE_HOME")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert (home(), cache()) == (tmp_path / "data/stategate", tmp_path / "cache/stategate")
