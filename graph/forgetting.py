"""Forgetting everywhere: memory, traces, checkpoints, banks and cached vectors.

    report = forget_everywhere(LongTerm(url), "ana", thread="t1")

A fact and copies of its turn in other stores are erased together, answers in the user's other threads
among them. A thread's checkpoints hold its recent turns: they go where any of them went.
"""

import json
from collections.abc import Sequence
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver

from stategate.graph.checkpoints import SqliteCheckpoints, open_saver
from stategate.nodes.retrieval.remember import texts_of
from stategate.stores.bank import Bank
from stategate.stores.embeddings import embedding_cache, key_of
from stategate.stores.errors import user_error_context
from stategate.stores.home import home, thread_of
from stategate.stores.memory.facts import Erased
from stategate.stores.memory.long_term import LongTerm
from stategate.stores.progress import Progress
from stategate.stores.sql import is_database
from stategate.stores.trace_store import TraceStore

#: Shorter texts ("Yes.") stand everywhere and prove nothing.
_TELLING = 12
_BLOCK = 2**24  # bytes of a file that are searched at once


def forget_everywhere(
    memory: LongTerm,
    user: str,
    ids: Sequence[int] | None = None,
    *,
    thread: str | None = None,
    source: str | None = None,
    traces: Path | str | None = None,
    checkpoints: BaseCheckpointSaver[Any] | str | None = None,
    banks: Sequence[Path | str] | None = None,
) -> dict[str, int]:
    """Erase facts by number, thread or source (else all of the user); return counts by store.

    ``traces``, ``checkpoints`` (an open saver, or a place) and ``banks`` are this machine's own by
    default. Raises ``UserError`` where a store cannot be written: what was cleared until then stays
    cleared.
    """
    if banks is None:
        banks = sorted(path.parent for path in (home() / "banks").rglob("bank.sqlite"))
    erased = memory.erase(user, ids, thread=thread, source=source)
    everything = ids is None and thread is None and source is None
    traced = traces or home() / "traces.sqlite"
    named = {thread_of(user, thread)} if thread else set()
    if everything and (own := thread_of(user, "")) and _is_there(traced):
        # Names that say that they are the user's: also threads in which no fact was told.
        names = (row["thread_id"] for row in TraceStore(traced).episodes())
        named |= {name for name in names if name.startswith(own)}
    threads = {*(one.thread_id for one in erased if one.thread_id), *named}
    texts = list(dict.fromkeys(one.text for one in erased if len(one.text) >= _TELLING))
    # Others may say the same words, and the user may have told them again elsewhere.
    others = memory.threads_apart(user, texts) - threads
    kept = checkpoints or str(home() / "checkpoints.sqlite")
    deleted, cleared = _clear_checkpoints(kept, threads, texts, others)
    return {
        "facts": len(erased),
        "store items": memory.erase_items(texts, user if everything else None),
        "trace steps": _clear_traces(
            traced, erased, threads if thread or everything else set(), texts, others
        ),
        "checkpoints": deleted,
        "threads": cleared,
        "bank rows": sum(_clear_bank(place, erased, texts) for place in banks),
        "cached vectors": embedding_cache().drop(_embedded(erased)),
    }


def _is_there(place: Path | str) -> bool:
    return is_database(place) or Path(place).expanduser().exists()


def _clear_traces(
    place: Path | str,
    erased: Sequence[Erased],
    threads: set[str],
    texts: Sequence[str],
    others: set[str],
) -> int:
    """Delete the forgotten steps and copies of them in other episodes; returns how many."""
    if not _is_there(place):
        return 0
    store = TraceStore(place)
    copies = [(e, step) for e, step, thread in store.steps_with(texts) if thread not in others]
    told = [(one.episode_id, one.step) for one in erased]
    count = store.forget([*told, *copies], threads)
    store.compact()
    return count


def _clear_checkpoints(
    checkpoints: BaseCheckpointSaver[Any] | str,
    threads: set[str],
    texts: Sequence[str],
    others: set[str],
) -> tuple[int, int]:
    """Delete the checkpoints of ``threads`` and of those with copies; return how many, of how many."""
    if isinstance(checkpoints, str) and not _is_there(checkpoints):
        return 0, 0
    saver = open_saver(checkpoints) if isinstance(checkpoints, str) else checkpoints
    written = [repr(text)[1:-1] for text in texts]
    count = 0
    gone: set[str] = set()
    for one in saver.list(None):
        thread = str(one.config["configurable"]["thread_id"])
        is_copy = thread not in others and any(text in repr(one) for text in written)
        gone |= {thread} if is_copy or thread in threads else set()
    for thread in gone:
        count += sum(1 for _ in saver.list({"configurable": {"thread_id": thread}}))
        saver.delete_thread(thread)
    if isinstance(saver, SqliteCheckpoints):
        saver.compact()
    return count, len(gone)


def _clear_bank(place: Path | str, erased: Sequence[Erased], texts: Sequence[str]) -> int:
    """Remove rows that were made of forgotten episodes or hold their words; returns how many."""
    bank = Bank(place)
    lost = {one.episode_id for one in erased if one.episode_id}
    lost |= {json.dumps(text, ensure_ascii=False)[1:-1] for text in texts}
    gone = []
    for row in bank.rows():
        whole = f"{row.id} {row.task} {json.dumps(dict(row.data), ensure_ascii=False)}"
        if any(text in whole for text in lost):
            gone.append(row.n)
    bank.remove(gone)
    if gone:
        bank.compact()
    bank.close()
    return len(gone)


def _embedded(erased: Sequence[Erased]) -> list[str]:
    """Return every text of the forgotten turns that may have been given to an embedder."""
    texts: dict[str, None] = {}
    for one in erased:
        for speaker in {"", one.speaker}:
            texts.update(dict.fromkeys(texts_of(one.text, speaker)))
        texts[f"{one.about} {one.text}".strip()] = None
    return list(texts)


def traces_left(text: str, folders: Sequence[Path]) -> list[str]:
    """Return where ``text`` is still found, byte by byte: "FILE (as text)" or "FILE (its vector)".

    Every file of ``folders`` is read, logs and free pages of databases included. Archives and
    compressed files are not unpacked. The case of the letters A to Z does not count.
    """
    escaped = json.dumps(text)[1:-1]
    written = {text.encode(), escaped.encode(), text.encode("utf-16-le")}
    forms = {"as text": {form.lower() for form in written}, "its vector": {key_of(text).lower()}}
    paths = sorted({path for folder in folders for path in folder.rglob("*") if path.is_file()})
    return [
        f"{path} ({what})"
        for path in Progress(paths, "read", unit="file")
        for what, needles in forms.items()
        if _holds(path, needles)
    ]


def _holds(path: Path, needles: set[bytes]) -> bool:
    with user_error_context(f"cannot read '{path}'"), path.open("rb") as file:
        if not path.stat().st_size:
            return False
        with mmap(file.fileno(), 0, access=ACCESS_READ) as content:
            longest = max(map(len, needles))
            starts = range(0, len(content), _BLOCK)
            blocks = (content[start : start + _BLOCK + longest].lower() for start in starts)
            return any(needle in block for block in blocks for needle in needles)
