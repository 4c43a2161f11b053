"""A page's chunks as a source of candidates, and passages quoted in prompts as data.

The text of a quoted passage is folded to one line and cannot close its own tag, so that a text which
gives orders stays a quotation.
"""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from envs.protocols import Chunk, Fragment, Observation, View
from nodes.protocols import Embedder, Vector
from stores.text import one_line


class PageSource:
    """The chunks that ``view`` makes of one page.

    ``search`` embeds them on first use (each text once, by hash).
    """

    def __init__(
        self, view: View, observation: Observation, embedder: Callable[[], Embedder]
    ) -> None:
        self._view = view
        self._chunks = tuple(view.chunks(observation))
        self._embedder = embedder

    def all(self) -> Sequence[Chunk]:
        """Return every chunk, in page order."""
        return self._chunks

    def search(self, vector: Vector, k: int) -> list[tuple[Chunk, float]]:
        """Return the ``k`` chunks nearest to ``vector`` by cosine; ties keep page order."""
        if not self._chunks or k <= 0:
            return []
        rows = self._embedder().embed([describe(self._view, chunk) for chunk in self._chunks])
        norm = float(np.linalg.norm(vector)) or 1.0
        scores = rows @ (np.asarray(vector, dtype=np.float32) / norm)
        order = np.argsort(-scores, kind="stable")[:k]
        return [(self._chunks[i], float(scores[i])) for i in order]


@lru_cache(maxsize=4096)
def render(view: View, chunk: Chunk) -> tuple[Fragment, ...]:
    """Return the prompt line(s) of ``chunk``, ending in a line break (() if there is nothing)."""
    fragments = past_line(chunk) if chunk.role == "past" else tuple(view.fragments(chunk))
    if not any(fragment.text.strip() for fragment in fragments):
        return ()
    return (*fragments, Fragment("\n", role="lead"))


def past_line(chunk: Chunk) -> tuple[Fragment, ...]:
    """Return the line of an earlier step: what was done, and what came of it."""
    step = str(chunk.data["step"])
    return (Fragment(step, role="lead"), Fragment(chunk.text[len(step) :]))


def text_of(fragments: Sequence[Fragment]) -> str:
    """Join fragments to prompt text."""
    return "".join(fragment.text for fragment in fragments)


def describe(view: View, chunk: Chunk) -> str:
    """Return ``chunk`` as the text that embedders see: its prompt lines."""
    return text_of(render(view, chunk)).strip() or chunk.text.strip()


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
