"""Memory as tools, and the same tools over the Model Context Protocol as a client sees them."""

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stategate.graph.memory_tools import corpus_tool, memory_tools
from stategate.nodes.models.embedders import Hashing

pytest.importorskip("mcp")
pytest.importorskip("uvicorn")
TOKEN = "a token that nobody guesses"
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    },
}


def notes(folder: Path) -> Path:
    folder.mkdir()
    (folder / "boats.md").write_text("# Boats\n\nThe blue boat lies at pier nine.\n")
    (folder / "cooks.md").write_text("# Cooks\n\nAnn cooks soup on Mondays.\n")
    return folder


def test_tools_remember_and_find(tmp_path: Path) -> None:
    search, write = memory_tools(None, Hashing(), url=str(tmp_path / "m.sqlite"), user="ana")
    assert search.invoke({"words": "boat"}) == "nothing is remembered"
    fact = {"question": "Where is the boat?", "answer": "At pier nine."}
    assert write.invoke(fact) == "remembered"
    assert "already" in write.invoke(fact)
    assert "pier nine" in search.invoke({"words": "the boat"})
    other = memory_tools(None, Hashing(), url=str(tmp_path / "m.sqlite"), user="bob")[0]
    assert other.invoke({"words": "the boat"}) == "nothing is remembered"


def test_a_corpus_is_a_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STATEGATE_HOME", str(tmp_path / "home"))
    tool = corpus_tool(notes(tmp_path / "notes"), embedder=Hashing())
    assert "pier nine" in tool.invoke({"words": "Where is the blue boat?", "k": 1})


def _command(tmp_path: Path, *more: str) -> list[str]:
    run = "import sys; from stategate.ui.cli.main import main; sys.argv[0] = 'stategate'; main()"
    db = str(tmp_path / "m.sqlite")
    return ["-c", run, "mcp", "--db", db, "--embedder", "hashing", *more]


def test_an_assistant_on_stdio_uses_the_tools(tmp_path: Path) -> None:
    from mcp import ClientSession, StdioServerParameters, stdio_client

    where = StdioServerParameters(
        command=sys.executable,
        args=_command(tmp_path),
        cwd=Path(__file__).parents[2],
        env={**os.environ, "STATEGATE_HOME": str(tmp_path / "home")},
    )

    async def talk() -> tuple[list[str], list[str]]:
        async with stdio_client(where) as streams, ClientSession(*streams) as session:
            await session.initialize()
            names = [tool.name for tool in (await session.list_tools()).tools]
            said = []
            for name, args in (
                ("memory_write", {"question": "Who cooks?", "answer": "Ann."}),
                ("memory_search", {"words": "who cooks"}),
            ):
                result = await session.call_tool(name, args)
                said.append(str(result.content[0].text))  # type: ignore[union-attr]
            return names, said

    names, said = asyncio.run(asyncio.wait_for(talk(), 120))
    assert names == ["memory_search", "memory_write"]
    assert said[0] == "remembered"
    assert "Ann." in said[1]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a server with a memory and a folder of notes."""
    folder = tmp_path_factory.mktemp("mcp")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    corpus = str(notes(folder / "notes"))
    words = _command(folder, "--http", "--port", str(port), "--corpus", corpus)
    process = subprocess.Popen(
        [sys.executable, *words],
        cwd=Path(__file__).parents[2],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "STATEGATE_HOME": str(folder / "home"), "STATEGATE_MCP_TOKEN": TOKEN},
    )
    try:
        for _ in range(600):
            if process.poll() is not None:
                pytest.fail(f"the server ended: {process.stderr.read() if process.stderr else ''}")
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                time.sleep(0.1)
        yield port
    finally:
        process.terminate()
        process.wait(20)


def asked(port: int, **headers: str) -> int:
    """Return the status that a first call gets."""
    head = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    url = f"http://127.0.0.1:{port}/mcp"
    request = urllib.request.Request(url, json.dumps(HELLO).encode(), {**head, **headers})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=20) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_an_assistant_over_http_uses_every_tool(server: int) -> None:
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    async def talk() -> tuple[list[str], list[str]]:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with httpx2.AsyncClient(headers=headers, trust_env=False, timeout=90) as own:
            transport: Any = streamable_http_client(
                f"http://127.0.0.1:{server}/mcp", http_client=own
            )
            async with Client(transport) as client:
                names = [tool.name for tool in (await client.list_tools()).tools]
                said = []
                for name, args in (
                    ("memory_write", {"question": "Who cooks?", "answer": "Ann."}),
                    ("memory_search", {"words": "who cooks"}),
                    ("corpus_search", {"words": "Where is the blue boat?", "k": 1}),
                ):
                    result = await client.call_tool(name, args)
                    said.append(str(result.content[0].text))  # type: ignore[union-attr]
                return names, said

    names, said = asyncio.run(asyncio.wait_for(talk(), 120))
    assert names == ["memory_search", "memory_write", "corpus_search"]
    assert said[0] == "remembered"
    assert "Ann." in said[1]
    assert "pier nine" in said[2]


def test_without_the_token_nobody_is_heard(server: int) -> None:
    for given in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": TOKEN}):
        assert asked(server, **given) == 401
    assert asked(server, Authorization=f"Bearer {TOKEN}") == 200


def test_a_page_of_another_site_is_refused_even_with_the_token(server: int) -> None:
    known = {"Authorization": f"Bearer {TOKEN}"}
    assert asked(server, Host="evil.example", **known) == 421  # a name that leads here, as DNS can
    assert asked(server, Origin="http://evil.example", **known) == 403


def test_only_this_machine_is_served(server: int) -> None:
    with socket.socket() as other:
        other.settimeout(2)
        # Another address of this machine: 127.0.0.1 is the only one that is listened on.
        assert other.connect_ex(("127.0.0.2", server)) != 0
