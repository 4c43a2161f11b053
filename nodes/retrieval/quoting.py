"""Text from outside as data: no line of it looks like a line of the prompt's frame.

Passages are folded to one line between tags that they cannot close; a mark stands where a paragraph,
a heading, an item of a list or a row of a table ended. A page's line that begins as lines
of the frame do ("Instruction:", "Actions so far:") is led by a mark, as a quotation in a letter is.
Our own actors read the pieces of a context instead, which tell frame from page.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from stategate.envs.protocols import Fragment
from stategate.stores.text import one_line

#: Leads a line that would otherwise look like the frame's.
MARK = "> "
#: Between two blocks of a folded passage.
BLOCK_MARK = "¶"
#: Lines of a paragraph that are all shorter than this are a list or verses, not wrapped text.
_SHORT = 40
ITEM = re.compile(r"\||(?:[-*+•]|#+|\d{1,3}[.)]) ")
_RULE = re.compile(r"[-=_*|:+~ ]+")
_FRAME = re.compile(
    r"(?:(?:instruction|question|answer|about|experience|chosen|not chosen yet|actions so far"
    r"|conversation so far|remembered from before|known names|known relations|suggested (?:next|plan)"
    r"|user|human|you|system|assistant|developer|tool)[^\w:]{0,4}:"
    r"|page seen at step\b|on \d{4}-\d\d-\d\d the user asked|<\s*/?\s*document\b)",
    re.IGNORECASE,
)
#: What may stand before a line's first word: space, bullets, marks of emphasis.
_BULLET = re.compile(r"(?:[^\w<]|_)+")
_HEAD = 200  # characters of a line that are compared with the frame's words
_TAG = re.compile(r"<(?=/?\s*document)", re.IGNORECASE)


def quote(number: int, title: str, text: str) -> tuple[Fragment, ...]:
    """Return the passage between tags, ending in a line break: its title, and a "text" a block."""
    fragments = [Fragment(f'<document number="{number}"', role="lead"), *quoted_title(title)]
    fragments.append(Fragment(">\n", role="lead"))
    for i, block in enumerate(_blocks(text)):
        plain = _TAG.sub("‹", block)
        lead = f" {BLOCK_MARK} " if i else MARK if is_frame(plain) else ""
        fragments += [Fragment(lead, role="lead")] if lead else []
        fragments.append(Fragment(plain))
    return (*fragments, Fragment("\n</document>\n", role="lead"))


def _blocks(text: str) -> list[str]:
    """Return paragraphs, headings, items of lists and rows of tables, each folded to item line."""
    blocks: list[str] = []
    paragraph: list[str] = []
    for line in (*map(one_line, text.splitlines()), ""):
        if line and not _RULE.fullmatch(line):
            paragraph.append(line)
            continue
        is_list = len(paragraph) > 1 and max(map(len, paragraph)) < _SHORT
        previous = "|"
        for item in paragraph:
            if is_list or ITEM.match(item) or previous[0] in "|#":
                blocks.append(item)
            else:
                blocks[-1] += f" {item}"
            previous = item
        paragraph = []
    return blocks


def quoted_title(title: str) -> list[Fragment]:
    """Return what the opening tag says of the title, nothing if there is none."""
    folded = _TAG.sub("‹", one_line(title).replace('"', "'"))
    if not folded:
        return []
    lead, end = Fragment(' title="', role="lead"), Fragment('"', role="lead")
    return [lead, Fragment(folded, role="title"), end]


def is_frame(line: str) -> bool:
    """Say whether ``line`` begins as a line of our own frame does; one that MARK leads does not."""
    if line.startswith(MARK):
        return False
    bullet = _BULLET.match(line)
    head = line[bullet.end() if bullet else 0 :][:_HEAD]
    return _FRAME.match(" ".join(head.split())) is not None


def shielded(fragments: Sequence[Fragment]) -> tuple[Fragment, ...]:
    """Return a chunk's fragments with ``MARK`` before each line that imitates the frame.

    Lines that begin with a lead fragment stay: a lead is written by the view, not by the page.
    """
    text = "".join(fragment.text for fragment in fragments)
    quoted: list[Fragment] = []
    offset = 0
    is_start = True
    for fragment in fragments:
        changed = ""
        for line in fragment.text.splitlines(keepends=True):
            if is_start and fragment.role != "lead" and is_frame(text[offset : offset + _HEAD]):
                changed += MARK
            changed += line
            offset += len(line)
            is_start = line.splitlines() != [line]
        quoted.append(replace(fragment, text=changed))
    return tuple(quoted)
