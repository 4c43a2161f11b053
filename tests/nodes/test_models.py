import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from langchain_core.messages import HumanMessage

from stategate.nodes.models.embedders import BULK, Hashing, MiniLM, OpenAIEmbedder
from stategate.nodes.models.llms import FakeLlm, OpenAILlm
from stategate.nodes.resources import Resources
from stategate.stores.assets.fetch import ASSETS
from stategate.stores.errors import ModelUnavailable, UserError
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


@pytest.fixture
def empty_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STATEGATE_HOME", str(tmp_path))
    return tmp_path


def test_the_fake_speaks_its_replies_in_order() -> None:
    model = Resources(llm=FakeLlm(replies=("one", "two"))).llm
    said = [model.bind(response_format={"type": "text"}).invoke("hi").content for _ in range(3)]
    assert said == ["one", "two", "one"]


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
    openai_server: tuple[str, list[Request]], empty_home: Path
) -> None:
    url, asked = openai_server
    embedder = OpenAIEmbedder(model="m", base_url=url, dimension=3).build(Resources())
    rows = embedder.embed(["abc", "", "abc"])
    assert np.linalg.norm(rows, axis=1) == pytest.approx(1)
    assert np.array_equal(rows[0], rows[2])
    embedder.embed(["abc"])
    assert [json.loads(one.body)["input"] for one in asked] == [["abc", " "]]


def test_a_dead_embedding_server_is_one_line(empty_home: Path) -> None:
    embedder = OpenAIEmbedder(base_url="http://127.0.0.1:9/v1").build(Resources())
    with pytest.raises(ModelUnavailable, match="does not answer"):
        embedder.embed(["abc"])


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
def test_minilm_gives_the_same_bytes_beside_a_few_texts_and_loads_nothing_for_known_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not ASSETS["minilm"].is_present:
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
    many = ["a red shoe", *(f"text {i} of {'many ' * i}" for i in range(BULK))]
    bulk = MiniLM().build(Resources()).embed(many)
    assert np.abs(bulk[0] - alone[0]).max() < 1e-5
    assert np.linalg.norm(bulk, axis=1) == pytest.approx(1)
