"""Cut a text at paragraphs, else lines, else words, else characters; every part knows its place.

The parts are those of LangChain's ``RecursiveCharacterTextSplitter`` with its own separators, which
tells no places: looking them up again fails where a text repeats itself. Here offsets are cut.
"""

from collections import deque
from collections.abc import Iterable, Iterator

from stategate.stores.tokens import count_tokens

_SEPARATORS = ("\n\n", "\n", " ", "")
Span = tuple[int, int]


def recursive_spans(text: str, size: int, overlap: int) -> list[Span]:
    """Return the character spans of parts of at most ``size`` tokens that share up to ``overlap``."""
    return list(_split(text, (0, len(text)), _SEPARATORS, size, overlap))


def _split(
    text: str, within: Span, separators: tuple[str, ...], size: int, overlap: int
) -> Iterator[Span]:
    start, end = within
    place = next(
        (i for i, s in enumerate(separators) if not s or text.find(s, start, end) >= 0), -1
    )
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
    if not separator:
        yield from ((i, i + 1) for i in range(start, end))
        return
    begin = start
    while (found := text.find(separator, begin + (begin > start) * len(separator), end)) >= 0:
        if found > begin:
            yield begin, found
        begin = found
        if found == start:  # the text begins with it: look behind it
            found = text.find(separator, start + len(separator), end)
            if found < 0:
                break
            yield begin, found
            begin = found
    if begin < end:
        yield begin, end


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
