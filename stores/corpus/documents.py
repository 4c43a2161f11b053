"""Files and web pages to documents: txt, md, html, pdf, json, csv and tsv, read as text.

A file that cannot be read is reported with the reason; the others are read. Document text is data:
nothing in it is ever run, rendered or followed.
"""

import hashlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from stategate.stores.corpus import reader
from stategate.stores.corpus.reader import Unreadable, decode
from stategate.stores.errors import UserError, describe_error
from stategate.stores.files import parse_json
from stategate.stores.http import on_loopback
from stategate.stores.text import without_line_breaks

MAX_BYTES = 20_000_000
_AGENT = "stategate (a research agent; its corpora keep the pages it has read)"
_PATIENCE = 120.0  # seconds until the whole page must have arrived
SUFFIXES = (".txt", ".md", ".html", ".htm", ".pdf", ".json", ".csv", ".tsv")


@dataclass(frozen=True)
class Document:
    """One text of a corpus. ``id`` is stable over fetches."""

    id: str
    title: str
    text: str

    @property
    def sha256(self) -> str:
        """The hash of title and text."""
        return hashlib.sha256(f"{self.title}\n{self.text}".encode("utf-8", "replace")).hexdigest()


@dataclass(frozen=True)
class Skipped:
    """A file or page without a document, and why; ``id`` is the one its document would have."""

    id: str
    why: str


def files_in(folder: Path) -> list[Path]:
    """Return the files under ``folder`` whose suffix can be read, sorted. Raises ``UserError``."""
    if folder.is_file():
        return [folder]
    if not folder.is_dir():
        raise UserError(f"no folder or file '{folder}': name one, or a URL")
    return [path for path in _files(folder) if path.suffix.lower() in SUFFIXES]


def _files(folder: Path) -> list[Path]:
    return sorted(
        p
        for p in folder.rglob("*")
        if p.is_file() and not any(part.startswith(".") for part in p.relative_to(folder).parts)
    )


def read_folder(folder: Path, max_bytes: int = MAX_BYTES) -> Iterator[Document | Skipped]:
    """Yield each file's document or :class:`Skipped`; files of other suffixes as one ``Skipped``.

    A link out of the folder is not followed: its author would choose which files of this machine
    are read.
    """
    base = folder if folder.is_dir() else folder.parent
    root = folder.resolve()
    for path in files_in(folder):
        id_ = _id_of(path.relative_to(base).as_posix())
        if folder.is_dir() and not path.resolve().is_relative_to(root):
            yield Skipped(id_, "a link that leads out of the folder")
        else:
            yield read_document(path, id_, max_bytes)
    suffixes = {p.suffix.lower() or p.name for p in _files(folder)}
    if others := sorted(suffixes.difference(SUFFIXES)):
        listed = ", ".join(map(_id_of, others))
        yield Skipped(listed, f"of a folder only {' '.join(SUFFIXES)} are read")


def _id_of(name: str) -> str:
    """Return a document's id from its file's name: one line of text, unique to the name."""
    raw = name.encode("utf-8", "surrogateescape")
    return "".join(
        c if without_line_breaks(c) == c else ascii(c)[1:-1]
        for c in raw.decode("utf-8", "backslashreplace")
    )


def read_document(path: Path, id_: str, max_bytes: int = MAX_BYTES) -> Document | Skipped:
    """Read one file. A fault becomes ``Skipped`` with the reason, never an exception."""
    try:
        size = path.stat().st_size
        if size > max_bytes:
            raise Unreadable(f"{size / 1e6:.0f} MB, {_over(max_bytes)}")
        title = " ".join(path.stem.replace("_", " ").split())
        return from_bytes(path.read_bytes(), path.suffix.lower(), id_, title)
    except Unreadable as problem:
        return Skipped(id_, str(problem))
    except OSError as error:
        return Skipped(id_, str(error.strerror or error))


def _over(max_bytes: int) -> str:
    return f"over {max_bytes / 1e6:.0f} MB: stategate ingest --max-mb reads more"


def from_bytes(
    raw: bytes, suffix: str, id_: str, title: str, charset: str | None = None
) -> Document:
    """Turn a file's or a page's bytes into a document by ``suffix`` (".html", ".pdf", …).

    ``charset`` is the web server's; it has precedence over the page's. Raises ``Unreadable``.
    """
    if suffix in (".pdf", ".html", ".htm"):
        inner_title, text = reader.shared.read(raw, suffix, charset)
    else:
        readers = {".json": _json, ".md": _markdown}
        content = decode(raw, charset)
        inner_title, text = readers[suffix](content) if suffix in readers else ("", content)
    text = text.replace("\r\n", "\n").replace("\x00", "")
    if not text.strip():
        raise Unreadable("there is no text in it")
    return Document(id_, inner_title or title, text)


def _markdown(content: str) -> tuple[str, str]:
    first, _, body = content.lstrip().partition("\n")
    if first.startswith("# "):
        return first[2:].strip(), body.strip() + "\n"
    return "", content


def _json(content: str) -> tuple[str, str]:
    try:
        value: Any = parse_json(content)
    except ValueError as error:
        raise Unreadable(f"broken JSON ({error})") from None
    article = value if isinstance(value, dict) else {}
    texts = (article.get(key) for key in ("content", "text", "body"))
    text = next((text for text in texts if isinstance(text, str)), content)
    return str(article.get("title") or "").strip(), text


# Pages from the web --------------------------------------------------------------------------------


def read_web(url: str, max_bytes: int = MAX_BYTES) -> Document | Skipped:
    """Return the document at a URL.

    A page that cannot be fetched is ``Skipped`` with the reason: a corpus keeps its earlier text.
    """
    try:
        content_type, charset, raw = _fetch(url)
        suffix = Path(urlsplit(url).path).suffix.lower()
        for media_type, extension in (("html", ".html"), ("pdf", ".pdf"), ("json", ".json")):
            suffix = extension if media_type in content_type else suffix
        document = from_bytes(raw, suffix, url, url, charset)
        if len(document.text.encode("utf-8", "replace")) > max_bytes:
            raise Unreadable(_over(max_bytes))
    except (OSError, Unreadable) as error:
        return Skipped(url, describe_error(error))
    return document


def _fetch(url: str) -> tuple[str, str | None, bytes]:
    """Return content type, charset and bytes of an answer.

    They are counted as they are unpacked: a small answer can hold gigabytes. Raises ``OSError``
    with the reason.
    """
    import httpx2

    deadline, content = time.monotonic() + _PATIENCE, bytearray()
    headers = {"User-Agent": _AGENT, "Accept-Encoding": "gzip"}
    settings: dict[str, Any] = {"follow_redirects": True, "trust_env": not on_loopback(url)}
    try:
        with (
            httpx2.Client(headers=headers, timeout=30, **settings) as client,
            client.stream("GET", url) as answer,
        ):
            answer.raise_for_status()
            packed = answer.headers.get("content-encoding", "gzip").strip().lower()
            if packed not in ("gzip", "x-gzip", "identity"):
                raise OSError(f"an answer packed by {packed[:40]}, which was not asked for")
            for part in answer.iter_bytes():
                content += part
                if len(content) > MAX_BYTES:
                    raise OSError(f"an answer of over {MAX_BYTES / 1e6:.0f} MB")
                if time.monotonic() > deadline:
                    raise OSError(f"no whole answer within {_PATIENCE:.0f} s")
            kind = answer.headers.get("content-type", "")
            return kind, answer.charset_encoding, bytes(content)
    except httpx2.HTTPStatusError as error:
        code = error.response.status_code
        raise OSError(
            f"the server answers {code} {error.response.reason_phrase}".strip()
        ) from error
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise OSError(str(error) or type(error).__name__) from error
