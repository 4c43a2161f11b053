"""Texts whose slots are marked with private characters, so that each word's tag is known."""

from stategate.language.amounts import tokens
from stategate.language.instruction.tagger import TAGS

_FIRST = 0xE001
_END = chr(0xE000)


def mark(tag: str, text: str) -> str:
    """Return ``text`` marked as being of ``tag``; marks may be nested, the inner one counts."""
    return f"{chr(_FIRST + TAGS.index(tag))}{text}{_END}" if text else ""


def unmarked(marked: str) -> tuple[str, tuple[int, ...]]:
    """Return the plain text, and the tag (its place in ``TAGS``) of each of its tokens."""
    text, tags, open_ = [], [], [TAGS.index("talk")]
    for sign in marked:
        code = ord(sign) - _FIRST
        if sign == _END:
            open_.pop()
        elif 0 <= code < len(TAGS):
            open_.append(code)
        else:
            text.append(sign)
            tags.append(open_[-1])
    plain = "".join(text)
    return plain, tuple(tags[token.start] for token in tokens(plain))
