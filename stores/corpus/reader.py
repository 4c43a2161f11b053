"""Read HTML and PDF in a child process, within limits of time, memory, pages and text.

A file from outside can keep a parser busy for hours or fill the memory, whatever its size. The child
reads one file after another; where one exceeds a limit, the child ends, the file is reported, and the
next file gets a new child.
"""

import codecs
import os
import pickle
import re
import threading
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

from stategate.stores.errors import UserError
from stategate.stores.workers import Solve, WorkerProcess


class Unreadable(UserError):
    """Why a file gives no text."""


@dataclass(frozen=True)
class Limits:
    """What one file may take: seconds, bytes of memory, pages of a PDF, characters of text."""

    seconds: float = 20.0
    memory: int = 2 << 30
    pages: int = 5_000
    characters: int = 20_000_000


class Reader:
    """One child process, started when it is needed. Threads take turns."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self._child: WorkerProcess | None = None
        self._parent_pid = 0
        self._lock = threading.Lock()

    def read(self, raw: bytes, suffix: str, charset: str | None = None) -> tuple[str, str]:
        """Return title and text of a page (".html") or a PDF. Raises ``Unreadable``."""
        package = "pypdf" if suffix == ".pdf" else "bs4"
        if find_spec(package) is None:
            __import__(package)
        with self._lock:
            if self._child is None or self._parent_pid != os.getpid() or not self._child.is_alive():
                self._child, self._parent_pid = WorkerProcess({}, quiet=True), os.getpid()
                self._child.solve(pickle.dumps(partial(_start, self.limits)))
            answer = self._child.solve((raw, suffix, charset), self.limits.seconds)
            if answer.is_dead:
                self.close()
        if answer.is_dead:
            allowed = f"{self.limits.seconds:.0f} s, {self.limits.memory / 1e9:.0f} GB of memory"
            raise Unreadable(f"it cannot be read within {allowed} ({answer.problem})")
        if answer.problem is not None:
            raise Unreadable(answer.problem)
        title, text = answer.result
        return title, text

    def close(self) -> None:
        """End the child."""
        child, self._child = self._child, None
        if child is not None and self._parent_pid == os.getpid():
            child.end()


#: This process's reader.
shared = Reader()


def _start(limits: Limits) -> Solve:
    """Limit the memory of this process, the child, and return its job: :func:`_read`."""
    with suppress(ImportError):  # not on Windows: there the parent's timeout alone limits
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (limits.memory, limits.memory))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    return partial(_read, limits)


def _read(limits: Limits, job: tuple[bytes, str, str | None]) -> tuple[str, str]:
    """Return title and text of a file. Raises ``Unreadable``."""
    raw, suffix, charset = job
    try:
        title, text = _pdf_text(raw, limits) if suffix == ".pdf" else _html_text(raw, charset)
    except RecursionError:
        raise Unreadable("its parts are nested too deeply") from None
    except MemoryError:  # only the process's end frees its memory
        os._exit(1)
    if len(text) > limits.characters:
        raise Unreadable(f"more than {limits.characters / 1e6:.0f} million characters of text")
    return title, text


# Bytes to text --------------------------------------------------------------------------------------


def decode(raw: bytes, *charsets: str | None) -> str:
    """Decode text: UTF-16 with a byte-order mark, UTF-8, the first of ``charsets``, or Windows-1252.

    Raises ``Unreadable`` for bytes that are no text.
    """
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        with suppress(ValueError):
            return raw.decode("utf-16")
        raise Unreadable("says it is UTF-16, but is not")
    if b"\x00" in raw[:8192]:
        raise Unreadable("a binary file")
    for charset in ("utf-8-sig", *filter(None, charsets)):
        with suppress(LookupError, ValueError):
            if codecs.lookup(charset).name not in ("iso8859-1", "ascii"):  # the web's Windows-1252
                return raw.decode(charset)
    odd = sum(byte < 32 and byte not in b"\t\n\f\r" for byte in raw[:8192])
    high = sum(byte > 126 for byte in raw[:8192])
    if odd or high > 0.3 * len(raw[:8192]):
        raise Unreadable("neither UTF-8 nor readable as Windows-1252: save it as UTF-8")
    return raw.decode("cp1252", "replace")


def _html_text(raw: bytes, charset: str | None) -> tuple[str, str]:
    """Return title and text of a page, decoded as ``charset``, else as the page declares."""
    from bs4 import BeautifulSoup
    from bs4.dammit import EncodingDetector

    declared = EncodingDetector.find_declared_encoding(raw, is_html=True)
    content = re.sub(r"^\s*<\?xml[^>]*>", "", decode(raw, charset, declared))
    soup = BeautifulSoup(content, "html.parser")
    for tag in soup(["script", "style", "noscript", "template", "nav", "footer"]):
        tag.decompose()
    title = soup.title.extract().get_text(" ", strip=True) if soup.title else ""
    body = soup.find("main") or soup.find("article") or soup.body or soup
    _mark_blocks(body)
    lines = (" ".join(line.split()) for line in body.get_text("").splitlines())
    return title, re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


#: Block elements: each starts on a new line.
_BLOCKS = (
    "address article aside blockquote caption dd details div dl dt fieldset figcaption figure form"
    " header hr main ol p pre section summary table tbody thead ul"
).split()


def _mark_blocks(body: Any) -> None:
    """Rewrite headings, list items and table rows as Markdown; put each block on lines of its own."""
    for text in body.find_all(string=re.compile(r"\s")):
        if text.find_parent("pre") is None:
            text.replace_with(type(text)(re.sub(r"\s+", " ", text)))
    for tag in body.find_all("br"):
        tag.replace_with("\n")
    for row in body.find_all("tr"):
        if row.find("table") is None:  # a table within a table lays out the page
            cells = (cell.get_text(" ", strip=True) for cell in row.find_all(["td", "th"]))
            row.string = f"\n| {' | '.join(' '.join(cell.split()) for cell in cells)} |"
    for tag in body.find_all(re.compile(r"h[1-6]$")):
        tag.string = f"\n\n{'#' * int(tag.name[1])} {' '.join(tag.get_text(' ').split())}\n\n"
    for tag in body.find_all("li"):
        tag.insert(0, "\n- ")
    for tag in body.find_all(_BLOCKS):
        if tag.find_parent("li") is None:
            tag.insert_before("\n\n")
            tag.insert_after("\n\n")


def _pdf_text(raw: bytes, limits: Limits) -> tuple[str, str]:
    """Return title and text of a PDF."""
    import io

    from pypdf import PdfReader

    pages: list[str] = []
    characters = 0
    try:
        document = PdfReader(io.BytesIO(raw))
        if document.is_encrypted and not document.decrypt(""):
            raise Unreadable("an encrypted PDF")
        for number, page in enumerate(document.pages, 1):
            if number > limits.pages:
                raise Unreadable(f"more than {limits.pages} pages")
            pages.append(page.extract_text() or "")
            characters += len(pages[-1])
            if characters > limits.characters:
                break  # :func:`_read` reports it
        title = str((document.metadata.title if document.metadata else "") or "")
    except (Unreadable, MemoryError, RecursionError):
        raise
    except Exception as error:  # pypdf raises many kinds for broken files
        raise Unreadable(f"a broken PDF ({type(error).__name__})") from None
    return title, "\n\n".join(pages)
