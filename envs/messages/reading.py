"""A tool's result split into parts by its format: outline, markdown, table, log, or text.

``spans`` returns parts that make sense by themselves (a record, a row, a log entry, a sentence). A
part that explains later ones (a key, a heading, a header row, a line with a colon) *leads* them: a
builder that shows one of them shows its leads too.
"""

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Literal

from stategate.envs.messages.outline import Outline

Format = Literal["outline", "markdown", "table", "log", "text"]

_LONG = 360  # characters above which a part is split further, if it can be
_TAG = re.compile(r"<!--|<(/?)([a-zA-Z!][\w:-]*)([^<>]*)>")
#: The closing tag of each HTML element that a browser does not show.
_HIDDEN = {
    name: re.compile(rf"</{name}\s*>", re.I)
    for name in ("script", "style", "head", "noscript", "svg")
} | {"!--": re.compile("-->")}
#: Elements that a browser begins on a line of their own.
_BLOCKS = frozenset(
    "p div br li tr h1 h2 h3 h4 h5 h6 table section article ul ol dl dt dd pre blockquote form nav "
    "header footer main aside body".split()
)
_ADDRESS = re.compile(r"\bhref\s*=\s*[\"']?([^\"'\s>]+)", re.I)
_CLOCK = re.compile(
    r"^\W{0,2}(?:\d{4}[-/]\d\d[-/]\d\d|\d\d[-/:]\d\d[-/:]\d\d|[A-Z][a-z]{2}\s+\d{1,2}\s+\d\d:|"
    r"\d{10,13}\b|\[?(?:DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|FATAL|CRITICAL|TRACE)\b)"
)
_HEADING = re.compile(r"^(#{1,6})\s+\S")
_MARKED = re.compile(r"^(?:#{1,6}\s|\s*[-*+]\s|\s*\d+[.)]\s|```|>\s|\|)")
_CODE = re.compile(r"^\s*(?:def|class|import|function|const|return|func|fn|#include)\b")
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=\S)")


@dataclass(frozen=True)
class Span:
    """``text[start:end]``; ``leads`` are the indices of the spans that lead it, outermost first."""

    start: int
    end: int
    leads: tuple[int, ...] = ()
    is_lead: bool = False


def format_of(text: str) -> Format:
    """Return the format of ``text``, "text" if no other fits."""
    if isinstance(text, Outline):
        return "outline"
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) >= 3:
        if _is_table(lines):
            return "table"
        if sum(bool(_CLOCK.match(line)) for line in lines) >= 0.5 * len(lines):
            return "log"
        if any(map(_HEADING.match, lines)) and not any(map(_CODE.match, lines)):
            return "markdown"
        if sum(bool(_MARKED.match(line)) for line in lines) >= 0.4 * len(lines):
            return "markdown"
    return "text"


@lru_cache(maxsize=2048)
def spans(text: str) -> tuple[Span, ...]:
    """Split ``text`` into adjacent spans; joined they are ``text``."""
    if not text:
        return ()
    cut = {
        "outline": _outline_spans,
        "markdown": _markdown_spans,
        "table": _table_spans,
        "log": _log_spans,
        "text": _text_spans,
    }[format_of(text)]
    parts = _Parts(text)
    cut(parts)
    return _covering(parts.spans, len(text))


def is_html(text: str) -> bool:
    """Say whether ``text`` is HTML: it begins as a page does, or has many tags."""
    start = text.lstrip()[:20_000]
    is_page = re.match(r"<!doctype html|<html\b", start, re.I) is not None
    return is_page or len(_TAG.findall(start)) >= max(4, len(start) // 400)


def readable(page: str) -> str:
    """Return the visible text of HTML, a line for each block, with marked headings and link addresses.

    ``<h2>One</h2><p>See <a href="x.html">two</a></p>`` becomes "## One" and "See two (x.html)".
    """
    texts: list[str] = []
    unclosed: set[str] = set()  # searched once: a page may open one element ten thousand times
    link, at = "", 0
    page = page.replace("\n", " ")
    while match := _TAG.search(page, at):
        texts += [page[at : match.start()], " "]
        at = match.end()
        name = (match[2] or "!--").lower()
        if name in _HIDDEN and not match[1] and name not in unclosed:
            if closing := _HIDDEN[name].search(page, at):
                at = closing.end()
            else:
                unclosed.add(name)
        elif name in _BLOCKS:
            is_heading = name[0] == "h" and name[1:].isdigit() and not match[1]
            texts[-1] = f"\n{'#' * int(name[1:])} " if is_heading else "\n"
        elif name == "a" and match[1]:
            texts[-1] = f" ({link})" if link else " "
            link = ""
        elif name == "a" and not link and (address := _ADDRESS.search(match[3])):
            link = address[1]
    texts.append(page[at:])
    lines = (" ".join(html.unescape(line).split()) for line in "".join(texts).split("\n"))
    return "\n".join(filter(None, lines))


# Each format --------------------------------------------------------------------------------------


class _Parts:
    """Builder of ``text``'s spans. Its stack of open heads (level, span index) leads what is added."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.spans: list[Span] = []
        self._heads: list[tuple[int, int]] = []

    def add(self, start: int, end: int, is_lead: bool = False) -> int:
        """Add a span, led by the open heads; return its index."""
        leads = tuple(index for _, index in self._heads)
        self.spans.append(Span(start, end, leads, is_lead))
        return len(self.spans) - 1

    def close(self, level: int) -> None:
        """Close the heads of this level and below."""
        self._heads = [head for head in self._heads if head[0] < level]

    def head(self, level: int, start: int, end: int) -> None:
        """Add a head, which leads what follows until one of its level or above."""
        self.close(level)
        self._heads.append((level, self.add(start, end, is_lead=True)))

    def fill(self, start: int, end: int) -> None:
        """Add a stretch, sentence by sentence where it is long."""
        is_short = end - start <= _LONG
        for a, b in [(start, end)] if is_short else _sentences(self.text, start, end):
            self.add(a, b)


def _outline_spans(parts: _Parts) -> None:
    """Add the lines; a name, a table's header and an item's first value lead what is below them."""
    first: tuple[int, int] | None = None  # start and indentation of an item that begins with names
    for start, end in _lines(parts.text):
        line = parts.text[start:end].rstrip()
        indent = len(line) - len(line.lstrip())
        is_item = first is not None or line.startswith("- ", indent)
        start, indent = first or (start, indent)
        first = (start, indent) if is_item and re.search(r"[^}]:\Z", line) else None
        if first:
            continue
        parts.close(indent)
        if is_item or line.endswith((":", ": |", ": |-")):
            parts.head(indent, start, end)
        elif end - start <= 2 * _LONG:
            parts.add(start, end)
        else:  # its beginning has its key, or its row's id
            beginning, *rest = _sentences(parts.text, start, end)
            parts.head(indent, *beginning)
            for piece in rest:
                parts.add(*piece)


def _markdown_spans(parts: _Parts) -> None:
    fenced = False
    for start, end in _lines(parts.text):
        line = parts.text[start:end]
        fenced ^= line.lstrip().startswith("```")
        match = None if fenced else _HEADING.match(line)
        if match:
            parts.head(len(match[1]), start, end)
        elif fenced:
            parts.add(start, end)
        else:
            parts.fill(start, end)


def _table_spans(parts: _Parts) -> None:
    for i, (start, end) in enumerate(_lines(parts.text)):
        if not i or (i == 1 and not re.search(r"\w", parts.text[start:end])):  # |---|---|
            parts.head(i, start, end)
        else:
            parts.add(start, end)


def _log_spans(parts: _Parts) -> None:
    """Add one span per entry: lines without a time belong to the entry before."""
    text = parts.text
    for start, end in _cuts([a for a, b in _lines(text) if _CLOCK.match(text[a:b])], text):
        parts.add(start, end)


def _text_spans(parts: _Parts) -> None:
    """Add lines and sentences; a line that ends with a colon leads what is indented below it."""
    for start, end in _lines(parts.text):
        line = parts.text[start:end]
        indent = len(line) - len(line.lstrip())
        parts.close(indent)
        if line.rstrip().endswith(":") and end - start <= _LONG:
            parts.head(indent, start, end)
        else:
            parts.fill(start, end)


# Common -------------------------------------------------------------------------------------------


def _lines(text: str) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of each line that is not blank, with the blank lines after it."""
    starts: list[int] = []
    at = 0
    for line in text.splitlines(keepends=True):
        if line.strip():
            starts.append(at)
        at += len(line)
    yield from _cuts(starts, text)


def _cuts(starts: Sequence[int], text: str) -> Iterator[tuple[int, int]]:
    edges = sorted({0, *starts, len(text)})
    yield from pairwise(edges)


def _sentences(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of each sentence; one of more than 2 × ``_LONG`` is cut at spaces, commas."""
    edges = [start, *(start + m.end() for m in _SENTENCE.finditer(text[start:end])), end]
    for a, b in pairwise(sorted(set(edges))):
        while b - a > 2 * _LONG:
            space = max(text.rfind(mark, a + _LONG // 2, a + _LONG) for mark in " ,")
            middle = space + 1 if space > 0 else a + _LONG
            yield a, middle
            a = middle
        yield a, b


def _covering(cut: Sequence[Span], length: int) -> tuple[Span, ...]:
    """Return the spans, each extended to the start of the next, so that they cover the text."""
    if not cut:
        return (Span(0, length),)
    ends = [*(span.start for span in cut[1:]), length]
    starts = [0, *ends[:-1]]
    return tuple(
        Span(start, end, span.leads, span.is_lead)
        for span, start, end in zip(cut, starts, ends, strict=True)
    )


def _is_table(lines: Sequence[str]) -> bool:
    """Say whether most lines hold the same number of one column separator, and are not prose."""
    for mark in ("|", "\t", ",", ";"):
        counts = [line.count(mark) for line in lines]
        mode = max(set(counts), key=counts.count)
        is_prose = mark in ",;" and any(". " in line for line in lines[:3])
        is_regular = mode >= 1 + (mark == ",") and counts.count(mode) >= 0.85 * len(counts)
        if is_regular and not is_prose:
            return True
    return False
