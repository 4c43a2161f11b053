"""A page's chunks as a source of candidates."""

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from stategate.envs.protocols import Chunk, Fragment, Observation, View, fragments_of
from stategate.nodes.protocols import Embedder, Vector
from stategate.nodes.retrieval.quoting import shielded

#: The end of a prompt line.
BREAK = Fragment("\n", role="lead")
#: Between a step's action and what came of it.
ARROW = " => "


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
        return nearest(
            self._chunks, lambda chunk: describe(self._view, chunk), self._embedder, vector, k
        )


def nearest(
    chunks: Sequence[Chunk],
    text: Callable[[Chunk], str],
    embedder: Callable[[], Embedder],
    vector: Vector,
    k: int,
) -> list[tuple[Chunk, float]]:
    """Return the ``k`` of ``chunks`` whose texts are nearest to ``vector`` by cosine, best first."""
    if not chunks or k <= 0:
        return []
    rows = embedder().embed([text(chunk) for chunk in chunks])
    norm = float(np.linalg.norm(vector)) or 1.0
    scores = rows @ (np.asarray(vector, dtype=np.float32) / norm)
    order = np.argsort(-scores, kind="stable")[:k]
    return [(chunks[i], float(scores[i])) for i in order]


@lru_cache(maxsize=4096)
def render(view: View, chunk: Chunk) -> tuple[Fragment, ...]:
    """Return the prompt line(s) of ``chunk``, ending in a line break (() if there is nothing)."""
    own = past_line(chunk) if chunk.role == "past" else fragments_of(chunk)
    fragments = shielded(own)
    if not any(fragment.text.strip() for fragment in fragments):
        return ()
    return (*fragments, BREAK)


def past_line(chunk: Chunk) -> tuple[Fragment, ...]:
    """Return the line of an earlier step: its number, what was done, and what came of it."""
    line = [Fragment(str(chunk.data["number"]), role="lead")]
    if action := str(chunk.data["action"]):
        line.append(Fragment(action, role="action"))
    if outcome := str(chunk.data["outcome"]):
        line += [Fragment(ARROW, role="lead"), Fragment(outcome, role="outcome")]
    return tuple(line)


def text_of(fragments: Sequence[Fragment]) -> str:
    """Join fragments to prompt text."""
    return "".join(fragment.text for fragment in fragments)


def describe(view: View, chunk: Chunk) -> str:
    """Return ``chunk`` as the text that embedders see: its prompt lines."""
    return text_of(render(view, chunk)).strip() or chunk.text.strip()
