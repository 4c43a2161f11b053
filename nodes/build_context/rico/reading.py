"""Documents from a user's files: a folder of texts, JSON or JSON lines, or one such file."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nodes.build_context.rico.backend import Document
from stores.corpus.chunking import Chunking, Passage, cut
from stores.errors import UserError

_TEXT = (".txt", ".md")
_JSON = (".json", ".jsonl")
#: How long texts are cut: what a question-answering corpus does unless told otherwise.
_CHUNKING = "fixed-256-50"


def read_documents(source: str) -> list[Document]:
    """Return the documents of a folder (recursively, by name), of a file, or of a named corpus.

    A text file is titled by its name, and cut into passages where it is long. JSON holds
    ``{"title", "text"}`` objects, a list of them, or ``{"documents": [...]}``. Raises ``UserError``.
    """
    path = Path(source).expanduser()
    if not path.exists():
        return named_corpus(source)
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    files = [file for file in files if file.suffix.lower() in (*_TEXT, *_JSON)]
    documents = [document for file in files for document in _documents(file)]
    if not documents:
        raise UserError(
            f"no documents in '{source}': put {', '.join((*_TEXT, *_JSON))} files there"
        )
    return documents


def named_corpus(name: str) -> list[Document]:
    """Return the passages of a corpus that was ingested under ``name``, or of the sample.

    Raises ``UserError`` if there is none of that name.
    """
    from nodes.observe.qa import QaEnv
    from stores.corpus.corpus import corpus_names

    if name not in ("sample", *corpus_names()):
        known = ", ".join(("sample", *corpus_names()))
        raise UserError(
            f"no folder, file or corpus '{name}': corpora are {known}; give a folder or file with "
            "documents, or stategate ingest FOLDER --corpus NAME"
        )
    passages = QaEnv(corpus=name).open().passages(Chunking.parse(_CHUNKING))
    return [_passage(passage) for passage in passages]


def _cut(title: str, text: str) -> list[Document]:
    """Return a text as passages that the weigher reads whole, one where it is short."""
    return [_passage(passage) for passage in cut("", title, text, Chunking.parse(_CHUNKING))]


def _passage(passage: Passage) -> Document:
    """Return a passage as the ``rico`` context reads it, so that its state is found again."""
    return Document(" ".join(passage.title.split()), " ".join(passage.text.split()))


def _documents(file: Path) -> Iterator[Document]:
    try:
        text = file.read_text(encoding="utf-8")
        if file.suffix.lower() in _TEXT:
            yield from _cut(file.stem.replace("_", " "), text)
        elif file.suffix.lower() == ".jsonl":
            for line in text.split("\n"):
                if line.strip():
                    yield from _objects(json.loads(line), file)
        else:
            yield from _objects(json.loads(text), file)
    except (OSError, ValueError) as error:
        problem = " ".join(str(error).split())
        raise UserError(f"cannot read '{file}' ({problem}): mend or remove it") from None


def _objects(value: Any, file: Path) -> Iterator[Document]:
    if isinstance(value, dict) and isinstance(value.get("documents"), list):
        value = value["documents"]
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, str):
            yield Document("", item)
        elif isinstance(item, dict) and isinstance(item.get("text"), str):
            yield Document(str(item.get("title") or ""), item["text"])
        else:
            raise UserError(f'\'{file}\' holds no title and text: write {{"title": …, "text": …}}')
