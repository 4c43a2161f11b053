"""Keys and passwords: sent to the right host or nowhere, and shown nowhere."""

import os

import pytest

from stategate.evals.core.task import Sample, Task, run_task
from stategate.graph import build_graph, load_config
from stategate.graph.checkpoints import open_saver
from stategate.nodes.models.llms import key_from
from stategate.nodes.resources import Resources
from stategate.stores.errors import UserError
from stategate.stores.http import from_environment
from stategate.stores.runs import public_config
from stategate.stores.text import without_password
from stategate.stores.trace_store import TraceStore
from stategate.ui.app.tabs.common import problem_of
from tests.graph.test_graph import TASK, thread

SECRET = "hunter2-very-secret"


@pytest.mark.parametrize(
    ("variable", "url"),
    [
        ("AWS_SECRET_ACCESS_KEY", "https://evil.example/v1"),
        ("OPENAI_API_KEY", "https://evil.example/v1"),
        ("OPENAI_API_KEY", "https://api.openai.com.evil.example/v1"),
        ("OPENAI_API_KEY", "https://api.openai.com@evil.example/v1"),
        ("GITHUB_TOKEN", "https://api.openai.com/v1"),
        ("OPENAI_API_KEY", "http://api.openai.com/v1"),
    ],
)
def test_no_config_sends_a_key_to_another_host_or_unencrypted(monkeypatch, variable, url):
    monkeypatch.setenv(variable, SECRET)
    with pytest.raises(UserError) as error:
        key_from(variable, url)
    assert SECRET not in str(error.value)


@pytest.mark.parametrize(
    "variable", ["AWS_SECRET_ACCESS_KEY", "SSH_PRIVATE_KEY", "HOME", "GITHUB_TOKEN"]
)
def test_what_is_no_models_key_is_not_sent_to_this_machine_either(monkeypatch, variable):
    monkeypatch.setenv(variable, SECRET)
    assert key_from(variable, "http://127.0.0.1:8000/v1") == "none"


def test_a_key_goes_where_it_belongs_and_where_the_person_said(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    assert key_from("OPENAI_API_KEY", "https://api.openai.com/v1") == SECRET
    monkeypatch.setenv("STATEGATE_KEYS", "OPENAI_API_KEY@models.example.org")
    assert key_from("OPENAI_API_KEY", "https://models.example.org/v1") == SECRET


@pytest.mark.parametrize("cut", ["\r\nX-Evil: 1 ", "\n", " ", "é", "\u2028", "\0"])
@pytest.mark.parametrize("url", ["https://api.openai.com/v1", "http://127.0.0.1:8000/v1"])
def test_no_key_brings_a_header_of_its_own(monkeypatch, cut, url):
    monkeypatch.setattr(os, "environ", {"OPENAI_API_KEY": f"{SECRET}{cut}{SECRET}"})
    with pytest.raises(UserError, match="set it anew") as error:
        key_from("OPENAI_API_KEY", url)
    assert SECRET not in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        f"postgresql://me:{SECRET}@host/db",
        f"https://me:{SECRET}@host/v1",
        f"connection to postgresql://me:{SECRET}@host failed",
        f"host=h password={SECRET} dbname=d",
        f"host=h password='a {SECRET}'",
        f"password = {SECRET}",
        f"https://h/x?access_token={SECRET}",
        f"https://h/x?a=1&key={SECRET}",
        f"https://{SECRET * 2}@h/x",
        f"{{'password': '{SECRET}'}}",
        f'"my.api-key": {SECRET}',
        f"Authorization: Bearer {SECRET}",
        f"mongodb+srv://me:{SECRET}@h",
        f"api-key={SECRET}",
        f"incorrect key sk-{SECRET}",
    ],
)
def test_passwords_are_not_shown(text):
    assert SECRET not in without_password(text)
    if "://" in text and " " not in text:
        assert SECRET not in str(public_config({"checkpoints": text, "llm": {"base_url": text}}))


@pytest.mark.parametrize(
    "text",
    [
        "max_tokens=5",
        "unexpected token: }",
        "llm.api_key_env=OPENAI_API_KEY",
        "key=value",
        "'/etc/passwd': name one",
    ],
)
def test_what_is_no_secret_is_shown(text):
    assert without_password(text) == text


def test_a_key_in_place_of_its_variables_name_is_refused_and_not_shown():
    for slot in ("llm", "embedder"):
        with pytest.raises(UserError, match="api_key_env") as error:
            load_config({slot: {"kind": "openai", "api_key_env": SECRET}})
        assert SECRET not in str(error.value)


def test_an_embedding_servers_password_names_no_store(monkeypatch):
    params = {"kind": "openai", "base_url": f"http://me:{SECRET}@127.0.0.1:9/v1"}
    embedder = Resources(None, load_config({"embedder": params}).embedder).embedder
    assert SECRET not in embedder.name
    assert "@127.0.0.1:9/" in embedder.name


@pytest.mark.parametrize("password", [SECRET, f"p@{SECRET}", f"{SECRET}@p", f"p#{SECRET}"])
def test_an_unreachable_database_does_not_tell_its_password(password, tmp_path):
    url = f"postgresql://me:{password}@127.0.0.1:9/db?connect_timeout=2"
    for open_it in (open_saver, TraceStore):
        with pytest.raises(UserError, match=r"\A.+\Z") as error:
            open_it(url)
        assert SECRET not in str(error.value)
    assert SECRET not in str(public_config({"path": url}))


def test_a_config_names_a_database_without_its_password(monkeypatch, tmp_path):
    config = load_config({"actor": "rule", "checkpoints": "$STATEGATE_POSTGRES"})
    with pytest.raises(UserError, match="STATEGATE_POSTGRES is not set"):
        build_graph(config)
    monkeypatch.setenv("STATEGATE_POSTGRES", str(tmp_path / "c.sqlite"))
    assert build_graph(config).invoke(TASK, thread())["done"]
    assert str(tmp_path) not in config.model_dump_json()
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    assert from_environment("$AWS_SECRET_ACCESS_KEY") == "$AWS_SECRET_ACCESS_KEY"


def test_a_plug_in_s_error_tells_no_key(monkeypatch, tmp_path):
    key = "a-key-of-no-known-form-0123"
    monkeypatch.setenv("STRANGERS_API_KEY", key)

    def solver(agent):
        def solve(sample, row):
            raise RuntimeError(f"401 for {key!r}\nof {{'x-key': '{key}'}}")

        return solve

    task = Task(["a"], [Sample({"n": 0}, 0)], solver, lambda rows: ([], []), {"seed": 0})
    run_task(lambda: task, str(tmp_path / "run"))
    kept = b"".join(path.read_bytes() for path in (tmp_path / "run").iterdir())
    assert b"RuntimeError: 401 for" in kept
    assert key.encode() not in kept
    assert key not in problem_of(RuntimeError(key))
    assert key not in str(UserError(f"the server says {key}"))


def test_keys_are_known_by_their_forms():
    for key in ("ghp_" + "a1" * 18, "hf_" + "Ab" * 17, "AKIA" + "A1B2" * 4, "AIza" + "x-" * 18):
        assert without_password(f"refused ({key}).") == "refused (***)."
    assert "hf_hub_download" in without_password("hf_hub_download_to_a_folder_of_yours failed")
