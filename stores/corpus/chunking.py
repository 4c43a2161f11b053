"""Documents to passages: token windows or text boundaries, with ids that derive from content.

Every passage knows its span in the document. Gold evidence is kept as text, so a corpus may be fetched
again or cut another way and its questions still find what answers them (:func:`contains_evidence`).
"""

import hashlib
import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from stategate.stores.errors import UserError
from stategate.stores.progress import Progress
from stategate.stores.tokens import count_tokens, encode, encoding

Span = tuple[int, int]
_FORM = re.compile(r"(fixed|recursive)-(\d+)-(\d+)")
#: The share of an evidence's words that a passage must hold to count as bearing it.
_SHARE = 0.5
#: Characters of a text from which cutting it says how far it is.
_LONG = 1_000_000
_LINE_END = re.compile(r"\n(?=\S)")


@dataclass(frozen=True)
class Passage:
    """A stretch ``text`` of ``document`` (its id) from character ``start`` to ``end``."""

    id: str
    document: str
    title: str
    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Chunking:
    """How documents are cut: ``size`` and ``overlap`` in cl100k tokens."""

    kind: str = "fixed"
    size: int = 256
    overlap: int = 50

    def __post_init__(self) -> None:
        if self.kind not in ("fixed", "recursive") or not 0 <= self.overlap < self.size:
            raise UserError(
                "write a chunking as fixed-256-50 or recursive-512-50 (kind, size, smaller overlap)"
            )

    @classmethod
    def parse(cls, text: str) -> "Chunking":
        """Read ``"fixed-256-50"``. Raises ``UserError`` naming the form."""
        form = _FORM.fullmatch(text.strip())
        return cls(form[1], int(form[2]), int(form[3])) if form else cls("", 0, 0)

    def __str__(self) -> str:
        return f"{self.kind}-{self.size}-{self.overlap}"

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return the character spans of ``text``'s passages, in order; none for a blank text."""
        if not text.strip():
            return []
        if self.kind == "recursive":
            return list(_split(text, (0, len(text)), _SEPARATORS, self.size, self.overlap))
        return self._fixed(text)

    def _fixed(self, text: str) -> list[tuple[int, int]]:
        offsets: list[int] = []
        how: dict[str, Any] = {"unit": "character", "unit_scale": True}
        with Progress(what="cut", total=len(text), **how) as bar:
            for start, block in blocks(text):
                # A character's first token holds its offset: no window starts inside a character.
                _, places = encoding().decode_with_offsets(encode(block))
                offsets += [start + place for place in places]
                bar.update(len(block))
        spans = []
        for start in range(0, len(offsets), self.size - self.overlap):
            stop = start + self.size
            spans.append((offsets[start], offsets[stop] if stop < len(offsets) else len(text)))
            if stop >= len(offsets):
                break
        return spans


def blocks(text: str) -> Iterator[tuple[int, str]]:
    """Yield ``text`` in parts of some :data:`_LONG` characters, each with its start.

    They end where a line does that a printable character follows: no token reaches across that.
    """
    start = 0
    while start < len(text):
        line_end = _LINE_END.search(text, start + _LONG)
        stop = line_end.end() if line_end else len(text)
        yield start, text[start:stop]
        start = stop


def cut_passages(document: str, title: str, text: str, chunking: Chunking) -> list[Passage]:
    """Return the passages of one document. The same text under the same title keeps its ids."""
    seen: dict[str, int] = {}
    passages = []
    for start, end in chunking.spans(text):
        part = text[start:end]
        base = hashlib.sha256(
            f"{document}\n{title}\n{part}".encode("utf-8", "replace")
        ).hexdigest()[:20]
        seen[base] = seen.get(base, 0) + 1
        id_ = base if seen[base] == 1 else f"{base}-{seen[base]}"
        passages.append(Passage(id_, document, title, start, end, part))
    return passages


def contains_evidence(passage: str, evidence: str) -> bool:
    """Say whether ``passage`` holds ``evidence`` (a stretch of text), whole or its greater part.

    A window may cut an evidence in two: the half with most of the consecutive words counts.
    """
    words = evidence.split()
    if not words:
        return False
    need = max(1, int(len(words) * _SHARE + 0.5))
    text = f" {' '.join(passage.split())} "
    runs = (words[i : i + need] for i in range(len(words) - need + 1))
    return any(f" {' '.join(run)} " in text for run in runs)


# Text boundaries ------------------------------------------------------------------------------------

#: Paragraphs, else lines, else words, else characters: the parts are those of LangChain's
#: ``RecursiveCharacterTextSplitter``, which tells no places. Looking them up again fails where a text
#: repeats itself, so offsets are cut here.
_SEPARATORS = ("\n\n", "\n", " ", "")


def _split(
    text: str, within: Span, separators: tuple[str, ...], size: int, overlap: int
) -> Iterator[Span]:
    start, end = within
    place = next((i for i, s in enumerate(separators) if text.find(s, start, end) >= 0), -1)
    finer = separators[place + 1 :]
    small: list[tuple[Span, int]] = []
    for span in _pieces(text, within, separators[place]):
        tokens = count_tokens(text[span[0] : span[1]])
        if tokens < size:
            small.append((span, tokens))
            continue
        yield from _joined(text, small, size, overlap)
        small = []
        if finer:
            yield from _split(text, span, finer, size, overlap)
        else:
            yield span
    yield from _joined(text, small, size, overlap)


def _pieces(text: str, within: Span, separator: str) -> Iterator[Span]:
    """Yield the stretches between separators, each with the one that it follows."""
    start, end = within
    matches = re.compile(re.escape(separator)).finditer(text, start, end)
    cuts = [start, *(match.start() for match in matches), end]
    return ((begin, stop) for begin, stop in pairwise(cuts) if begin < stop)


def _joined(
    text: str, pieces: Iterable[tuple[Span, int]], size: int, overlap: int
) -> Iterator[Span]:
    """Yield stretches of whole pieces that fit ``size`` tokens, without the space around them."""
    current: deque[tuple[Span, int]] = deque()
    total = 0
    for span, tokens in pieces:
        if total + tokens > size and current:
            yield from _stripped(text, current[0][0][0], current[-1][0][1])
            while total > overlap or (total + tokens > size and total > 0):
                total -= current.popleft()[1]
        current.append((span, tokens))
        total += tokens
    if current:
        yield from _stripped(text, current[0][0][0], current[-1][0][1])


def _stripped(text: str, start: int, end: int) -> Iterator[Span]:
    part = text[start:end]
    lead = len(part) - len(part.lstrip())
    if stripped := part.strip():
        yield start + lead, start + lead + len(stripped)
