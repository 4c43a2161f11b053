"""The nouns of product titles, by spaCy, each title parsed once and kept on disk.

The reward compares titles by their nouns (NOUN and PROPN of en_core_web_sm 3.8.0). Parsing takes
milliseconds and importing spaCy seconds, so neither happens for a title seen before.
"""

import contextlib
import json
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

from stores.assets.fetch import asset_path
from stores.home import home
from stores.sqlite import write_ahead

MODEL = "en_core_web_sm-3.8.0"
_lock = threading.RLock()


def nouns(title: str) -> tuple[str, ...]:
    """Return the nouns of ``title`` in lower case, in order, with repeats."""
    return _nouns(title)


def prepare(titles: Iterable[str]) -> int:
    """Parse ``titles`` that are not known yet, with a progress bar; returns how many there were."""
    with _connect() as db:
        known = {row[0] for row in db.execute("select title from nouns where model = ?", (MODEL,))}
    missing = [title for title in dict.fromkeys(titles) if title not in known]
    if missing:
        from tqdm import tqdm

        with _lock, _connect() as db:
            parsed = _parser().pipe(missing, batch_size=64)
            for title, document in tqdm(zip(missing, parsed, strict=True), "nouns", len(missing)):
                _keep(db, title, _of(document))
    return len(missing)


@lru_cache(maxsize=1 << 16)
def _nouns(title: str) -> tuple[str, ...]:
    with _lock, _connect() as db:
        query = "select nouns from nouns where model = ? and title = ?"
        row = db.execute(query, (MODEL, title)).fetchone()
        if row is not None:
            return tuple(json.loads(row[0]))
        found = _of(_parser()(title))
        _keep(db, title, found)
        return found


def _of(document: Any) -> tuple[str, ...]:
    return tuple(token.text.lower() for token in document if token.pos_ in ("NOUN", "PROPN"))


def _keep(db: sqlite3.Connection, title: str, found: tuple[str, ...]) -> None:
    db.execute("insert or replace into nouns values (?, ?, ?)", (MODEL, title, json.dumps(found)))


@contextlib.contextmanager
def _connect() -> Iterator[sqlite3.Connection]:
    db = sqlite3.connect(home() / "nouns.sqlite", timeout=30)
    try:
        with db:
            write_ahead(db)
            db.execute(
                "create table if not exists nouns"
                " (model text, title text, nouns text, primary key (model, title))"
            )
            yield db
    finally:
        db.close()


@lru_cache(maxsize=1)
def _parser() -> Any:
    import spacy

    return spacy.load(asset_path("en_core_web_sm"))
