from pathlib import Path

import pytest

from stategate.envs.webshop import data
from stategate.envs.webshop.data import FILES, DataFile, fetch
from stategate.stores.assets import downloads
from stategate.stores.assets.downloads import SourceError, sha256
from stategate.stores.errors import UserError

SAMPLE = Path(data.__file__).parent / "sample"
NAMES = {file.name for file in FILES}


def official(monkeypatch):
    """Make the sample's files the official ones, and a publisher that serves them."""
    files = tuple(
        DataFile(f.name, f.name, sha256(SAMPLE / f.name), (SAMPLE / f.name).stat().st_size)
        for f in FILES
    )
    served = {f.name: SAMPLE / f.name for f in FILES}

    def download(url, target, *_, **__):
        name = next(n for n in served if f"id={n}&" in url)
        target.write_bytes(served[name].read_bytes())

    monkeypatch.setattr(data, "FILES", files)
    monkeypatch.setattr(downloads, "download", download)
    return served


def test_local_files_are_copied(tmp_path):
    fetched = fetch(tmp_path / "webshop", SAMPLE)
    assert {p.name for p in (tmp_path / "webshop").iterdir()} == NAMES
    assert [p.name for p in tmp_path.iterdir()] == ["webshop"]
    assert all(path.read_bytes() == (SAMPLE / path.name).read_bytes() for path in fetched)
    assert not any(fetched.values())


def test_downloads_are_checked_and_official(tmp_path, monkeypatch):
    official(monkeypatch)
    fetched = fetch(tmp_path / "webshop")
    assert all(fetched.values())
    assert [p.name for p in tmp_path.iterdir()] == ["webshop"]
    monkeypatch.setattr(downloads, "download", None)  # nothing is fetched a second time
    assert fetch(tmp_path / "webshop") == fetched


def test_a_download_with_another_hash_is_refused(tmp_path, monkeypatch):
    served = official(monkeypatch)
    served["items_human_ins.json"] = tmp_path / "page.html"
    served["items_human_ins.json"].write_text("<html>quota exceeded</html>")
    with pytest.raises(
        UserError, match=r"items_human_ins.json arrived with SHA-256 .*--from FOLDER"
    ):
        fetch(tmp_path / "webshop")
    assert not (tmp_path / "webshop").exists()


def test_no_network_names_the_way_out(tmp_path, monkeypatch):
    def unreachable(*_, **__):
        raise SourceError("unreachable")

    monkeypatch.setattr(downloads, "download", unreachable)
    with pytest.raises(UserError, match=r"unreachable\): .*--from FOLDER"):
        fetch(tmp_path / "webshop")
    assert list(tmp_path.iterdir()) == []


def broken(folder, name, text):
    folder.mkdir()
    for file in FILES:
        (folder / file.name).write_bytes((SAMPLE / file.name).read_bytes())
    (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("items_shuffle_1000.json", "[{", "cannot read"),
        ("items_shuffle_1000.json", "{}", "a list of items"),
        ("items_ins_v2_1000.json", "[]", "their attributes"),
        ("items_human_ins.json", "[{", "cannot read"),
    ],
)
def test_bad_local_files_change_nothing(tmp_path, name, text, problem):
    fetch(tmp_path / "webshop", SAMPLE)
    before = {p.name: p.read_bytes() for p in (tmp_path / "webshop").iterdir()}
    with pytest.raises(UserError, match=problem) as caught:
        fetch(tmp_path / "webshop", broken(tmp_path / "bad", name, text))
    assert "\n" not in str(caught.value)
    assert {p.name: p.read_bytes() for p in (tmp_path / "webshop").iterdir()} == before


def test_missing_local_files_are_named(tmp_path):
    with pytest.raises(UserError, match=r"has no items_shuffle_1000.json, .*--from"):
        fetch(tmp_path / "webshop", tmp_path)
    assert not (tmp_path / "webshop").exists()
