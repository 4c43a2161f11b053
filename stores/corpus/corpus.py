"""A corpus: the documents that were ingested under one name, in one SQLite file.

Texts are kept whole; passages are cut from them on demand, so one corpus serves every chunking.
Ingesting again changes what changed and removes what is gone from the same origin.
"""

import hashlib
import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from stores.corpus.chunking import Chunking, Passage, cut
from stores.corpus.documents import Document, Skipped
from stores.errors import UserError
from stores.home import home
from stores.sqlite import SqliteFile

#: In ``meta``, ``revision`` changes with every change of a document; ``seen:ORIGIN`` is how a folder
#: looked.
_SCHEMA = """
create table if not exists documents (
    id text not null, origin text not null, title text not null, text text not null,
    url text not null, sha256 text not null, primary key (origin, id)
) without rowid;
create table if not exists meta (key text primary key, value text not null) without rowid;
"""
_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]{0,40}")


@dataclass
class Changes:
    """What an ingest did, by document id; ``skipped`` holds reasons."""

    added: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)


class Corpus:
    """Documents by name. Raises ``UserError`` where the file is none or cannot be written."""

    def __init__(self, name: str, folder: Path | None = None) -> None:
        if not _NAME.fullmatch(name):
            raise UserError(f"'{name}' is no corpus name: letters, digits, '-', '_' and '.'")
        self.name = name
        self.folder = folder or corpora() / name
        path = self.folder / "corpus.sqlite"
        self._file = SqliteFile(path, "corpus", (_SCHEMA,), fix="name another", durable=True)

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
                db.execute("insert or replace into documents values (?, ?, ?, ?, ?, ?)", row)
            changes.removed = sorted(set(known) - seen)
            db.executemany(
                "delete from documents where origin = ? and id = ?",
                [(origin, id_) for id_ in changes.removed],
            )
            if changes.added or changes.updated or changes.removed:
                db.execute("insert or replace into meta values ('revision', ?)", (uuid4().hex,))
            db.execute("insert or replace into meta values (?, ?)", (f"seen:{origin}", look))
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
        return [Document(*row) for row in self._file.query(query)]

    def passages(self, chunking: Chunking) -> list[Passage]:
        """Return every passage, in document order; passages with one id are kept once."""
        cuts = []
        for d in self.documents():
            try:
                cuts.append(cut(d.id, d.title, d.text, chunking))
            except ValueError as error:  # one document must not take the others with it
                logging.getLogger("stategate").warning("%s: not searched (%s)", d.id, error)
        return list({passage.id: passage for part in cuts for passage in part}.values())

    def fingerprint(self) -> str:
        """Return a word that changes whenever a document does: cheap to ask before each question."""
        return self._meta("revision") or "empty"

    def is_new(self) -> bool:
        """Say whether no document was ever kept here."""
        return self.fingerprint() == "empty"

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
    if name not in corpus_names():
        known = ", ".join(corpus_names()) or "none yet"
        raise UserError(
            f"no corpus '{name}' (there are: {known}): stategate ingest FOLDER --corpus {name}"
        )
    return Corpus(name)
