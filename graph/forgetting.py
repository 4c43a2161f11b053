"""Forgetting everywhere: memory, traces, checkpoints, banks and cached vectors; and its proof.

    report = forget_everywhere(LongTerm(url), Namespace("ana"), thread="t1")
    hits = search_everywhere(["door code"], memory)      # none, or it is not forgotten

What a fact was told in (its turns), what was derived from it, and what other stores keep of these
turns goes together. A thread's checkpoints hold its recent turns: they go where any of them went.
Files that were exported are named, not deleted: they are the user's own.
"""

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver

from stategate.graph.checkpoints import SqliteCheckpoints, open_saver
from stategate.nodes.protocols import Embedder
from stategate.nodes.retrieval.remember import texts_of
from stategate.stores.bank.bank import open_bank
from stategate.stores.embeddings import embedding_cache
from stategate.stores.errors import UserError
from stategate.stores.files import contains_any
from stategate.stores.home import cache, home
from stategate.stores.memory.forget import Erased
from stategate.stores.memory.long_term import LongTerm
from stategate.stores.memory.records import Namespace
from stategate.stores.memory.stated import stated
from stategate.stores.sqlite import compact
from stategate.stores.tables import is_database, tables_holding
from stategate.stores.traces.store import TraceStore

#: Shorter texts ("Yes.") stand everywhere and prove nothing.
_TELLING = 12


@dataclass(frozen=True)
class Places:
    """The stores to clear beside the memory; by default this machine's own.

    Each may be in PostgreSQL (see ``stores.tables``).
    """

    traces: Path | str | None = None
    checkpoints: str | None = None
    banks: tuple[Path | str, ...] = ()
    #: An open saver, in place of the one that ``checkpoints`` names.
    saver: BaseCheckpointSaver[Any] | None = None

    @classmethod
    def here(cls, traces: str | None = None, checkpoints: str | None = None) -> "Places":
        """Return this machine's stores, those named in place of the default ones."""
        folder = home() / "banks"
        banks = (
            tuple(sorted(p.parent for p in folder.rglob("bank.sqlite"))) if folder.is_dir() else ()
        )
        trace: Path | str = home() / "traces.sqlite"
        if traces:
            trace = traces if is_database(traces) else Path(traces).expanduser()
        return cls(trace, checkpoints or str(home() / "checkpoints.sqlite"), banks)


@dataclass
class Report:
    """What went, by store, and where it still stands (files that were exported)."""

    erased: Erased
    counts: dict[str, int] = field(default_factory=dict)
    exports: list[str] = field(default_factory=list)


def forget_everywhere(
    memory: LongTerm,
    namespace: Namespace,
    ids: Sequence[int] | None = None,
    *,
    thread: str | None = None,
    source: str | None = None,
    places: Places | None = None,
    embedder: Callable[[], Embedder] | None = None,
) -> Report:
    """Erase facts by number, thread or source (all of the namespace without) from every store.

    ``embedder`` is asked for where a fact stays in the words of another turn, to be found by these.
    Raises ``UserError`` where a store cannot be written: what was cleared until then stays cleared.
    """
    places = Places.here() if places is None else places
    erased = memory.erase(namespace, ids, thread=thread, source=source)
    report = Report(erased, {"facts": len(erased.facts), "turns": len(erased.turns)})
    everything = ids is None and thread is None and source is None
    threads = {t for t in (*erased.touched, *([thread] if thread else [])) if t}
    texts = [text for text in erased.texts if len(text) >= _TELLING]
    report.counts["store items"] = memory.erase_items(texts, namespace.user if everything else None)
    alive = memory.threads()
    report.counts["trace steps"] = _traces(
        places.traces, erased, threads if thread else set(), texts, alive - threads
    )
    report.counts["checkpoints"] = _checkpoints(places, threads, texts, alive - threads)
    report.counts["bank rows"] = sum(_bank(place, erased, texts) for place in places.banks)
    report.counts["cached vectors"] = embedding_cache().drop(_embedded(erased))
    if erased.reworded and embedder is not None:
        model = embedder()
        memory.embed_again(namespace, erased, model.embed, model.name)
    report.exports = [path for path in memory.exports(namespace) if Path(path).exists()]
    return report


def _traces(
    place: Path | str | None,
    erased: Erased,
    threads: Iterable[str],
    texts: Sequence[str],
    alive: set[str],
) -> int:
    """Delete the forgotten steps, and copies of them (an episode that was forked from theirs).

    What a thread that is remembered (``alive``) holds is its own: others may say the same words.
    """
    if place is None or not (is_database(place) or Path(place).exists()):
        return 0
    store = TraceStore(place)
    copies = [(e, step) for e, step, thread in store.steps_with(texts) if thread not in alive]
    count = store.forget([*erased.turns, *copies], threads)
    if not is_database(place):
        _compact(Path(place))
    return count


def _checkpoints(places: Places, threads: set[str], texts: Sequence[str], alive: set[str]) -> int:
    """Delete the threads' checkpoints and those of their copies (see :func:`_traces`)."""
    where = places.checkpoints
    saver = places.saver
    if saver is None:
        if where is None or where == "memory":
            return 0
        if not is_database(where) and not Path(where).expanduser().exists():
            return 0
        saver = open_saver(where)
    count = 0
    for thread in sorted(threads | (_threads_holding(saver, texts) - alive)):
        config: RunnableConfig = {"configurable": {"thread_id": thread}}
        count += len(list(saver.list(config)))
        saver.delete_thread(thread)
    if isinstance(saver, SqliteCheckpoints):
        path = saver.conn.execute("pragma database_list").fetchone()[2]
        if places.saver is None:
            saver.conn.close()
        _compact(Path(path))
    return count


def _threads_holding(saver: BaseCheckpointSaver[Any], texts: Sequence[str]) -> set[str]:
    """Return the threads whose checkpoints hold one of ``texts``, byte by byte."""
    if isinstance(saver, SqliteCheckpoints):
        query = (
            "select thread_id from checkpoints where instr(checkpoint, :text) or instr(metadata, :text)"
            " union select thread_id from writes where instr(value, :text)"
        )
        with saver.lock:
            return {
                str(row[0])
                for text in texts
                for row in saver.conn.execute(query, {"text": text.encode("utf-8", "replace")})
            }
    held = [(one.config["configurable"]["thread_id"], repr(one)) for one in saver.list(None)]
    return {str(thread) for thread, all_ in held if any(repr(t)[1:-1] in all_ for t in texts)}


def _bank(place: Path | str, erased: Erased, texts: Sequence[str]) -> int:
    """Remove rows that were made of forgotten episodes, or that hold what was said in them."""
    bank = open_bank(place)
    episodes = {episode for episode, _ in erased.turns}
    gone = []
    for row in bank.rows():
        data = json.dumps(dict(row.data), ensure_ascii=False)
        whole = f"{row.id} {row.task} {data}"
        escaped = (json.dumps(text, ensure_ascii=False)[1:-1] for text in texts)
        if any(episode and episode in whole for episode in episodes) or any(
            text in whole for text in escaped
        ):
            gone.append(row.n)
    bank.remove(gone)
    bank.close()
    if gone and not is_database(place):
        _compact(Path(place) / "bank.sqlite")
    return len(gone)


def _compact(path: Path) -> None:
    try:
        compact(path)
    except sqlite3.Error as error:
        raise UserError(
            f"what was forgotten may still be in '{path}' ({error}): make room and forget it again"
        ) from None


def _embedded(erased: Erased) -> list[str]:
    """Return every text of the forgotten turns that may have been given to an embedder."""
    found: dict[str, None] = {}
    for text in erased.texts:
        for speaker in ("", *erased.speakers):
            statements = stated(text, speaker or "user", 0.0)
            found.update(dict.fromkeys(texts_of(text, speaker, statements)))
        for about in erased.abouts:
            found[f"{about} {text}".strip()] = None
    return list(found)


@dataclass(frozen=True)
class Hit:
    """A place where a forgotten text still stands."""

    store: str
    where: str
    text: str


def search_everywhere(
    texts: Sequence[str], memory: LongTerm, places: Places | None = None
) -> list[Hit]:
    """Search every store for ``texts``: each file here, byte by byte, and databases' tables.

    Free pages and write-ahead logs of databases are read like the rest; JSON's and UTF-8's ways of
    writing a text are both tried. Embeddings hold no texts: they are searched by the texts' own keys.
    """
    places = Places.here() if places is None else places
    hits: list[Hit] = []
    files = {path for folder in (home(), cache()) for path in _files(folder)}
    stores = [place for place in (places.traces, places.checkpoints) if place]
    stored = (*stores, *places.banks, *(() if memory.file is not None else (memory.url,)))
    databases = {str(p).partition("#")[0] for p in stored if is_database(p)}
    named = [Path(place).expanduser() for place in stores if not is_database(place)]
    named += [Path(bank) / "bank.sqlite" for bank in places.banks if not is_database(bank)]
    if memory.file is not None:
        named.append(memory.file)
    for path in named:
        files |= {p for p in (path, Path(f"{path}-wal"), Path(f"{path}-journal")) if p.is_file()}
    for text in texts:
        if not text.strip():
            raise UserError("name words to look for: everything holds an empty text")
        forms = {text.encode("utf-8", "replace"), json.dumps(text)[1:-1].encode()}
        hits += [Hit("file", str(p), text) for p in _holding(sorted(files), forms)]
        hits += [
            Hit("database", t, text) for place in databases for t in tables_holding(place, forms)
        ]
        hits += [
            Hit("export", p, text) for p in memory.exports(None) if contains_any(Path(p), forms)
        ]
    if embedding_cache().knows(texts):
        hits.append(Hit("cached vectors", str(embedding_cache().path), "the text's own vector"))
    return hits


def _files(folder: Path) -> Iterable[Path]:
    """Return all files of a folder but models and other downloads."""
    fetched = ("assets", "converted", "tiktoken")
    for path in folder.rglob("*"):
        if path.is_file() and path.relative_to(folder).parts[0] not in fetched:
            yield path


def _holding(paths: Sequence[Path], forms: Iterable[bytes]) -> list[Path]:
    """Return those of ``paths`` that hold one of ``forms``, read by a process of its own.

    To close a file drops the locks that its process has on a database there (see ``stores.sqlite``).
    """
    asked = json.dumps([[str(p) for p in paths], [form.hex() for form in sorted(forms)]])
    places = os.pathsep.join(path or "." for path in sys.path)
    done = subprocess.run(
        [sys.executable, "-c", "from stategate.stores import files; files.tell_holding()"],
        input=asked,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": places},
    )
    return [Path(path) for path in json.loads(done.stdout)]
