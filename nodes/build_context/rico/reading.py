"""Documents from a user's files: a folder of texts, JSON or JSON lines, or one such file."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nodes.build_context.rico.backend import Document
from stores.errors import UserError

_TEXT = (".txt", ".md")
_JSON = (".json", ".jsonl")


def read_documents(source: str) -> list[Document]:
    """Return the documents of a folder (recursively, by name), of a file, or of a named corpus.

    A text file is one document, titled by its name. JSON holds ``{"title", "text"}`` objects, a
    list of them, or ``{"documents": [...]}``. Raises ``UserError``.
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
    """Return the documents of a corpus that was ingested under ``name``.

    The one place to plug named corpora in. Raises ``UserError`` while there are none.
    """
    raise UserError(
        f"no folder or file '{name}': give one with .txt, .md, .json or .jsonl documents"
    )


def _documents(file: Path) -> Iterator[Document]:
    try:
        text = file.read_text(encoding="utf-8")
        if file.suffix.lower() in _TEXT:
            yield Document(file.stem.replace("_", " "), text.strip())
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
