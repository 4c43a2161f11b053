"""Serving many, and for long: sessions at once, bytes of checkpoints, growth over many steps.

The model is a stand-in on loopback that thinks for a set time, so that what is measured is ours.
"""

import asyncio
import gc
import json
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from stategate.evals.core.task import Parts, Row
from stategate.evals.webshop.bench import LONG_WALK, resident_memory
from stategate.graph.build import build_graph
from stategate.graph.config import load_config
from stategate.graph.retention import threads
from stategate.stores.runs import with_errors

#: What the stand-in says; nobody reads it.
_REPLY = "The lake turned red because of algae."


def session_parts(sessions: int, turns: int, seconds: float, db: str | None) -> Parts:
    """Return a part for each saver: conversations at once, each asking ``turns`` questions in a row."""
    with_files = {"in memory": "memory", "SQLite": "", **({"PostgreSQL": db} if db else {})}
    return {
        name: partial(_sessions, name, where, sessions, turns, seconds)
        for name, where in with_files.items()
    }


def _sessions(name: str, where: str, sessions: int, turns: int, seconds: float) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        place = where or str(Path(folder) / "checkpoints.sqlite")
        took, busy, times = asyncio.run(_converse(place, sessions, turns, seconds))
    beside = [1000 * (t - seconds) for t in times]
    return [
        {
            "agent": f"{sessions} sessions, {name}",
            "n": len(times),
            "steps_per_s": len(times) / took,
            "at_most_per_s": sessions / seconds,
            "processor_ms_per_step": 1000 * busy / len(times),
            "step_p50_ms": float(np.quantile(times, 0.5)) * 1000,
            "step_p95_ms": float(np.quantile(times, 0.95)) * 1000,
            **with_errors({"beside_model_ms": beside}),
        }
    ]


async def _converse(
    where: str, sessions: int, turns: int, seconds: float
) -> tuple[float, float, list[float]]:
    """Return the seconds in all, by the clock and of the processor, and those of each turn."""
    async with _model(seconds) as url:
        settings: dict[str, Any] = {
            "env": {"kind": "qa", "corpus": "sample"},
            "embedder": "hashing",
            "context": {"kind": "recall", "budget": 1000, "extractor": "rules"},
            "llm": {"kind": "openai", "model": "stand-in", "base_url": url},
            "actor": "answer",
            "memory": ["conversation"],
            "checkpoints": where,
            "max_steps": 1000,
        }
        graph = build_graph(load_config(settings))
        mark = time.time_ns()

        async def talk(session: int, count: int) -> list[float]:
            taken = []
            for turn in range(count):
                started = time.perf_counter()
                await graph.ainvoke(
                    {"task": {"question": f"Why did lake {turn} turn red?"}},
                    {"configurable": {"thread_id": f"bench-{mark}-{session}"}},
                )
                taken.append(time.perf_counter() - started)
            return taken

        await talk(-1, 2)  # what is built once is built
        began, busy = time.perf_counter(), time.process_time()
        every = await asyncio.gather(*(talk(i, turns) for i in range(sessions)))
        took, busy = time.perf_counter() - began, time.process_time() - busy
        return took, busy, [t for own in every for t in own]


@asynccontextmanager
async def _model(seconds: float) -> AsyncIterator[str]:
    """Serve answers that take ``seconds`` each, however many are asked for at once."""
    message = {"role": "assistant", "content": _REPLY}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    usage = {"prompt_tokens": 100, "completion_tokens": 8, "total_tokens": 108}
    body = {
        "id": "x",
        "object": "chat.completion",
        "created": 0,
        "model": "stand-in",
        "choices": [choice],
        "usage": usage,
    }
    raw = json.dumps(body).encode()
    head = (
        f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(raw)}\r\n\r\n"
    )

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                asked = (await reader.readuntil(b"\r\n\r\n")).lower()
                await reader.readexactly(int(asked.split(b"content-length:")[1].split(b"\r\n")[0]))
                await asyncio.sleep(seconds)
                writer.write(head.encode() + raw)
                await writer.drain()
        except (asyncio.CancelledError, asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=512)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    finally:
        server.close()


def checkpoint_parts(steps: int, db: str | None) -> Parts:
    """Return a part for each saver and state: what a step of WebShop writes into checkpoints."""
    places = {"SQLite": "", **({"PostgreSQL": db} if db else {})}
    return {
        f"{name}, {updater}": partial(_checkpoints, name, where, updater, steps)
        for name, where in places.items()
        for updater in ("none", "gru")
    }


def _checkpoints(name: str, where: str, updater: str, steps: int) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "checkpoints.sqlite"
        settings = {
            "updater": updater,
            "context": "full",
            "memory": ["short_term"],
            "max_steps": steps,
            "actor": {"kind": "scripted", "actions": (LONG_WALK * steps)[:steps]},
            "checkpoints": where or str(file),
        }
        graph = build_graph(load_config(settings))
        thread = f"3f2a91c4-7b1e-4b3a-9f60-{time.time_ns() % 10**12:012d}"
        out = graph.invoke({"task": {"goal": 3}}, {"configurable": {"thread_id": thread}})
        taken = int(out["steps"])
        own = next(t for t in threads(graph.checkpointer) if t.thread_id == thread)
        row: Row = {
            "agent": f"{name}, updater {updater}",
            "n": taken,
            "checkpoints": own.checkpoints,
            "written_bytes_per_step": own.size / taken,
        }
        if not where:
            graph.checkpointer.conn.execute("pragma wal_checkpoint(truncate)")  # type: ignore[union-attr]
            row["file_bytes_per_step"] = file.stat().st_size / taken
    return [row]


def endurance_parts(steps: int, every: int) -> Parts:
    """Return the one part: ``steps`` steps in this process, looked at ``every`` so many."""
    return {"endurance": lambda: list(_endure(steps, every))}


def _endure(steps: int, every: int) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        settings = {
            "actor": "rule",
            "updater": "none",
            "max_steps": 15,
            "memory": [{"kind": "short_term"}, {"kind": "trace", "path": str(place / "t.sqlite")}],
            "checkpoints": str(place / "c.sqlite"),
        }
        graph = build_graph(load_config(settings))
        saver: Any = graph.checkpointer
        taken = episode = 0
        started, looked_at = time.perf_counter(), 0
        while taken < steps:
            config: Any = {"configurable": {"thread_id": f"t{episode}"}}
            # A checkpoint an episode: syncing five a step to the disk is most of a step's time.
            out = graph.invoke({"task": {"goal": episode % 30}}, config, durability="exit")
            taken += int(out["steps"])
            saver.delete_thread(f"t{episode}")  # as retention does with those that are done
            episode += 1
            if taken // every > looked_at:
                looked_at = taken // every
                gc.collect()
                yield {
                    "agent": f"after {taken} steps",
                    "n": taken,
                    "episodes": episode,
                    "resident_mb": resident_memory() / 1e6,
                    "descriptors": len(list(Path("/proc/self/fd").iterdir())),
                    "threads": threading.active_count(),
                    "objects": len(gc.get_objects()),
                    "checkpoint_file_mb": _size(place / "c.sqlite") / 1e6,
                    "log_mb": _size(place / "c.sqlite-wal") / 1e6,
                    "lock_files": len(list((place / "c.sqlite.locks").iterdir())),
                    "trace_bytes_per_step": _size(place / "t.sqlite") / taken,
                    "ms_per_step": 1000 * (time.perf_counter() - started) / taken,
                }


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def growth(rows: Sequence[Row]) -> list[Row]:
    """Return ``rows``, and one that says what the last has more than the one at a fifth of the way."""
    if len(rows) < 5:
        return list(rows)
    early, late = rows[len(rows) // 5], rows[-1]
    names = ("resident_mb", "descriptors", "threads", "objects", "checkpoint_file_mb", "lock_files")
    more = {name: late[name] - early[name] for name in names}
    return [*rows, {"agent": "last beside a fifth of the way", "n": late["n"] - early["n"], **more}]
