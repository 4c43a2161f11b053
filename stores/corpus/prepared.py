"""A corpus made ready for search, kept beside it: its passages and their BM25 index.

Cutting and indexing are deterministic, so what was made once serves as long as the documents, the
chunking and the libraries that cut and index are the same; a hash of all these is the folder's name.
"""

import hashlib
import json
import shutil
from collections.abc import Sequence
from dataclasses import astuple
from importlib.metadata import version
from pathlib import Path

from stores.corpus.chunking import Chunking, Passage
from stores.corpus.corpus import Corpus
from stores.corpus.lexical import Lexical
from stores.errors import UserError
from stores.files import replacing

_FORMAT = "1"
_MAKERS = ("bm25s", "PyStemmer", "tiktoken")
_PASSAGES, _WORDS = "passages.jsonl", "bm25"


def prepared_key(corpus: Corpus, chunking: Chunking) -> str:
    """Return a hash of the documents, the chunking and what cuts and indexes (64 hex digits)."""
    parts = [_FORMAT, str(chunking), corpus.content(), *(f"{m} {version(m)}" for m in _MAKERS)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def prepare(corpus: Corpus, chunking: Chunking, key: str) -> tuple[list[Passage], Lexical]:
    """Return the passages and their index under ``key``: read if they are kept, else made and kept.

    One at a time for a corpus (hold its lock). Files that are damaged are made anew; where they
    cannot be written (a full or read-only disk), they are made each time.
    """
    folder = corpus.folder / "prepared"
    place = folder / f"{chunking}-{key[:16]}"
    loaded = _load(place)
    if loaded is not None:
        return loaded
    passages = corpus.passages(chunking)
    lexical = Lexical([titled(passage) for passage in passages])
    if prepared_key(corpus, chunking) != key:  # changed while it was cut
        return passages, lexical
    try:
        _keep(place, passages, lexical)
        for old in folder.glob(f"{chunking}-*"):
            if old != place:
                shutil.rmtree(old, ignore_errors=True)
    except UserError:
        shutil.rmtree(place, ignore_errors=True)
    return passages, lexical


def titled(passage: Passage) -> str:
    """Return the text by which a passage is found: its title, then its words."""
    return f"{passage.title}. {passage.text}"


def _load(place: Path) -> tuple[list[Passage], Lexical] | None:
    try:
        lines = (place / _PASSAGES).read_text(encoding="utf-8").splitlines()
        passages = [Passage(*json.loads(line)) for line in lines]
        lexical = Lexical.load(place / _WORDS)
    except (OSError, ValueError, TypeError, KeyError, EOFError):
        return None
    return (passages, lexical) if lexical.size == len(passages) else None


def _keep(place: Path, passages: Sequence[Passage], lexical: Lexical) -> None:
    with replacing(place) as partial:
        partial.mkdir()
        lines = "".join(json.dumps(astuple(passage)) + "\n" for passage in passages)
        (partial / _PASSAGES).write_text(lines, encoding="utf-8")
        lexical.save(partial / _WORDS)
