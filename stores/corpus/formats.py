"""Bytes of pages and PDFs to text. Run this in a child of its own (``stores.corpus.reader``)."""

import codecs
import re
from contextlib import suppress


class Unreadable(Exception):
    """Why a file gives no text."""


def decode(raw: bytes, charset: str | None = None) -> str:
    """Decode text: by its byte order mark, else by ``charset``, else as UTF-8 or as Windows-1252."""
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        charset = "utf-16"
    is_wide = _codec(charset).startswith(("utf-16", "utf-32"))
    if b"\x00" in raw[:8192] and not is_wide:
        raise Unreadable("a binary file")
    if is_wide:
        try:
            return raw.decode(_codec(charset))
        except ValueError:
            raise Unreadable(f"says it is {_codec(charset).upper()}, but is not") from None
    with suppress(ValueError):
        return raw.decode("utf-8-sig" if raw.startswith(b"\xef\xbb\xbf") else _codec(charset))
    if _codec(charset) not in ("utf-8", "cp1252"):
        with suppress(ValueError):
            return raw.decode(_codec(charset), "replace")
    odd = sum(byte < 32 and byte not in (9, 10, 12, 13) for byte in raw[:8192])
    high = sum(byte > 126 for byte in raw[:8192])
    if odd or high > 0.3 * len(raw[:8192]):
        raise Unreadable("neither UTF-8 nor readable as Windows-1252: save it as UTF-8")
    return raw.decode("cp1252", "replace")


def _codec(charset: str | None) -> str:
    """Return Python's name for a charset, UTF-8 if unknown; on the web Latin-1 is Windows-1252."""
    try:
        name = codecs.lookup(charset or "utf-8").name
        "".encode(name)  # refused for what is no charset, such as "hex"
    except (LookupError, ValueError):
        return "utf-8"
    return "cp1252" if name in ("iso8859-1", "ascii") else name


def html_text(raw: bytes, charset: str | None) -> tuple[str, str]:
    """Return title and text of a page, in the charset that came with it, else as it declares."""
    from bs4 import BeautifulSoup
    from bs4.dammit import EncodingDetector

    declared = EncodingDetector.find_declared_encoding(raw, is_html=True) or ""
    if declared.lower().startswith("utf-16"):  # then it could not have been read here
        declared = "utf-8"
    content = re.sub(r"^\s*<\?xml[^>]*>", "", decode(raw, charset or declared))
    soup = BeautifulSoup(content, "html.parser")
    for tag in soup(["script", "style", "noscript", "template", "nav", "footer"]):
        tag.decompose()
    title = soup.title.extract().get_text(" ", strip=True) if soup.title else ""
    body = soup.find("main") or soup.find("article") or soup.body or soup
    lines = (" ".join(line.split()) for line in body.get_text("\n").splitlines())
    return title, "\n".join(line for line in lines if line)


def pdf_text(raw: bytes, most_pages: int, most_characters: int) -> tuple[str, str]:
    """Return title and text of a PDF of at most so many pages and characters."""
    import io
    import logging

    from pypdf import PdfReader

    # What is wrong with a file is told by its reason, once; pypdf's own remarks are noise beside it.
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    try:
        document = PdfReader(io.BytesIO(raw))
        if document.is_encrypted and not document.decrypt(""):
            raise Unreadable("an encrypted PDF")
        pages: list[str] = []
        left = most_characters
        for number, page in enumerate(document.pages, 1):
            if number > most_pages:
                raise Unreadable(f"more than {most_pages} pages")
            pages.append(page.extract_text() or "")
            left -= len(pages[-1])
            if left < 0:
                raise Unreadable(
                    f"more than {most_characters / 1e6:.0f} million characters of text"
                )
        title = str((document.metadata.title if document.metadata else "") or "")
    except (Unreadable, MemoryError):
        raise
    except Exception as error:  # pypdf raises many kinds for broken files
        raise Unreadable(f"a broken PDF ({type(error).__name__})") from None
    return title, "\n\n".join(pages)
