"""A corpus: the documents that were ingested under one name, in a SQLite file or a shared database.

Texts are kept whole; passages are cut from them on demand, so one corpus serves every chunking.
Ingesting again changes what changed and removes what is gone from the same origin.

Passages and their BM25 index are kept beside it. Cutting and indexing are deterministic, so what was
made once serves as long as the documents, the chunking and the libraries that cut and index are the
same; a hash of all these is the folder's name.
"""

import hashlib
import json
import logging
import re
import shutil
from collections.abc import Iterable
from dataclasses import astuple, dataclass, field
from importlib.metadata import version
from pathlib import Path
from uuid import uuid4

from stategate.stores.corpus.chunking import Chunking, Passage, cut_passages
from stategate.stores.corpus.documents import Document, Skipped
from stategate.stores.corpus.lexical import Lexical
from stategate.stores.errors import UserError
from stategate.stores.files import atomic_path, parse_json
from stategate.stores.home import home
from stategate.stores.tables import is_database, open_tables, split_place

#: In ``meta``, ``revision`` changes with every change of a document; ``seen:ORIGIN`` is how a folder
#: looked.
_SCHEMA = """
create table if not exists documents (
    id text not null, origin text not null, title text not null, text text not null,
    url text not null, sha256 text not null, primary key (origin, id)
) without rowid;
create table if not exists meta (key text primary key, value text not null) without rowid;
"""
_PUT = """insert into documents values (?, ?, ?, ?, ?, ?) on conflict (origin, id) do update set
title = excluded.title, text = excluded.text, url = excluded.url, sha256 = excluded.sha256"""
_NOTE = "insert into meta values (?, ?) on conflict (key) do update set value = excluded.value"
_FORMAT = "1"
_MAKERS = ("bm25s", "PyStemmer", "tiktoken")
_PASSAGES, _WORDS = "passages.jsonl", "bm25"
_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]{0,40}")


@dataclass
class Changes:
    """What an ingest did, by document id; ``skipped`` holds reasons."""

    added: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)

    @property
    def read(self) -> list[str]:
        """The documents that are there now."""
        return [*self.added, *self.updated, *self.unchanged]

    def extend(self, more: "Changes") -> None:
        """Add what another ingest did."""
        for name, items in vars(more).items():
            getattr(self, name).extend(items)


class Corpus:
    """Documents by name, or by a place of shared tables (``$STATEGATE_POSTGRES#notes``).

    Raises ``UserError`` where that is none or cannot be written.
    """

    def __init__(self, name: str, folder: Path | None = None, *, create: bool = True) -> None:
        self.name, self.is_shared = name, is_database(name)
        #: What its indexes are called, and what tells it from others of that name.
        self.title, self.identity = name, name
        if self.is_shared:
            url, self.title = split_place(name, "main")
            self.identity = f"shared {self.title}"
            digest = hashlib.sha256(f"{url}#{self.title}".encode()).hexdigest()[:12]
            folder = corpora().parent / "folders" / f"shared-{digest}"
            folder.mkdir(parents=True, exist_ok=True)
        elif not _NAME.fullmatch(name):
            raise UserError(f"'{name}' is no corpus name: letters, digits, '-', '_' and '.'")
        self.folder = folder or corpora() / name
        if not self.is_shared:
            self.identity = str(self.folder)
        place = name if self.is_shared else self.folder / "corpus.sqlite"
        self._file = open_tables(
            place, "corpus", (_SCHEMA,), fix="name another", create=create, durable=True
        )

    def sync(self, origin: str, items: Iterable[Document | Skipped], look: str = "") -> Changes:
        """Make ``origin``'s part of the corpus what ``found`` says, in one transaction.

        A file that is skipped now but was read before keeps its earlier text: it is not gone.
        ``look`` is remembered as what the origin looked like (see :meth:`looked`).
        """
        changes = Changes()
        with self._file.transaction() as db:
            query = "select id, sha256 from documents where origin = ?"
            known = {row["id"]: row["sha256"] for row in db.execute(query, (origin,))}
            seen = set()
            for item in items:
                seen.add(item.id)
                if isinstance(item, Skipped):
                    changes.skipped.append(item)
                    continue
                old = known.get(item.id)
                if old == item.sha256:
                    changes.unchanged.append(item.id)
                    continue
                (changes.added if old is None else changes.updated).append(item.id)
                values = (item.id, origin, item.title, item.text, item.url, item.sha256)
                row = [value.encode("utf-8", "replace").decode() for value in values]
                db.execute(_PUT, row)
            changes.removed = sorted(set(known) - seen)
            db.executemany(
                "delete from documents where origin = ? and id = ?",
                [(origin, id_) for id_ in changes.removed],
            )
            if changes.added or changes.updated or changes.removed:
                db.execute(_NOTE, ("revision", uuid4().hex))
            db.execute(_NOTE, (f"seen:{origin}", look))
        return changes

    def looked(self, origin: str) -> str:
        """Return the ``look`` of the origin's last sync, "" if there was none."""
        return self._meta(f"seen:{origin}")

    def _meta(self, key: str) -> str:
        rows = self._file.query("select value from meta where key = ?", (key,))
        return str(rows[0]["value"]) if rows else ""

    def documents(self) -> list[Document]:
        """Return all documents, by id."""
        query = "select id, origin, title, text, url from documents order by id, origin"
        rows = self._file.query(query)
        with self._file.belonging():
            if not all(isinstance(value, str) for row in rows for value in row):
                raise TypeError("a document that is no text")
            return [Document(*row) for row in rows]

    def passages(self, chunking: Chunking) -> list[Passage]:
        """Return every passage, in document order; passages with one id are kept once."""
        cuts = []
        for d in self.documents():
            try:
                cuts.append(cut_passages(d.id, d.title, d.text, chunking))
            except ValueError as error:  # one document must not take the others with it
                logging.getLogger("stategate").warning("%s: not searched (%s)", d.id, error)
        return list({passage.id: passage for part in cuts for passage in part}.values())

    def fingerprint(self) -> str:
        """Return a word that changes whenever a document does: cheap to ask before each question."""
        return self._meta("revision") or "empty"

    def is_new(self) -> bool:
        """Say whether no document was ever kept here."""
        return self.fingerprint() == "empty"

    def remove(self) -> None:
        """Delete the corpus with all that was made of it."""
        if self.is_shared:
            with self._file.transaction() as db:
                db.execute("delete from documents")
                db.execute("delete from meta")
        self._file.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def content(self) -> str:
        """Return a hash of what the documents say: the same texts, whenever and wherever ingested."""
        total = hashlib.sha256()
        for row in self._file.query("select id, origin, sha256 from documents order by id, origin"):
            total.update(repr(tuple(row)).encode("utf-8", "replace"))
        return total.hexdigest()


def corpora() -> Path:
    """Return the folder that holds the corpora."""
    return home() / "corpora"


def corpus_names() -> list[str]:
    """Return the names of the corpora that were ingested here."""
    folder = corpora()
    return sorted(p.parent.name for p in folder.glob("*/corpus.sqlite")) if folder.is_dir() else []


def open_corpus(name: str) -> Corpus:
    """Open a corpus that must be there. Raises ``UserError`` listing those that are."""
    if is_database(name):
        return Corpus(name, create=False)
    if name not in corpus_names():
        known = ", ".join(corpus_names()) or "none yet"
        raise UserError(
            f"no corpus '{name}' (there are: {known}): stategate ingest FOLDER --corpus {name}"
        )
    return Corpus(name)


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
        with atomic_path(place) as partial:
            partial.mkdir()
            lines = "".join(json.dumps(astuple(passage)) + "\n" for passage in passages)
            (partial / _PASSAGES).write_text(lines, encoding="utf-8")
            lexical.save(partial / _WORDS)
        for old in folder.glob(f"{chunking}-*"):
            if old != place:
                shutil.rmtree(old, ignore_errors=True)
    except UserError:
        shutil.rmtree(place, ignore_errors=True)
    return passages, lexical


def titled(passage: Passage) -> str:
    """Return the text by which a passage is found: its title, then its words."""
    return f"{passage.title}. {passage.text}" if passage.title else passage.text


def _load(place: Path) -> tuple[list[Passage], Lexical] | None:
    try:
        lines = (place / _PASSAGES).read_text(encoding="utf-8").splitlines()
        passages = [Passage(*parse_json(line)) for line in lines]
        lexical = Lexical.load(place / _WORDS)
    except (OSError, ValueError, TypeError, KeyError, EOFError):
        return None
    return (passages, lexical) if lexical.size == len(passages) else None
