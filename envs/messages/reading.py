"""A tool's result split into parts by its format: outline, HTML, markdown, table, log, or text.

``spans`` returns parts that make sense by themselves (a record, a row, a log entry, a sentence). A
part that explains later ones (a key, a heading, a header row, a line with a colon) *leads* them: a
builder that shows one of them shows its leads too.
"""

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Literal, TypeAlias

from stategate.envs.messages.outline import Outline
from stategate.stores.text import words_of
from stategate.stores.tokens import count_tokens

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
_CODE = re.compile(r"^\s*(?:def|class|import|function|const|return|func|fn|#include)\b")
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=\S)")


@dataclass(frozen=True, eq=False)
class Span:
    """A part of a result, its ``number``-th; ``leads`` are the parts that lead it, outermost first."""

    number: int
    text: str
    leads: "tuple[Span, ...]" = ()
    is_lead: bool = False

    @property
    def visible_text(self) -> str:
        """The part as a model would read it."""
        return self.text.strip()

    @cached_property
    def size(self) -> int:
        """Its tokens, with a line break."""
        return count_tokens(self.visible_text) + 1 if self.visible_text else 0

    @cached_property
    def words(self) -> frozenset[str]:
        """The stems of its words and of its leads'."""
        return frozenset(words_of(self.text)).union(*(lead.words for lead in self.leads))


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
    return "text"


@lru_cache(maxsize=2048)
def spans(text: str) -> tuple[Span, ...]:
    """Split ``text`` into adjacent spans; joined they are ``text``."""
    if not text:
        return ()
    cut = {
        "html": _html_cuts,
        "outline": _outline_cuts,
        "markdown": _markdown_cuts,
        "table": _table_cuts,
        "log": _log_cuts,
        "text": _text_cuts,
    }["html" if is_html(text) else format_of(text)]
    cuts = list(cut(text)) or [(0, _DEEP, False)]
    ends = [*(start for start, *_ in cuts[1:]), len(text)]
    parts: list[Span] = []
    leads: list[tuple[int, Span]] = []  # (level, part), outermost first
    for (start, level, is_lead), end in zip(cuts, ends, strict=True):
        leads = [lead for lead in leads if lead[0] < level]
        parts.append(Span(len(parts), text[start:end], tuple(part for _, part in leads), is_lead))
        if is_lead:
            leads.append((level, parts[-1]))
    return tuple(parts)


def is_html(text: str) -> bool:
    """Say whether ``text`` is HTML: it begins with a page or with a block element (XML does not)."""
    first = _TAG.match(text.lstrip())
    name = first[2].lower() if first and first[2] else ""
    return name in ("!doctype", "html", "head") or name in _BLOCKS


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

#: A part's start, its level, and whether it leads; it ends the leads of its level and of deeper ones.
Cut: TypeAlias = tuple[int, int, bool]
_DEEP = 10**9  # the level of parts that end no lead


def _outline_cuts(text: str) -> Iterator[Cut]:
    """Yield the lines; a name, a table's header and an item's first value lead what is below them."""
    first: tuple[int, int] | None = None  # start and indentation of an item that begins with names
    for start, end in _lines(text):
        line = text[start:end].rstrip()
        indent = len(line) - len(line.lstrip())
        is_item = first is not None or line.startswith("- ", indent)
        start, indent = first or (start, indent)
        first = (start, indent) if is_item and re.search(r"[^}]:\Z", line) else None
        if first:
            continue
        is_lead = is_item or line.endswith((":", ": |", ": |-"))
        is_long = not is_lead and end - start > 2 * _LONG
        # A long line's beginning, with its key or its row's id, leads the rest.
        beginning, *rest = _sentences(text, start, end) if is_long else [start]
        yield beginning, indent, is_lead or is_long
        yield from ((piece, indent + 1, False) for piece in rest)


def _markdown_cuts(text: str) -> Iterator[Cut]:
    fenced = False
    for start, end in _lines(text):
        line = text[start:end]
        fenced ^= line.lstrip().startswith("```")
        if not fenced and (match := _HEADING.match(line)):
            yield start, len(match[1]), True
        elif fenced:
            yield start, _DEEP, False
        else:
            yield from ((piece, _DEEP, False) for piece in _sentences(text, start, end))


def _table_cuts(text: str) -> Iterator[Cut]:
    for i, (start, end) in enumerate(_lines(text)):
        is_header = not i or (i == 1 and not re.search(r"\w", text[start:end]))  # |---|---|
        yield start, i if is_header else _DEEP, is_header


def _log_cuts(text: str) -> Iterator[Cut]:
    """Yield one part per entry: lines without a time belong to the entry before."""
    starts = [start for start, end in _lines(text) if _CLOCK.match(text[start:end])]
    yield from ((start, _DEEP, False) for start, _ in _cuts(starts, text))


def _html_cuts(text: str) -> Iterator[Cut]:
    """Yield the block elements, of long ones the sentences; a heading leads what is below it."""
    tags = (m for m in _TAG.finditer(text) if (m[2] or "").lower() in _BLOCKS and not m[1])
    for start, end in _cuts([tag.start() for tag in tags], text):
        if heading := re.match(r"<h([1-6])\b", text[start:end], re.I):
            yield start, int(heading[1]), True
        else:
            yield from ((piece, _DEEP, False) for piece in _sentences(text, start, end))


def _text_cuts(text: str) -> Iterator[Cut]:
    """Yield lines and sentences; a line that ends with a colon leads what is indented below it."""
    for start, end in _lines(text):
        line = text[start:end]
        indent = len(line) - len(line.lstrip())
        if line.rstrip().endswith(":") and end - start <= _LONG:
            yield start, indent, True
        else:
            yield from ((piece, indent, False) for piece in _sentences(text, start, end))


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


def _sentences(text: str, start: int, end: int) -> Iterator[int]:
    """Yield each sentence's start where the stretch is long; a long sentence is cut further.

    One of more than 2 × ``_LONG`` is cut at spaces and commas.
    """
    if end - start <= _LONG:
        yield start
        return
    edges = [start, *(start + m.end() for m in _SENTENCE.finditer(text[start:end])), end]
    for a, b in pairwise(sorted(set(edges))):
        yield a
        while b - a > 2 * _LONG:
            space = max(text.rfind(mark, a + _LONG // 2, a + _LONG) for mark in " ,")
            a = space + 1 if space > 0 else a + _LONG
            yield a


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
