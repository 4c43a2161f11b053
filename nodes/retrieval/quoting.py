"""Passages quoted in a prompt as data, and read back from it.

Their text is folded to one line and cannot close its own tag, so that a text which gives orders stays a
quotation.
"""

import re

from stores.text import one_line

_TAG = re.compile(r"<(?=/?\s*document)", re.IGNORECASE)
_QUOTED = re.compile(
    r'<document[^>]*?(?: title="(?P<title>[^"]*)")?>\n(?P<text>.*)\n</document>', re.DOTALL
)


def quote(number: int, title: str, text: str) -> str:
    """Return the passage between tags, ending in a line break."""
    body = _TAG.sub("‹", one_line(text))
    return f'<document number="{number}"{quoted_title(title)}>\n{body}\n</document>\n'


def quoted_title(title: str) -> str:
    """Return what the opening tag says of the title, "" if there is none."""
    folded = one_line(title).replace('"', "'")
    return f' title="{_TAG.sub("‹", folded)}"' if folded else ""


def unquote(text: str) -> tuple[str, str]:
    """Return a quoted passage's title and text; of any other text "" and the text in one line."""
    match = _QUOTED.search(text)
    return (match["title"] or "", match["text"]) if match else ("", one_line(text))
