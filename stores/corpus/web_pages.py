"""Pages from the web, and Wikipedia articles through its API."""

import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote, urljoin, urlsplit

from stategate.stores.corpus.documents import MAX_BYTES, Document, Skipped, from_bytes
from stategate.stores.errors import describe_error
from stategate.stores.files import parse_json
from stategate.stores.http import limited_answers, on_loopback

#: Another Wikipedia, or a mirror: ``STATEGATE_WIKIPEDIA=https://de.wikipedia.org/w/api.php``.
API_VARIABLE, API = "STATEGATE_WIKIPEDIA", "https://en.wikipedia.org/w/api.php"
_AGENT = "stategate (a research agent; its corpora keep the pages it has read)"
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)
_PATIENCE = 120.0  # seconds that a page may take to come


def is_web(name: str) -> bool:
    """Say whether ``name`` is a URL or a ``wikipedia:TITLE``, and no folder."""
    return name.lower().startswith(("http://", "https://", "wikipedia:"))


def read_web(name: str, max_bytes: int = MAX_BYTES) -> Document | Skipped:
    """Return the document at a URL or of a Wikipedia title.

    A page that cannot be fetched is ``Skipped`` with the reason: a corpus keeps its earlier text.
    """
    try:
        read = _wikipedia if name.lower().startswith("wikipedia:") else _page
        document = read(name)
    except OSError as error:
        return Skipped(name, describe_error(error))
    if isinstance(document, Skipped):
        return document
    if len(document.text.encode("utf-8", "replace")) > max_bytes:
        return Skipped(name, f"over the limit of {max_bytes / 1e6:.0f} MB (--max-mb)")
    return document


def _api() -> str:
    return os.environ.get(API_VARIABLE) or API


def _wikipedia(name: str) -> Document | Skipped:
    title = name.partition(":")[2].strip()
    query = {
        "action": "query",
        "prop": "extracts|info",
        "explaintext": "1",
        "redirects": "1",
        "inprop": "url",
        "format": "json",
        "formatversion": "2",
        "titles": title,
    }
    _, raw = _fetch(_api(), query)
    try:
        pages: list[dict[str, Any]] = parse_json(raw)["query"]["pages"]
    except (ValueError, KeyError, TypeError):
        return Skipped(name, "Wikipedia's API gave no answer that can be read")
    page = pages[0] if pages else {}
    if page.get("missing") or not page.get("extract"):
        return Skipped(name, f"Wikipedia has no article '{title}'")
    address = page.get("fullurl") or urljoin(_api(), f"/wiki/{quote(title)}")
    return Document(name, name, str(page["title"]), str(page["extract"]), str(address))


def _page(url: str) -> Document | Skipped:
    kind, raw = _fetch(url, {})
    suffix = Path(urlsplit(url).path).suffix.lower()
    for word, of_kind in (("html", ".html"), ("pdf", ".pdf"), ("json", ".json")):
        suffix = of_kind if word in kind else suffix
    charset = _CHARSET.search(kind)
    return from_bytes(raw, suffix, url, url, url, url, charset[1] if charset else None)


def _fetch(url: str, query: dict[str, str]) -> tuple[str, bytes]:
    """Return content type and bytes. Raises ``OSError`` with the reason."""
    import httpx2

    try:
        with httpx2.Client(
            follow_redirects=True,
            timeout=30,
            trust_env=not on_loopback(url),
            **limited_answers(MAX_BYTES, seconds=_PATIENCE),
        ) as client:
            answer = client.get(url, params=query or None, headers={"User-Agent": _AGENT})
            answer.raise_for_status()
            return answer.headers.get("content-type", ""), answer.content
    except httpx2.HTTPStatusError as error:
        code = error.response.status_code
        raise OSError(
            f"the server answers {code} {error.response.reason_phrase}".strip()
        ) from error
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise OSError(str(error) or type(error).__name__) from error
