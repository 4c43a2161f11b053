"""The embedded llama.cpp server, on the small model where it is needed."""

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from stategate.nodes.models import server as module
from stategate.nodes.models.llms import EmbeddedLlm
from stategate.nodes.models.server import LlamaServer, serve
from stategate.nodes.resources import Resources
from stategate.stores.assets.fetch import asset_path
from stategate.stores.errors import UserError

ENUM = [f"click[item {n}]" for n in range(60)]


def answers(server: LlamaServer) -> bool:
    return not server.is_over() and module._answers(server.base_url, server.api_key)


@pytest.fixture(scope="module")
def model() -> Path:
    try:
        return asset_path("smollm2-135m")
    except UserError as error:
        pytest.skip(f"the small model cannot be had: {error}")


@pytest.fixture(scope="module")
def server(model: Path) -> Iterator[LlamaServer]:
    running = serve(model, n_ctx=2048)
    yield running
    running.stop()


@pytest.mark.model
def test_only_the_key_opens_it_and_nothing_shows_the_key(server: LlamaServer) -> None:
    request = urllib.request.Request(f"{server.base_url}/chat/completions", data=b"{}")
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=10)
    assert caught.value.code == 401
    assert server.api_key not in repr(server)
    assert answers(server)


@pytest.mark.model
def test_answers_obey_a_schema_count_tokens_and_reuse_the_prefix(server: LlamaServer) -> None:
    llm = EmbeddedLlm(model=str(server.model), n_ctx=2048, max_tokens=40).build(Resources())
    schema = {
        "type": "object",
        "properties": {"action": {"type": "string", "enum": ENUM}},
        "required": ["action"],
        "additionalProperties": False,
    }
    form = {"type": "json_schema", "json_schema": {"name": "action", "schema": schema}}
    prompt = "A shop sells lamps and chairs. " * 20 + "Choose an action. "
    first = llm.invoke(prompt + "Now.", response_format=form)
    assert json.loads(str(first.content))["action"] in ENUM
    second = llm.invoke(prompt + "Please.", response_format=form)
    usage = second.usage_metadata
    assert usage is not None
    assert usage["output_tokens"] <= 40
    assert usage["input_token_details"]["cache_read"] > usage["input_tokens"] - 30 > 100


@pytest.mark.model
def test_a_stopped_server_is_gone_and_the_next_one_is_new(model: Path) -> None:
    first = serve(model, n_ctx=4096)  # larger than the one that runs
    first.stop()
    first.stop()
    assert not answers(first)
    second = serve(model, n_ctx=4096)
    assert second is not first
    assert answers(second)
    second.stop()


_EXIT = """
import os, sys, threading, time
from stategate.nodes.models.llms import EmbeddedLlm
from stategate.nodes.models.server import serve
from pathlib import Path
from stategate.nodes.resources import Resources
llm = EmbeddedLlm(model=sys.argv[1], n_ctx=1024, max_tokens=800).build(Resources())
llm.bind(max_tokens=2).invoke("hi")
threading.Thread(target=llm.invoke, args=("Write a long story.",), daemon=True).start()
time.sleep(0.3)
print(serve(Path(sys.argv[1]), n_ctx=1024).process.pid, flush=True)
if sys.argv[2] == "killed":
    os.kill(os.getpid(), 9)
"""


@pytest.mark.model
@pytest.mark.parametrize(("how", "code"), [("by itself", 0), ("killed", -9)])
def test_the_server_goes_with_its_process_in_mid_answer(model: Path, how: str, code: int) -> None:
    run = [sys.executable, "-c", _EXIT, str(model), how]
    done = subprocess.run(run, capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stderr
    pid = int(done.stdout)  # and nothing else on standard output
    assert "llama" not in done.stderr
    deadline = time.monotonic() + 20
    while _alive(pid):
        assert time.monotonic() < deadline, "the server outlived its process"
        time.sleep(0.05)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_a_missing_file() -> None:
    with pytest.raises(UserError, match=r"no model file at .*none\.gguf"):
        EmbeddedLlm(model="none.gguf").build(Resources())


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04 a zip", b"GGUF", b"GGUF" + b"\xff" * 200])
def test_a_file_that_is_no_model(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "m.gguf").write_bytes(data)
    with pytest.raises(UserError, match="is not a whole GGUF model"):
        serve(tmp_path / "m.gguf")


@pytest.mark.model
def test_a_file_cut_short(tmp_path: Path, model: Path) -> None:
    with model.open("rb") as stream:
        (tmp_path / "m.gguf").write_bytes(stream.read(3_000_000))
    with pytest.raises(UserError, match=r"could not load .*m\.gguf \(.*(bounds|incomplete|failed)"):
        serve(tmp_path / "m.gguf")


@pytest.mark.model
def test_too_little_memory_and_too_long_a_context(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match="reads at most 8192 tokens"):
        serve(model, n_ctx=1_000_000)
    monkeypatch.setattr(module, "_available_memory", lambda: 200_000_000)
    with pytest.raises(UserError, match=r"needs about 0\.6 GB of memory and 0\.2 GB"):
        serve(model, n_ctx=8192)
