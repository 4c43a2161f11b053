"""Long-term memory and corpora as LangChain tools, and those tools as an MCP server.

agent = create_agent(model, [*memory_tools(user="ana"), corpus_tool("notes/")])
mcp_server([*memory_tools(user="ana")]).run("stdio")
"""

import asyncio
import hashlib
from collections.abc import Callable, Coroutine, Sequence
from functools import wraps
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from langchain_core.runnables.config import ensure_config
from langchain_core.tools import BaseTool, StructuredTool
from pydantic import Field

from stategate.graph.state import memory_owner
from stategate.nodes.models.embedders import MiniLM
from stategate.nodes.models.judge import answer_chances
from stategate.nodes.observe.qa import CorpusRetriever
from stategate.nodes.protocols import EmbedderParams
from stategate.nodes.resources import Resources
from stategate.nodes.retrieval.remember import MemoryPlace, owned_by, texts_of
from stategate.stores.errors import UserError
from stategate.stores.memory.recall import Limits, asked_of
from stategate.stores.memory.records import TRUSTED, Fact, Turn
from stategate.stores.progress import reports_to
from stategate.stores.text import day_of, one_line

if TYPE_CHECKING:
    from mcp.server import MCPServer

_INSTRUCTIONS = "Memory and documents that outlive a conversation."

_MAX_HITS = 20  # facts or passages that one call returns
_MAX_INPUT = 4_000  # characters of a query, a question or an answer
_MAX_OUTPUT = 20_000  # characters that one call returns
#: A number of results.
Count = Annotated[int, Field(ge=1, le=_MAX_HITS, description=f"how many, {_MAX_HITS} at most")]
Chance = Annotated[float, Field(ge=0, le=1, description="least probability that a fact answers")]
#: A text with at least one letter or digit.
Text = Annotated[str, Field(min_length=1, max_length=_MAX_INPUT, pattern=r"\w")]


def memory_tools(
    embedder: EmbedderParams | None = None, *, may_write: bool = True, **where: Any
) -> list[BaseTool]:
    """Return ``memory_search`` and, if it ``may_write``, ``memory_write``.

    ``where`` are fields of :class:`MemoryPlace` (url, user); without a user it is that of the
    call's ``user_id``, else its thread's. Raises ``UserError`` where the memory cannot be opened.
    """
    place = MemoryPlace(**where)
    store = place.open()
    resources = Resources(None, embedder or MiniLM())

    def owner() -> str:
        with owned_by(memory_owner(ensure_config()["configurable"])):
            return place.owner

    def memory_search(words: Text, k: Count = 5, at_least: Chance = 0.0) -> str:
        """Find what is remembered from earlier conversations about these words or this question."""
        asked = asked_of(words, resources.embedder, judge=answer_chances)
        limits = Limits(facts=min(max(k, 1), _MAX_HITS), at_least=at_least)
        found = store.recall(owner(), asked, limits)
        lines = [_fact_line(fact) for fact in found if not fact.left_out]
        return "\n".join(lines)[:_MAX_OUTPUT] or "nothing is remembered"

    def memory_write(question: Text, answer: Text) -> str:
        """Remember for later conversations that this question has this answer."""
        text, model = f"{question} {answer}".strip(), resources.embedder
        first, *more = model.embed(texts_of(text))
        content = f"{question}\0{answer}".encode("utf-8", "surrogatepass")
        name = hashlib.sha256(content).hexdigest()[:16]
        turn = Turn("tools", name, 0, text, first, model.name, source="agent", more=tuple(more))
        is_new = store.add(owner(), turn).outcome != "repeated"
        return "remembered" if is_new else "this was remembered already"

    tools: list[BaseTool] = [StructuredTool.from_function(memory_search)]
    return [*tools, StructuredTool.from_function(memory_write)] if may_write else tools


def corpus_tool(
    corpus: str | Path, name: str = "corpus_search", embedder: EmbedderParams | None = None
) -> BaseTool:
    """Return a tool that finds passages of a corpus (a folder, or a name of ``stategate ingest``)."""
    retriever = CorpusRetriever(corpus=corpus, embedder=embedder or MiniLM())

    def corpus_search(words: Text, k: Count = 4) -> str:
        """Find passages of the documents about these words, with their titles."""
        passages = retriever.model_copy(update={"k": min(max(k, 1), _MAX_HITS)}).invoke(words)
        quoted = [f"[{one_line(d.metadata['title'])}] {one_line(d.page_content)}" for d in passages]
        return "\n\n".join(quoted)[:_MAX_OUTPUT] or "no passage fits"

    folder = "/".join(Path(corpus).parts[-2:])  # two corpora may have one name
    description = f"Find passages of the documents in '{folder}' about these words."
    return StructuredTool.from_function(corpus_search, name=name, description=description)


def _fact_line(fact: Fact) -> str:
    origin = f" [from {one_line(fact.source)}, unverified]" if fact.trust < TRUSTED else ""
    until = "" if fact.valid_to is None else f" until {day_of(fact.valid_to)}"
    chance = f" ({fact.support:.2f} that it answers)"
    return f"{day_of(fact.at)}{until}{origin}: {one_line(fact.passage)}{chance}"


def _with_progress(function: Callable[..., str]) -> Callable[..., Coroutine[Any, Any, str]]:
    """Return ``function`` as a coroutine for a server, with a ``ToolError`` for each ``UserError``.

    Lines of ``stores.progress`` become notifications for the clients that ask for progress.
    """
    from mcp.server.mcpserver import Context
    from mcp.server.mcpserver.exceptions import ToolError

    @wraps(function)
    async def run(client: Any, **arguments: Any) -> str:
        loop, numbers = asyncio.get_running_loop(), count(1)

        def report(line: str, _: float) -> None:
            notice = client.report_progress(next(numbers), message=line)
            asyncio.run_coroutine_threadsafe(notice, loop)

        try:
            with reports_to(report):
                return await asyncio.to_thread(function, **arguments)
        except UserError as error:
            raise ToolError(str(error)) from error

    run.__annotations__ = {**function.__annotations__, "client": Context}
    return run


def mcp_server(tools: Sequence[BaseTool]) -> "MCPServer[Any]":
    """Return an MCP server of ``tools``. Raises ``ModuleNotFoundError`` without the SDK."""
    from mcp.server import MCPServer
    from mcp.types import ToolAnnotations

    server = MCPServer("stategate", instructions=_INSTRUCTIONS, log_level="WARNING")
    for tool in tools:
        if not isinstance(tool, StructuredTool) or tool.func is None:
            raise UserError(f"tool '{tool.name}' is no plain function, and cannot be served")
        hints = ToolAnnotations(
            read_only_hint=tool.name != "memory_write",
            destructive_hint=False,
            idempotent_hint=True,
            open_world_hint=False,
        )
        server.add_tool(
            _with_progress(tool.func),
            name=tool.name,
            description=tool.description,
            annotations=hints,
            structured_output=False,
        )
    return server
