"""Pages from the web."""

import re
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from stategate.stores.corpus.documents import MAX_BYTES, Document, Skipped, from_bytes
from stategate.stores.errors import describe_error
from stategate.stores.http import on_loopback

_AGENT = "stategate (a research agent; its corpora keep the pages it has read)"
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)
_PATIENCE = 120.0  # seconds that a page may take to come


def is_web(name: str) -> bool:
    """Say whether ``name`` is a URL, and no folder."""
    return name.lower().startswith(("http://", "https://"))


def read_web(url: str, max_bytes: int = MAX_BYTES) -> Document | Skipped:
    """Return the document at a URL.

    A page that cannot be fetched is ``Skipped`` with the reason: a corpus keeps its earlier text.
    """
    try:
        kind, raw = _fetch(url)
    except OSError as error:
        return Skipped(url, describe_error(error))
    suffix = Path(urlsplit(url).path).suffix.lower()
    for word, of_kind in (("html", ".html"), ("pdf", ".pdf"), ("json", ".json")):
        suffix = of_kind if word in kind else suffix
    charset = _CHARSET.search(kind)
    document = from_bytes(raw, suffix, url, url, url, url, charset[1] if charset else None)
    if isinstance(document, Skipped):
        return document
    if len(document.text.encode("utf-8", "replace")) > max_bytes:
        return Skipped(url, f"over the limit of {max_bytes / 1e6:.0f} MB (--max-mb)")
    return document


def _fetch(url: str) -> tuple[str, bytes]:
    """Return content type and bytes, counted as they are unpacked: a small answer can hold gigabytes.

    Raises ``OSError`` with the reason.
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
            return answer.headers.get("content-type", ""), bytes(content)
    except httpx2.HTTPStatusError as error:
        code = error.response.status_code
        raise OSError(
            f"the server answers {code} {error.response.reason_phrase}".strip()
        ) from error
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise OSError(str(error) or type(error).__name__) from error
