"""Memory as tools, and the same tools over the Model Context Protocol as a client sees them."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from stategate.graph.memory_tools import memory_tools
from stategate.nodes.models.embedders import Hashing

pytest.importorskip("mcp")


def test_tools_remember_and_find(tmp_path: Path) -> None:
    search, write = memory_tools(None, Hashing(), url=str(tmp_path / "m.sqlite"), user="ana")
    assert search.invoke({"words": "boat"}) == "nothing is remembered"
    fact = {"question": "Where is the boat?", "answer": "At pier nine."}
    assert write.invoke(fact) == "remembered"
    assert "already" in write.invoke(fact)
    assert "pier nine" in search.invoke({"words": "the boat"})
    other = memory_tools(None, Hashing(), url=str(tmp_path / "m.sqlite"), user="bob")[0]
    assert other.invoke({"words": "the boat"}) == "nothing is remembered"


def test_an_assistant_on_stdio_uses_the_tools(tmp_path: Path) -> None:
    from mcp import ClientSession, StdioServerParameters, stdio_client

    (tmp_path / "boats.md").write_text("# Boats\n\nThe blue boat lies at pier nine.\n")
    words = ["mcp", "--embedder", "hashing", "--corpus", str(tmp_path / "boats.md")]
    where = StdioServerParameters(
        command=sys.executable,
        args=["-m", "stategate.ui.cli.main", *words],
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
                ("corpus_search", {"words": "Where is the blue boat?", "k": 1}),
            ):
                result = await session.call_tool(name, args)
                said.append(str(result.content[0].text))  # type: ignore[union-attr]
            return names, said

    names, said = asyncio.run(asyncio.wait_for(talk(), 120))
    assert names == ["memory_search", "memory_write", "corpus_search"]
    assert said[0] == "remembered"
    assert "Ann." in said[1]
    assert "pier nine" in said[2]
