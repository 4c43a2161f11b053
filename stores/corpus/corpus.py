"""A corpus: the documents that were ingested under one name, in a SQLite file or a shared database.

Texts are kept whole; passages are cut from them on demand, so one corpus serves every chunking.
Ingesting again changes what changed and removes what is gone from the same origin.

Passages and their BM25 index are kept beside it, in a folder named by a hash of the documents, the
chunking and the libraries that cut and index: those determine both.
"""

import hashlib
import json
import re
import shutil
from collections.abc import Iterable
from dataclasses import astuple, dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from uuid import uuid4

import sqlalchemy as sa

from stategate.stores.corpus.chunking import Chunking, Passage, cut_passages
from stategate.stores.corpus.documents import Document, Skipped
from stategate.stores.corpus.lexical import Lexical
from stategate.stores.errors import UNREADABLE, UserError
from stategate.stores.files import parse_json, write_bytes
from stategate.stores.home import home
from stategate.stores.progress import Progress
from stategate.stores.sql import Database, Schema, Text, create_tables, is_database, split_place

_metadata = sa.MetaData()
_documents = sa.Table(
    "documents",
    _metadata,
    sa.Column("id", Text, primary_key=True),
    sa.Column("origin", Text, primary_key=True),
    *(sa.Column(name, Text, nullable=False) for name in ("title", "text", "sha256")),
    # The address of a page, which is its id: earlier versions wrote it.
    sa.Column("url", Text, nullable=False, default=""),
    sqlite_with_rowid=False,
)
#: ``revision`` changes with every change of a document; ``seen:ORIGIN`` is the origin's signature.
_meta = sa.Table(
    "meta",
    _metadata,
    sa.Column("key", Text, primary_key=True),
    sa.Column("value", Text, nullable=False),
    sqlite_with_rowid=False,
)
_CORPUS = Schema(
    "corpus",
    (create_tables(_documents, _meta),),
    fix="name another",
    mend="delete it and ingest its documents again",
    durable=True,
)
_FORMAT = "3"  # of prepared files
_LIBRARIES = ("bm25s", "PyStemmer", "tiktoken")
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
        """The ids of the documents in the corpus after the ingest."""
        return [*self.added, *self.updated, *self.unchanged]

    def extend(self, more: "Changes") -> None:
        """Add the changes of another ingest."""
        for name, items in vars(more).items():
            getattr(self, name).extend(items)


class Corpus:
    """The documents under a name, or in shared tables (``$STATEGATE_POSTGRES#notes``).

    Raises ``UserError`` where the name is invalid or the database cannot be written.
    """

    def __init__(self, name: str, folder: Path | None = None, *, create: bool = True) -> None:
        self.name, self.is_shared = name, is_database(name)
        #: ``title`` names its indexes; ``identity`` tells corpora of one name apart.
        self.title = name
        if self.is_shared:
            url, self.title = split_place(name, "main")
            digest = hashlib.sha256(f"{url}#{self.title}".encode()).hexdigest()[:12]
            folder = corpora().parent / "folders" / f"shared-{digest}"
            folder.mkdir(parents=True, exist_ok=True)
        require_corpus_name(name)
        self.folder = folder or corpora() / name
        self.identity = f"shared {self.title}" if self.is_shared else str(self.folder)
        # A folder's documents can be read again (a cache); what was ingested under a name cannot.
        schema = replace(_CORPUS, is_cache=folder is not None)
        self._db = Database(
            name if self.is_shared else self.folder / "corpus.sqlite", schema, create=create
        )

    def sync(
        self, origin: str, items: Iterable[Document | Skipped], signature: str = ""
    ) -> Changes:
        """Replace ``origin``'s documents by ``items``, in one transaction; return what changed.

        A file that is skipped now but was read before keeps its earlier text: it still exists.
        ``signature`` is kept (see :meth:`looked`): an origin with the same one need not be read again.
        """
        changes, item_ids = Changes(), set()
        c = _documents.c
        with self._db.write() as db:
            query = sa.select(c.id, c.sha256).where(c.origin == origin)
            hashes = {row.id: row.sha256 for row in db.execute(query)}
            for item in items:
                item_ids.add(item.id)
                if isinstance(item, Skipped):
                    changes.skipped.append(item)
                    continue
                old = hashes.get(item.id)
                if old == item.sha256:
                    changes.unchanged.append(item.id)
                    continue
                (changes.added if old is None else changes.updated).append(item.id)
                values = {**vars(item), "origin": origin, "sha256": item.sha256}
                put = self._db.insert(_documents).values(values)
                db.execute(put.on_conflict_do_update(index_elements=["id", "origin"], set_=values))
            changes.removed = sorted(set(hashes) - item_ids)
            for id_ in changes.removed:
                db.execute(_documents.delete().where(c.origin == origin, c.id == id_))
            if changes.added or changes.updated or changes.removed:
                self._set_meta(db, "revision", uuid4().hex)
            self._set_meta(db, f"seen:{origin}", signature)
        return changes

    def _set_meta(self, db: sa.Connection, key: str, value: str) -> None:
        new = self._db.insert(_meta).values(key=key, value=value)
        db.execute(new.on_conflict_do_update(index_elements=["key"], set_={"value": value}))

    def looked(self, origin: str) -> str:
        """Return the signature of the origin at its last sync, "" if there was none."""
        return self._get_meta(f"seen:{origin}")

    def _get_meta(self, key: str) -> str:
        return self._db.scalar(sa.select(_meta.c.value).where(_meta.c.key == key)) or ""

    def documents(self) -> list[Document]:
        """Return all documents, by id."""
        c = _documents.c
        query = sa.select(c.id, c.title, c.text).order_by(c.id, c.origin)
        return [Document(*row) for row in self._db.rows(query)]

    def passages(self, chunking: Chunking) -> list[Passage]:
        """Return every passage, in document order; passages with one id are kept once."""
        by_id: dict[str, Passage] = {}
        for d in Progress(self.documents(), "cut", unit="document"):
            by_id |= {p.id: p for p in cut_passages(d.id, d.title, d.text, chunking)}
        return list(by_id.values())

    def fingerprint(self) -> str:
        """Return the revision, which changes with every document: cheap to read before a question."""
        return self._get_meta("revision") or "empty"

    def is_new(self) -> bool:
        """Say whether the corpus never held a document."""
        return self.fingerprint() == "empty"


def require_corpus_name(name: str) -> None:
    """Raise ``UserError`` if a corpus can't have that name."""
    if not is_database(name) and not _NAME.fullmatch(name):
        raise UserError(f"'{name}' is no corpus name: up to 41 letters, digits, '-', '_' and '.'")


def corpora() -> Path:
    """Return the folder that holds the corpora."""
    return home() / "corpora"


def corpus_names() -> list[str]:
    """Return the names of the corpora that were ingested here."""
    folder = corpora()
    return sorted(p.parent.name for p in folder.glob("*/corpus.sqlite")) if folder.is_dir() else []


def open_corpus(name: str) -> Corpus:
    """Open an existing corpus. Raises ``UserError`` that lists the existing ones."""
    if is_database(name):
        return Corpus(name, create=False)
    if name not in corpus_names():
        names = ", ".join(dict.fromkeys(["sample", *corpus_names()]))
        is_name = _NAME.fullmatch(name)
        fix = (
            f"stategate ingest FOLDER --corpus {name}" if is_name else "name a folder that is here"
        )
        raise UserError(f"no corpus or folder '{name}' (corpora: {names}): {fix}")
    return Corpus(name)


def prepare(corpus: Corpus, chunking: Chunking) -> tuple[list[Passage], Lexical]:
    """Return a corpus's passages and their BM25 index, from the prepared files or made and saved.

    Hold the corpus's lock. Damaged files are made anew; where files cannot be written (a full or
    read-only disk), passages and index are made at each call.
    """
    # What is changed while it is cut is kept under the old revision, which nobody asks for again.
    libraries = (f"{name} {version(name)}" for name in _LIBRARIES)
    parts = (_FORMAT, str(chunking), corpus.fingerprint(), *libraries)
    key = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
    folder = corpus.folder / "prepared"
    target = folder / f"{chunking}-{key}.json"
    try:
        kept = parse_json(target.read_bytes())
        passages = [Passage(*row) for row in kept["passages"]]
        lexical = Lexical.from_json(kept["bm25"])
        if len(lexical) == len(passages):
            return passages, lexical
    except UNREADABLE:
        pass
    passages = corpus.passages(chunking)
    lexical = Lexical([titled(passage) for passage in passages])
    try:
        kept = {"passages": list(map(astuple, passages)), "bm25": lexical.to_json()}
        write_bytes(target, json.dumps(kept).encode())
        for old in {*folder.glob(f"{chunking}-*")} - {target}:
            shutil.rmtree(old) if old.is_dir() else old.unlink()
    except (UserError, OSError):
        pass
    return passages, lexical


def titled(passage: Passage) -> str:
    """Return the text by which a passage is found: its title, then its words."""
    return f"{passage.title}. {passage.text}" if passage.title else passage.text
