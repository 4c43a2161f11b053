"""The nouns of product titles, by spaCy, each title parsed once and kept on disk.

The reward compares titles by their nouns (NOUN and PROPN of en_core_web_sm 3.8.0). Parsing takes
milliseconds and importing spaCy seconds, so neither happens for a title seen before.
"""

import json
import threading
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
        parsed = tuple(t.text.lower() for t in _parser()(title) if t.pos_ in ("NOUN", "PROPN"))
        with _file().transaction() as db:
            row = (MODEL, title, json.dumps(parsed))
            db.execute("insert or replace into nouns values (?, ?, ?)", row)
        return parsed


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
