"""Deep research over a folder: list, read and search its files until the question is answered.

    OPENAI_API_KEY=… python -m examples.deep_research docs/ "What is measured about memory?"

Without a key a scripted model reads every file, so that the example runs anywhere.
"""

import os
import sys
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.tools import tool

from examples.scripted import Scripted
from stategate.graph.middleware import ContextMiddleware
from stategate.nodes.retrieval.history import HistorySource, visible_text


def tools_over(folder: Path) -> list[Any]:
    """Return tools that read below ``folder`` and nowhere else."""
    files = {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*.md"))}

    @tool
    def read_file(name: str) -> str:
        """Return a file; list_files names them."""
        return files[name].read_text("utf-8") if name in files else f"there is no file '{name}'"

    @tool
    def search(words: str) -> str:
        """Return the passages of all files that share the rarest words."""
        source = HistorySource([(name, path.read_text("utf-8")) for name, path in files.items()])
        return "\n".join(f"{c.id}: {visible_text(c)}" for c, _ in source.find(words, 8)) or "none"

    @tool
    def list_files() -> str:
        """List the files."""
        return "\n".join(files)

    return [list_files, read_file, search]


def main(folder: str, question: str, model: Any = None) -> str:
    """Research the question and return the answer."""
    tools = tools_over(Path(folder))
    if model is None and os.environ.get("OPENAI_API_KEY"):
        model = "openai:gpt-5-mini"
    names = tools[0].invoke({}).splitlines()
    calls = [("read_file", {"name": name}) for name in names]
    model = model or Scripted.of(calls, f"I have read {len(names)} files.")
    agent: Any = create_agent(model, tools, middleware=[ContextMiddleware(budget=8000)])
    out = agent.invoke({"messages": [{"role": "user", "content": question}]})
    print(out["messages"][-1].text)
    return str(out["messages"][-1].text)


if __name__ == "__main__":
    main(*(sys.argv[1:3] if len(sys.argv) > 2 else ("docs", "What is measured about memory?")))
