"""Models: clients of servers, embedders, the embedded llama.cpp server on the small model."""

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from langchain_core.messages import HumanMessage

from stategate.graph import Session, build_graph, load_config
from stategate.nodes.models import server as module
from stategate.nodes.models.embedders import (
    Hashing,
    MiniLM,
    OpenAIEmbedder,
    SentenceTransformers,
)
from stategate.nodes.models.llms import EmbeddedLlm, OpenAILlm
from stategate.nodes.models.server import LlamaServer, serve
from stategate.nodes.resources import Resources
from stategate.stores.assets.fetch import ASSETS, asset_path
from stategate.stores.errors import UserError
from tests.kit import Request, completion, http_server


def answer(request: Request) -> tuple[int, str, bytes]:
    """Answer as much as these tests ask of an OpenAI server."""
    body = json.loads(request.body)
    if not request.path.endswith("/embeddings"):
        return 200, "application/json", json.dumps(completion("hello", 3)).encode()
    rows = [
        {"object": "embedding", "index": i, "embedding": [float(len(text)), 1.0, 0.0]}
        for i, text in enumerate(body["input"])
    ]
    listed = {"object": "list", "data": rows, "model": "m", "usage": {}}
    return 200, "application/json", json.dumps(listed).encode()


@pytest.fixture
def openai_server() -> Iterator[tuple[str, list[Request]]]:
    with http_server(answer) as (url, asked):
        yield f"{url}/v1", asked


def test_openai_sends_only_to_its_base_url(
    openai_server: tuple[str, list[Request]], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, asked = openai_server
    monkeypatch.setenv("OPENAI_API_BASE", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("MY_KEY", "k1")
    model = OpenAILlm(model="m", base_url=url, api_key_env="MY_KEY", seed=3).build(Resources())
    answer = model.invoke([HumanMessage("hi")])
    assert answer.content == "hello"
    assert answer.usage_metadata is not None
    assert answer.usage_metadata["input_tokens"] == 3
    headers = {name.lower(): value for name, value in asked[0].headers.items()}
    body, key = json.loads(asked[0].body), headers["authorization"]
    assert (asked[0].path, key) == ("/v1/chat/completions", "Bearer k1")
    assert (body["temperature"], body["seed"]) == (0.0, 3)


def test_keys_are_wanted_elsewhere_and_not_on_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    OpenAILlm(base_url="http://localhost:8000/v1").build(Resources())
    with pytest.raises(UserError, match="set the environment variable OPENAI_API_KEY"):
        OpenAILlm().build(Resources())
    with pytest.raises(UserError, match="STATEGATE_KEYS='K@example.com'"):
        OpenAIEmbedder(base_url="https://example.com/v1", api_key_env="K").build(Resources())
    monkeypatch.setenv("STATEGATE_KEYS", "K@example.com")
    with pytest.raises(UserError, match="set the environment variable K"):
        OpenAIEmbedder(base_url="https://example.com/v1", api_key_env="K").build(Resources())


def test_hashing_embeds_shared_words_near_each_other() -> None:
    embedder = Hashing(dimension=512).build(Resources())
    red, also_red, other, empty = embedder.embed(["a red shoe", "Red SHOE", "green lamp", ""])
    assert red @ also_red > 0.7 > 0.2 > abs(red @ other)
    norms = np.linalg.norm(embedder.embed(["a", "b c", "", "?!"]), axis=1)
    assert norms == pytest.approx(1)
    assert empty.dtype == np.float32
    assert embedder.embed([]).shape == (0, 512) == (0, embedder.dimension)


def test_openai_embeddings_are_unit_rows_and_asked_once(
    openai_server: tuple[str, list[Request]], home: Path
) -> None:
    url, asked = openai_server
    embedder = OpenAIEmbedder(model="m", base_url=url, dimension=3).build(Resources())
    rows = embedder.embed(["abc", "", "abc"])
    assert np.linalg.norm(rows, axis=1) == pytest.approx(1)
    assert np.array_equal(rows[0], rows[2])
    embedder.embed(["abc"])
    assert [json.loads(one.body)["input"] for one in asked] == [["abc", " "]]


_KNOWN_TEXT = """
import sys
from stategate.nodes.models.embedders import MiniLM
from stategate.nodes.resources import Resources
embedder = MiniLM().build(Resources())
assert embedder.embed([]).shape == (0, 384)
sys.stdout.buffer.write(embedder.embed(["a red shoe"]).tobytes())
assert "torch" not in sys.modules, "a cached text loaded torch"
"""


@pytest.mark.slow
def test_minilm_gives_the_same_bytes_beside_other_texts_and_loads_nothing_for_known_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not ASSETS["minilm"].is_verified:
        pytest.skip("the asset minilm is not here: fetch it with stategate doctor --fetch")
    from stategate.stores.home import cache

    (tmp_path / "assets").symlink_to(cache() / "assets")
    monkeypatch.setenv("STATEGATE_HOME", str(tmp_path))
    embedder = MiniLM().build(Resources())
    alone = embedder.embed(["a red shoe"])
    run = [sys.executable, "-c", _KNOWN_TEXT]
    known = subprocess.run(run, capture_output=True, check=True, timeout=120).stdout
    assert known == alone.tobytes()
    (tmp_path / "embeddings.sqlite").rename(tmp_path / "old.sqlite")
    from stategate.stores.embeddings import _open

    _open.cache_clear()  # a new process would open a new file
    batch = (
        MiniLM()
        .build(Resources())
        .embed(
            ["a red shoe", "crimson footwear", "the history of Rome and of its many, many emperors"]
        )
    )
    assert batch[:1].tobytes() == alone.tobytes()
    assert np.linalg.norm(batch, axis=1) == pytest.approx(1)
    assert batch[0] @ batch[1] > batch[0] @ batch[2] + 0.2
    (tmp_path / "embeddings.sqlite").rename(tmp_path / "older.sqlite")
    _open.cache_clear()
    many = ["a red shoe", *(f"text {i} of {'many ' * i}" for i in range(64))]
    bulk = MiniLM().build(Resources()).embed(many)
    assert bulk[:1].tobytes() == alone.tobytes()
    assert np.linalg.norm(bulk, axis=1) == pytest.approx(1)


def test_any_model_of_sentence_transformers_embeds_and_a_wrong_one_is_one_line():
    texts = ["a red shoe", "crimson footwear"]
    folder = str(asset_path("minilm"))
    rows = SentenceTransformers(model=folder).build(Resources()).embed(texts)
    assert (rows * MiniLM().build(Resources()).embed(texts)).sum(axis=1).min() > 0.995
    with pytest.raises(UserError, match=r"returned 384 dimensions: set embedder\.dimension=384"):
        SentenceTransformers(model=folder, dimension=8).build(Resources()).embed(texts)
    with pytest.raises(UserError, match="cannot load the model 'no/folder/here'"):
        SentenceTransformers(model="no/folder/here").build(Resources()).embed(texts)


ENUM = [f"click[item {n}]" for n in range(20)]


def answers(server: LlamaServer) -> bool:
    return server.process.poll() is None and bool(
        module._longest_context(server.base_url, server.api_key)
    )


@pytest.fixture(scope="module")
def model() -> Path:
    try:
        return asset_path("smollm2-135m")
    except UserError as error:
        pytest.skip(f"the small model cannot be had: {error}")


@pytest.fixture(scope="module")
def server(model: Path) -> Iterator[LlamaServer]:
    running = serve(model, n_ctx=2048, threads=1)
    yield running
    module._end(running.process)


@pytest.mark.model
def test_only_the_key_opens_it_and_a_larger_one_runs_beside_it(server: LlamaServer) -> None:
    request = urllib.request.Request(f"{server.base_url}/chat/completions", data=b"{}")
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=10)
    assert caught.value.code == 401
    assert server.api_key not in repr(server)
    assert answers(server)
    larger = serve(server.model, n_ctx=4096, threads=1)
    assert larger is not server
    assert answers(larger)
    module._end(larger.process)
    module._end(larger.process)
    assert not answers(larger)


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


_EXIT = """
import os, sys, threading, time
from stategate.nodes.models.llms import EmbeddedLlm
from stategate.nodes.models.server import serve
from pathlib import Path
from stategate.nodes.resources import Resources
llm = EmbeddedLlm(model=sys.argv[1], n_ctx=1024, max_tokens=800, threads=1).build(Resources())
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
    with pytest.raises(UserError, match=r"is not a GGUF model|could not load .*m\.gguf"):
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
        serve(model, n_ctx=10_000)
    monkeypatch.setattr(module, "_available_memory", lambda: 200_000_000)
    with pytest.raises(UserError, match=r"needs about 0\.7 GB of memory and 0\.2 GB"):
        serve(model, n_ctx=8192)


@pytest.mark.model
def test_an_episode_with_the_small_model_goes_on_when_its_server_dies(tmp_path, model):
    trace = f"memory=[short_term, {{kind: trace, path: {tmp_path}/t.db}}]"
    config = load_config("smoke", [trace, "max_steps=2", "llm.threads=1"])
    here = Session(build_graph(config), "smoke", task={"env": "webshop", "goal": 3})
    steps = [here.step()]
    module._end(serve(model, n_ctx=256).process)
    steps += here.run()
    assert here.done
    assert len(steps) == 2
    assert steps[0].decision.action.startswith("search[")
    for step in steps:
        assert step.decision.tokens_in > 0
        assert step.decision.cost == 0.0
        action = step.decision.action
        is_legal = action in step.context.actions or action.startswith("search[")
        assert is_legal or step.decision.fallback is not None
