"""Texts whose slots are marked (``<thing>kettle</thing>``), so that each word's tag is known."""

import re

from stategate.language.amounts import tokens
from stategate.language.instruction.tagger import TAGS

_MARK = re.compile(rf"(</?(?:{'|'.join(TAGS)})>)")


def mark(tag: str, text: str) -> str:
    """Return ``text`` marked as being of ``tag``; marks may be nested, the inner one counts."""
    return f"<{tag}>{text}</{tag}>" if text else ""


def unmarked(marked: str) -> tuple[str, tuple[int, ...]]:
    """Return the plain text, and the tag (its place in ``TAGS``) of each of its tokens."""
    text, tags, open_ = "", list[int](), ["talk"]
    for number, part in enumerate(_MARK.split(marked)):
        if number % 2 == 0:  # between two marks
            text += part
            tags += [TAGS.index(open_[-1])] * len(part)
        elif part.startswith("</"):
            open_.pop()
        else:
            open_.append(part[1:-1])
    return text, tuple(tags[token.start] for token in tokens(text))
