"""Documents to passages: windows of tokens, with ids that derive from content.

Every passage knows its span in the document. Gold evidence is kept as text, so a corpus may be fetched
again or cut another way and its questions still find what answers them (:func:`contains_evidence`).
"""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass

from stategate.stores.errors import UserError
from stategate.stores.progress import Progress
from stategate.stores.tokens import encode, encoding

_FORM = re.compile(r"fixed-(\d+)-(\d+)")
#: No cl100k token crosses from a word into the space after it, so a long text may be encoded in parts
#: that are cut there (and Progress can count them).
_SEAM, _PART = re.compile(r"(?<=\S)(?= \S)"), 1_000_000
#: Share of an evidence's words, in a row, that a passage must hold.
_SHARE = 0.5


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

    size: int = 256
    overlap: int = 50

    def __post_init__(self) -> None:
        if not 0 <= self.overlap < self.size:
            raise UserError("write a chunking as fixed-256-50 (tokens, and a smaller overlap)")

    @classmethod
    def parse(cls, text: str) -> "Chunking":
        """Read ``"fixed-256-50"``. Raises ``UserError`` naming the form."""
        form = _FORM.fullmatch(text.strip())
        return cls(int(form[1]), int(form[2])) if form else cls(0, 0)

    def __str__(self) -> str:
        return f"fixed-{self.size}-{self.overlap}"

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return the character spans of ``text``'s passages, in order; none for a blank text."""
        if not text.strip():
            return []
        parts = list(_parts(text))
        offsets: list[int] = []
        for start, part in parts if len(parts) == 1 else Progress(parts, "cut", unit="part"):
            # A character's first token holds its offset: no window starts inside a character.
            offsets += (start + at for at in encoding().decode_with_offsets(encode(part))[1])
        spans = []
        for start in range(0, len(offsets), self.size - self.overlap):
            stop = start + self.size
            spans.append((offsets[start], offsets[stop] if stop < len(offsets) else len(text)))
            if stop >= len(offsets):
                break
        return spans


def _parts(text: str) -> Iterator[tuple[int, str]]:
    """Yield (start, part) of a text: parts of some million characters, cut between tokens."""
    start = 0
    while seam := _SEAM.search(text, start + _PART):
        yield start, text[start : seam.start()]
        start = seam.start()
    yield start, text[start:]


def cut_passages(document: str, title: str, text: str, chunking: Chunking) -> list[Passage]:
    """Cut a document to passages; ids hash document, title and text, so unchanged text keeps its id."""
    copies: dict[str, int] = {}
    passages = []
    for start, end in chunking.spans(text):
        part = text[start:end]
        digest = hashlib.sha256(
            f"{document}\n{title}\n{part}".encode("utf-8", "replace")
        ).hexdigest()[:20]
        copies[digest] = copies.get(digest, 0) + 1
        id_ = digest if copies[digest] == 1 else f"{digest}-{copies[digest]}"
        passages.append(Passage(id_, document, title, start, end, part))
    return passages


def contains_evidence(passage: str, evidence: str) -> bool:
    """Say whether ``passage`` holds ``evidence`` (a text), or the greater part of it.

    Half of its words in a row are enough: a window may cut an evidence in two.
    """
    words = evidence.split()
    if not words:
        return False
    need = max(1, int(len(words) * _SHARE + 0.5))
    text = f" {' '.join(passage.split())} "
    runs = (words[i : i + need] for i in range(len(words) - need + 1))
    return any(f" {' '.join(run)} " in text for run in runs)
