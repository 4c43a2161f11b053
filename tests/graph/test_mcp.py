"""Memory as tools, and the same tools over the Model Context Protocol as a client sees them."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from stategate.graph.memory_tools import corpus_tool, http_app, mcp_server, memory_tools
from stategate.nodes.models.embedders import Hashing

pytest.importorskip("mcp")
pytest.importorskip("sqlalchemy")


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


def test_http_wants_the_token(tmp_path: Path) -> None:
    from starlette.testclient import TestClient

    tools = memory_tools(None, Hashing(), url=str(tmp_path / "m.sqlite"), may_write=False)
    call: dict[str, Any] = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"},
        },
    }
    accept = {"Accept": "application/json, text/event-stream"}
    app: Any = http_app(mcp_server(tools), "secret")
    with TestClient(app, base_url="http://127.0.0.1:8765") as client:
        for token in (None, "Bearer wrong", "secret"):
            headers = accept if token is None else {**accept, "Authorization": token}
            assert client.post("/mcp", json=call, headers=headers).status_code == 401
        known = {**accept, "Authorization": "Bearer secret"}
        answer = client.post("/mcp", json=call, headers=known)
        assert answer.status_code == 200, answer.text
        assert "stategate" in answer.text
