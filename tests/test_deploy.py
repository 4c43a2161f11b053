"""What installs and starts it elsewhere: the wheel, compose.yaml, the Dockerfile."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.kit import call

ROOT = Path(__file__).resolve().parents[1]
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))


def test_every_service_is_whole_and_waits_for_what_it_needs():
    services = COMPOSE["services"]
    assert set(services) == {"app", "postgres", "chroma"}
    assert set(COMPOSE) <= {"services", "volumes"}
    for service in services.values():
        assert ("image" in service) != ("build" in service)
        for volume in service.get("volumes", ()):
            assert volume.partition(":")[0] in COMPOSE["volumes"], volume
        for other, how in service.get("depends_on", {}).items():
            assert how == {"condition": "service_healthy"}
            assert services[other]["healthcheck"]["test"][0] in ("CMD", "CMD-SHELL")


def test_nothing_is_open_to_others_or_more_than_it_needs():
    for service in COMPOSE["services"].values():
        for port in service.get("ports", ()):
            assert port.startswith("127.0.0.1:")
    app = COMPOSE["services"]["app"]
    assert app["read_only"]
    assert app["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in app["security_opt"]
    for value in app["environment"].values():
        assert "password" not in value.lower().replace("${postgres_password", ""), value


def test_variables_that_compose_wants_are_in_the_example():
    text = (ROOT / "compose.yaml").read_text("utf-8")
    named = set(re.findall(r"\$\{([A-Z_]+)", text))
    example = (ROOT / ".env.example").read_text("utf-8")
    told = set(re.findall(r"^([A-Z_]+)=", example, re.MULTILINE))
    assert named <= told, named - told


def test_versions_of_images_are_those_that_the_lock_names():
    lock = (ROOT / "requirements.lock").read_text("utf-8")
    (chroma,) = re.findall(r"^chromadb==([\d.]+)", lock, re.MULTILINE)
    assert COMPOSE["services"]["chroma"]["image"] == f"chromadb/chroma:{chroma}"


def test_the_dockerfile_installs_as_make_does():
    docker = (ROOT / "Dockerfile").read_text("utf-8")
    make = (ROOT / "Makefile").read_text("utf-8").replace("$$", "$")
    torch = "\"$(sed -n 's/^# \\(torch==.*\\)/\\1/p' requirements.lock)\""
    locked = "--no-deps --require-hashes -r requirements.lock"
    for line in (torch, locked):
        assert line in docker
        assert line in make
    assert "USER stategate" in docker
    (start,) = re.findall(r"^CMD (\[.*\])$", docker, re.MULTILINE)
    words = json.loads(start)
    assert words[:4] == ["stategate", "ui", "--config", "cluster"]
    shown = call("ui", "--help")
    for flag in (word for word in words if word.startswith("--")):
        assert flag in shown, flag
    assert COMPOSE["services"]["app"]["environment"]["STATEGATE_AUTH"].startswith(
        "${STATEGATE_AUTH:?"
    )


def test_langgraph_json_names_what_is_there():
    import importlib

    settings = json.loads((ROOT / "langgraph.json").read_text("utf-8"))
    places = [
        *settings["graphs"].values(),
        settings["auth"]["path"],
    ]
    for place in places:
        path, name = place.removeprefix("./").split(":")
        assert hasattr(importlib.import_module(path.removesuffix(".py").replace("/", ".")), name)
    assert settings["checkpointer"]["serde"]["allowed_msgpack_modules"] == []
    assert settings["checkpointer"]["ttl"]["strategy"] == "delete"


BUILD = "from setuptools import build_meta; print(build_meta.build_wheel('dist'))"
#: A user's project: three folders and a module with names that our repository has at its top.
PROJECT = {
    "graph/__init__.py": "WHOSE = 'theirs'\n",
    "nodes/__init__.py": "WHOSE = 'theirs'\n",
    "ui/__init__.py": "WHOSE = 'theirs'\n",
    "stores.py": "WHOSE = 'theirs'\n",
    "main.py": """
import graph, nodes, stores, ui
import stategate
from stategate import WebShop, build_graph, load_config

assert {graph.WHOSE, nodes.WHOSE, stores.WHOSE, ui.WHOSE} == {'theirs'}
agent = build_graph(load_config('webshop-policy', ['updater.kind=none']))
out = agent.invoke({'task': {'env': 'webshop', 'goal': 3}}, {'configurable': {'thread_id': 't'}})
print(stategate.__file__, len(WebShop.load('sample').goals), out['done'], sep='|', flush=True)

from stategate.ui.cli.main import app
app(['run', 'webshop-policy', '--goal', '3', '--set', 'updater.kind=none', '--json', '-'])
""",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Return a folder into which the wheel of this tree was installed."""
    folder = tmp_path_factory.mktemp("wheel")
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    for name in listed.stdout.splitlines():
        if not name.startswith(("tests/", "docs/")) and (ROOT / name).is_file():
            (folder / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / "tree" / name)
    subprocess.run([sys.executable, "-c", BUILD], cwd=folder / "tree", check=True)
    (wheel,) = (folder / "tree" / "dist").glob("*.whl")
    shutil.unpack_archive(wheel, folder / "site", "zip")
    return folder / "site"


def test_the_wheel_holds_one_package(site):
    assert {path.name for path in site.iterdir() if not path.name.endswith(".dist-info")} == {
        "stategate"
    }


def test_a_project_with_folders_of_the_same_names_runs(site, tmp_path):
    for name, text in PROJECT.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    environment = {**os.environ, "PYTHONPATH": str(site), "STATEGATE_HOME": str(tmp_path / "home")}
    done = subprocess.run(
        [sys.executable, "main.py"], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    first, _, played = done.stdout.partition("\n")
    file, goals, is_done = first.split("|")
    assert Path(file).is_relative_to(site)
    assert int(goals) > 0
    assert is_done == "True"
    assert json.loads(played)["config"]["env"]["kind"] == "webshop"
