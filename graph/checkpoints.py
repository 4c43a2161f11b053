"""Where a graph's checkpoints go: memory, SQLite (sync and async), or PostgreSQL."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver

from stores.errors import UserError, needs
from stores.sqlite import connect


class AsyncInThreads(BaseCheckpointSaver[Any]):
    """Async methods that run a saver's sync ones in a thread.

    LangGraph's savers for SQLite and PostgreSQL are sync or async; an agent of ours serves
    ``invoke`` and ``ainvoke`` over one connection.
    """

    async def aget_tuple(self, *args: Any, **named: Any) -> CheckpointTuple | None:
        """See ``get_tuple``."""
        return await asyncio.to_thread(self.get_tuple, *args, **named)

    async def alist(self, *args: Any, **named: Any) -> AsyncIterator[CheckpointTuple]:
        """See ``list``."""
        for item in await asyncio.to_thread(lambda: tuple(self.list(*args, **named))):
            yield item

    async def aput(self, *args: Any, **named: Any) -> RunnableConfig:
        """See ``put``."""
        return await asyncio.to_thread(self.put, *args, **named)

    async def aput_writes(self, *args: Any, **named: Any) -> None:
        """See ``put_writes``."""
        await asyncio.to_thread(self.put_writes, *args, **named)

    async def adelete_thread(self, thread_id: str) -> None:
        """See ``delete_thread``."""
        await asyncio.to_thread(self.delete_thread, thread_id)


class SqliteCheckpoints(AsyncInThreads, SqliteSaver):
    """LangGraph's SQLite saver, sync and async."""

    def get_next_version(self, current: Any, channel: None) -> Any:
        """Count versions as plain integers: the package's strings cost 2 KB in each checkpoint."""
        return 1 if current is None else int(current) + 1


def open_saver(where: str | None) -> BaseCheckpointSaver[Any]:
    """Open the saver for a config's ``checkpoints``. Raises ``UserError`` if it cannot."""
    if where is None or where == "memory":
        return InMemorySaver()
    if where.startswith(("postgresql://", "postgres://")):
        return _postgres(where)
    path = Path(where).expanduser()
    try:
        saver = SqliteCheckpoints(connect(path))
        saver.setup()
    except sqlite3.Error as error:
        raise UserError(
            f"cannot use '{path}' for checkpoints ({error}): name another file"
        ) from None
    return saver


def _postgres(url: str) -> BaseCheckpointSaver[Any]:
    with needs("postgres"):
        from langgraph.checkpoint.postgres import PostgresSaver
        from psycopg import Connection, Error
        from psycopg.rows import dict_row
    try:
        connection = Connection.connect(url, autocommit=True, row_factory=dict_row)

        class PostgresCheckpoints(AsyncInThreads, PostgresSaver):
            """LangGraph's PostgreSQL saver, sync and async."""

        saver = PostgresCheckpoints(connection)
        saver.setup()
    except Error as error:
        problem = " ".join(str(error).split())
        raise UserError(f"cannot reach the checkpoint database: {problem}") from None
    checked: BaseCheckpointSaver[Any] = saver
    return checked
