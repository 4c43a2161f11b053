"""Memory as tools, and the same tools over the Model Context Protocol as a client sees them."""

import asyncio
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from stategate.graph.memory_tools import corpus_tool, memory_tools
from stategate.nodes.models.embedders import Hashing

pytest.importorskip("mcp")


def test_tools_remember_and_find(tmp_path: Path) -> None:
    search, write = memory_tools(Hashing(), url=str(tmp_path / "m.sqlite"), user="ana")
    assert search.invoke({"words": "boat"}) == "nothing is remembered"
    fact = {"question": "Where is the boat?", "answer": "At pier nine."}
    assert write.invoke(fact) == "remembered"
    assert "already" in write.invoke(fact)
    assert "pier nine" in search.invoke({"words": "the boat"})
    assert search.invoke({"words": "the boat", "at_least": 1.0}) == "nothing is remembered"
    other = memory_tools(Hashing(), url=str(tmp_path / "m.sqlite"), user="bob")[0]
    assert other.invoke({"words": "the boat"}) == "nothing is remembered"


def test_two_folders_of_one_name_are_told_apart(tmp_path: Path) -> None:
    folders = [tmp_path / name / "docs" for name in ("boats", "trains")]
    for folder in folders:
        folder.mkdir(parents=True)
    boats, trains = (corpus_tool(folder, embedder=Hashing()).description for folder in folders)
    assert ("boats/docs" in boats, "trains/docs" in trains) == (True, True)


#: The command, with progress told at once.
_SERVER = """
from stategate.stores import progress
progress.PATIENCE = 0.0
from stategate.ui.cli.main import main
main()
"""


def test_an_assistant_on_stdio_uses_the_tools_and_hears_of_long_work(tmp_path: Path) -> None:
    from mcp import ClientSession, StdioServerParameters, stdio_client

    docs = tmp_path / "docs"
    heard: list[tuple[float, str]] = []
    docs.mkdir()
    (docs / "boats.md").write_text("# Boats\n\nThe blue boat lies at pier nine.\n")
    (docs / "trains.md").write_text("# Trains\n\nThe red train leaves at nine.\n")
    where = StdioServerParameters(
        command=sys.executable,
        args=["-c", _SERVER, "mcp", "--embedder", "hashing", "--corpus", str(docs)],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "STATEGATE_HOME": str(tmp_path / "home")},
    )

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, str(message)))

    async def talk() -> tuple[list[str], list[str]]:
        async with stdio_client(where) as streams, ClientSession(*streams) as session:
            await session.initialize()
            names = [tool.name for tool in (await session.list_tools()).tools]

            async def said(name: str, **args: Any) -> str:
                heard.clear()
                result = await session.call_tool(name, args, progress_callback=hear)
                return str(result.content[0].text)  # type: ignore[union-attr]

            texts = [
                await said("memory_write", question="Who cooks?", answer="Ann."),
                await said("memory_search", words="who cooks"),
                await said("corpus_search", words="Where is the blue boat?", k=1),
            ]
            assert any("index" in line for _, line in heard), "what takes long is announced"
            assert [number for number, _ in heard] == list(range(1, len(heard) + 1))
            shutil.rmtree(docs)
            return names, [*texts, await said("corpus_search", words="Where is the boat?")]

    names, texts = asyncio.run(asyncio.wait_for(talk(), 120))
    assert names == ["memory_search", "memory_write", "corpus_search"]
    assert texts[0] == "remembered"
    assert "Ann." in texts[1]
    assert "pier nine" in texts[2]
    assert "no corpus or folder" in texts[3], "why a call failed reaches the assistant"
