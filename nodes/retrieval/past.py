"""Earlier steps as candidates for the prompt, beside the page's chunks.

They come from the recent events in graph state, which short-term memory keeps within its budget:
builders stay pure, and a resumed or forked episode finds them in its checkpoint (docs/architecture.md).
"""

import re
from collections.abc import Callable, Sequence

from stategate.envs.protocols import Chunk, Fragment, View
from stategate.nodes.protocols import Embedder, Piece, Source, Vector
from stategate.nodes.retrieval.page import describe, nearest
from stategate.stores.text import one_line
from stategate.stores.traces import Event

#: Between a step's action and what came of it.
ARROW = " => "
#: What marks a command that was taken before, where a builder may drop the step itself.
DONE = "*"
#: The line that says so.
LEGEND = f"So far ({DONE} marks what was done before):\n"
_NUMBERED = re.compile(r"^\d+\. (.+)$", re.MULTILINE)


def past_chunks(events: Sequence[Event]) -> list[Chunk]:
    """Return a chunk for each earlier step, oldest first: "3. go north => A wood.".

    What came of the last step is the page itself; the first page, once it is past, is a chunk too.
    """
    pages = {event.t: one_line(event.text) for event in events if event.kind == "OBS"}
    acts = [event for event in events if event.kind == "ACT"]
    chunks = []
    if acts and acts[0].t == 0 and 0 in pages:
        chunks.append(_chunk("event:start", "Start", pages[0]))
    for act in acts:
        step = f"{act.t + 1}. {one_line(act.text)}"
        chunks.append(_chunk(f"event:{act.t}", step, pages.get(act.t + 1, "")))
    return chunks


def _chunk(id_: str, step: str, answer: str) -> Chunk:
    line = step + (ARROW + answer if answer else "")
    return Chunk(id_, "event", line, (), {"step": step, "answer": answer}, "past")


def told_steps(pieces: Sequence[Piece]) -> list[tuple[str, str]]:
    """Return the (action, answer) pairs that a prompt's lines tell, oldest first; "" for no action."""
    pairs: list[tuple[str, str]] = []
    for piece in pieces:
        if piece.kind == "event" and piece.text.strip():
            line, _, answer = piece.text.strip().partition(ARROW)
            number, dot, action = line.partition(". ")
            pairs.append((action if dot and number.isdigit() else "", answer))
        elif piece.kind == "history":
            pairs += [(action, "") for action in _NUMBERED.findall(piece.text)]
    return pairs


class WithPast:
    """The candidates of ``page``, after earlier steps."""

    def __init__(
        self, page: Source, past: Sequence[Chunk], view: View, embedder: Callable[[], Embedder]
    ) -> None:
        self._page = page
        self._past = tuple(past)
        self._view = view
        self._embedder = embedder

    def all(self) -> Sequence[Chunk]:
        """Return every candidate: earlier steps, oldest first, then the page's."""
        return (*self._past, *self._page.all())

    def search(self, vector: Vector, k: int) -> list[tuple[Chunk, float]]:
        """Return the ``k`` candidates nearest to ``vector`` by cosine, best first."""
        past = nearest(
            self._past, lambda chunk: describe(self._view, chunk), self._embedder, vector, k
        )
        return sorted([*self._page.search(vector, k), *past], key=lambda pair: -pair[1])[:k]


def candidates(
    page: Source, events: Sequence[Event], past: str, view: View, embedder: Callable[[], Embedder]
) -> Source:
    """Return ``page``, with earlier steps where ``past`` (see ``FramedContext.past``) asks for them."""
    if past == "events" or (past == "world" and view.recalls):
        return WithPast(page, past_chunks(events), view, embedder)
    return page


def done_before(chunks: Sequence[Chunk]) -> frozenset[str]:
    """Return the actions of the earlier steps among ``chunks``."""
    steps = (str(chunk.data["step"]) for chunk in chunks if chunk.role == "past")
    return frozenset(step.partition(". ")[2] for step in steps)


def marked(fragments: Sequence[Fragment], done: frozenset[str]) -> list[Fragment]:
    """Mark the commands that were taken before."""
    return [
        Fragment(f.text + DONE, f.action, f.role, f.amount)
        if f.action is not None and one_line(f.action) in done
        else f
        for f in fragments
    ]
