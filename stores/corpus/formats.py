"""Bytes of pages and PDFs to text. Run this in a child of its own (``stores.corpus.reader``)."""

import codecs
import re
from contextlib import suppress
from typing import Any


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
    _mark_blocks(body)
    lines = (" ".join(line.split()) for line in body.get_text("").splitlines())
    return title, re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


#: What begins a line of its own.
_BLOCKS = (
    "address",
    "article",
    "aside",
    "blockquote",
    "caption",
    "dd",
    "details",
    "div",
    "dl",
    "dt",
    "fieldset",
    "figcaption",
    "figure",
    "form",
    "header",
    "hr",
    "main",
    "ol",
    "p",
    "pre",
    "section",
    "summary",
    "table",
    "tbody",
    "thead",
    "ul",
)


def _mark_blocks(body: Any) -> None:
    """Write headings, items of lists and rows of tables as Markdown does, each block on its lines."""
    for text in body.find_all(string=re.compile(r"\s")):
        if text.find_parent("pre") is None:
            text.replace_with(type(text)(re.sub(r"\s+", " ", text)))
    for tag in body.find_all("br"):
        tag.replace_with("\n")
    for row in body.find_all("tr"):
        if row.find("table") is None:  # not one that only lays out the page
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


def mail_text(raw: bytes) -> tuple[str, str]:
    """Return subject and text of an e-mail: who wrote to whom and when, then what."""
    from email import message_from_bytes, policy

    try:
        message = message_from_bytes(raw, policy=policy.default)
        part = message.get_body(("plain", "html"))
        text = "" if part is None else str(part.get_content())
        if part is not None and part.get_content_type() == "text/html":
            _, text = html_text(text.encode(), "utf-8")
        heads = [f"{name}: {message[name]}" for name in ("From", "To", "Date") if message[name]]
        title = str(message["Subject"] or "")
    except Exception as error:  # broken parts, unknown charsets
        raise Unreadable(f"a broken e-mail ({type(error).__name__})") from None
    said = re.sub(r"^(?:> ?)+", "", text, flags=re.MULTILINE)
    return title, "\n\n".join([*heads, said])


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
