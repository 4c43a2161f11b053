"""What starts the app elsewhere: compose.yaml is whole, and the Dockerfile installs as make does."""

import json
import re
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))
#: Of the Compose Specification, what a service may have.
KEYS = set(
    "build image environment ports volumes secrets depends_on read_only tmpfs cap_drop security_opt"
    " restart healthcheck command user".split()
)


def test_every_service_is_whole_and_waits_for_what_it_needs():
    services = COMPOSE["services"]
    assert set(services) == {"app", "postgres", "chroma"}
    assert set(COMPOSE) <= {"services", "volumes", "secrets"}
    for name, service in services.items():
        assert set(service) <= KEYS, name
        assert ("image" in service) != ("build" in service)
        for volume in service.get("volumes", ()):
            assert volume.partition(":")[0] in COMPOSE["volumes"], volume
        for secret in service.get("secrets", ()):
            assert secret in COMPOSE["secrets"]
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
    assert "--auth" in words


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
