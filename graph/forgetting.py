"""Forgetting everywhere: memory, traces, checkpoints, banks and cached vectors; and its proof.

    report = forget_everywhere(LongTerm(url), Namespace("ana"), thread="t1")
    hits = search_everywhere(["door code"], memory)      # none, or it is not forgotten

What a fact was told in (its turns), what was derived from it, and what other stores keep of these
turns goes together. A thread's checkpoints hold its recent turns: they go where any of them went.
Files that were exported are named, not deleted: they are the user's own.
"""

import json
import mmap
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from langchain_core.runnables import RunnableConfig

from graph.checkpoints import open_saver
from nodes.retrieval.remember import texts_of
from stores.bank.bank import open_bank
from stores.embeddings import embedding_cache
from stores.errors import UserError
from stores.home import cache, home
from stores.memory.forget import Erased
from stores.memory.long_term import LongTerm
from stores.memory.records import Namespace
from stores.memory.stated import stated
from stores.sqlite import compact
from stores.traces.store import TraceStore

#: Shorter texts ("Yes.") stand everywhere and prove nothing.
_TELLING = 12


@dataclass(frozen=True)
class Places:
    """The stores to clear beside the memory; by default this machine's own."""

    traces: Path | None = None
    checkpoints: str | None = None
    banks: tuple[Path, ...] = ()

    @classmethod
    def here(cls, traces: str | None = None, checkpoints: str | None = None) -> "Places":
        """Return this machine's stores, those named in place of the default ones."""
        folder = home() / "banks"
        banks = (
            tuple(sorted(p.parent for p in folder.rglob("bank.sqlite"))) if folder.is_dir() else ()
        )
        trace = Path(traces).expanduser() if traces else home() / "traces.sqlite"
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
) -> Report:
    """Erase facts by number, thread or source (all of the namespace without) from every store.

    Raises ``UserError`` where a store cannot be written: what was cleared until then stays cleared.
    """
    places = Places.here() if places is None else places
    erased = memory.erase(namespace, ids, thread=thread, source=source)
    report = Report(erased, {"facts": len(erased.facts), "turns": len(erased.turns)})
    everything = ids is None and thread is None and source is None
    threads = {t for t in (*erased.touched, *([thread] if thread else [])) if t}
    texts = [text for text in erased.texts if len(text) >= _TELLING]
    report.counts["store items"] = memory.erase_items(texts, namespace.user if everything else None)
    report.counts["trace steps"] = _traces(places.traces, erased, threads if thread else set())
    report.counts["checkpoints"] = _checkpoints(places.checkpoints, threads)
    report.counts["bank rows"] = sum(_bank(folder, erased, texts) for folder in places.banks)
    report.counts["cached vectors"] = embedding_cache().drop(_embedded(erased))
    report.exports = [path for path in memory.exports(namespace) if Path(path).exists()]
    return report


def _traces(path: Path | None, erased: Erased, threads: Iterable[str]) -> int:
    if path is None or not path.exists():
        return 0
    count = TraceStore(path).forget(erased.turns, threads)
    _compact(path)
    return count


def _checkpoints(where: str | None, threads: Iterable[str]) -> int:
    if where is None or where == "memory":
        return 0
    is_file = "://" not in where
    if is_file and not Path(where).expanduser().exists():
        return 0
    saver = open_saver(where)
    count = 0
    for thread in threads:
        config: RunnableConfig = {"configurable": {"thread_id": thread}}
        count += len(list(saver.list(config)))
        saver.delete_thread(thread)
    if is_file:
        saver.conn.close()  # type: ignore[attr-defined]
        _compact(Path(where).expanduser())
    return count


def _bank(folder: Path, erased: Erased, texts: Sequence[str]) -> int:
    """Remove rows that were made of forgotten episodes, or that hold what was said in them."""
    bank = open_bank(folder)
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
    if gone:
        _compact(folder / "bank.sqlite")
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
    """Search every store for ``texts``: each file here, byte by byte, and the memory's tables.

    Free pages and write-ahead logs of databases are read like the rest; JSON's and UTF-8's ways of
    writing a text are both tried. Embeddings hold no texts: they are searched by the texts' own keys.
    """
    places = Places.here() if places is None else places
    hits: list[Hit] = []
    files = {path for folder in (home(), cache()) for path in _files(folder)}
    named = [places.traces, *(bank / "bank.sqlite" for bank in places.banks)]
    if places.checkpoints and "://" not in places.checkpoints:
        named.append(Path(places.checkpoints).expanduser())
    if memory.file is not None:
        named.append(memory.file)
    for path in named:
        if path is not None:
            files |= {
                p for p in (path, Path(f"{path}-wal"), Path(f"{path}-journal")) if p.is_file()
            }
    for text in texts:
        if not text.strip():
            raise UserError("name words to look for: everything holds an empty text")
        forms = {text.encode("utf-8", "replace"), json.dumps(text)[1:-1].encode()}
        hits += [Hit("file", str(p), text) for p in sorted(files) if _holds(p, forms)]
        hits += [Hit("memory", table, text) for table in memory.tables_with(text)]
        hits += [Hit("export", p, text) for p in memory.exports(None) if _holds(Path(p), forms)]
    if embedding_cache().knows(texts):
        hits.append(Hit("cached vectors", str(embedding_cache().path), "the text's own vector"))
    return hits


def _files(folder: Path) -> Iterable[Path]:
    """Return all files of a folder but models and other downloads."""
    fetched = ("assets", "converted", "tiktoken")
    for path in folder.rglob("*"):
        if path.is_file() and path.relative_to(folder).parts[0] not in fetched:
            yield path


def _holds(path: Path, forms: Iterable[bytes]) -> bool:
    try:
        if not path.stat().st_size:
            return False
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return any(data.find(form) >= 0 for form in forms)
    except (OSError, ValueError, sqlite3.Error):
        return False
