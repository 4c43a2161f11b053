"""The nouns of product titles, by spaCy, each title parsed once and kept on disk.

The reward compares titles by their nouns (NOUN and PROPN of en_core_web_sm 3.8.0). Parsing takes
milliseconds and importing spaCy seconds, so neither happens for a title seen before.
"""

import json
import sqlite3
import threading
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

from stores.assets.fetch import asset_path
from stores.home import cache
from stores.sqlite import SqliteFile

MODEL = "en_core_web_sm-3.8.0"
_lock = threading.RLock()


@lru_cache(maxsize=1 << 16)
def nouns(title: str) -> tuple[str, ...]:
    """Return the nouns of ``title`` in lower case, in order, with repeats."""
    query = "select nouns from nouns where model = ? and title = ?"
    with _lock:
        rows = _file().query(query, (MODEL, title))
        if rows:
            return tuple(json.loads(rows[0]["nouns"]))
        parsed = _of(_parser()(title))
        with _file().transaction() as db:
            _keep(db, title, parsed)
        return parsed


def prepare(titles: Iterable[str]) -> int:
    """Parse ``titles`` that are not known yet, with a progress bar; returns how many there were."""
    known = {row[0] for row in _file().query("select title from nouns where model = ?", (MODEL,))}
    missing = [title for title in dict.fromkeys(titles) if title not in known]
    if missing:
        from tqdm import tqdm

        with _lock, _file().transaction() as db:
            parsed = _parser().pipe(missing, batch_size=64)
            for title, document in tqdm(zip(missing, parsed, strict=True), "nouns", len(missing)):
                _keep(db, title, _of(document))
    return len(missing)


def _of(document: Any) -> tuple[str, ...]:
    return tuple(token.text.lower() for token in document if token.pos_ in ("NOUN", "PROPN"))


def _keep(db: sqlite3.Connection, title: str, words: tuple[str, ...]) -> None:
    db.execute("insert or replace into nouns values (?, ?, ?)", (MODEL, title, json.dumps(words)))


def _file() -> SqliteFile:
    return _open(cache() / "nouns.sqlite")


@lru_cache(maxsize=4)
def _open(path: Path) -> SqliteFile:
    schema = """create table if not exists nouns
        (model text, title text, nouns text, primary key (model, title))"""
    return SqliteFile(path, "cache of nouns", (schema,), fix="delete it")


@lru_cache(maxsize=1)
def _parser() -> Any:
    import spacy

    return spacy.load(asset_path("en_core_web_sm"))
