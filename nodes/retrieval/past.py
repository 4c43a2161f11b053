"""Earlier steps as candidates for the prompt, beside the page's chunks.

They come from the recent events in graph state, which short-term memory keeps within its budget:
builders stay pure, and a resumed or forked episode finds them in its checkpoint (docs/architecture.md).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from stategate.envs.protocols import Chunk, Fragment, View
from stategate.nodes.protocols import Embedder, Source, Vector
from stategate.nodes.retrieval.page import ARROW, describe, nearest
from stategate.stores.text import one_line
from stategate.stores.traces import Event

#: What marks a command that was taken before, where a builder may drop the step itself.
DONE = "*"
#: The line that says so.
LEGEND = f"So far ({DONE} marks what was done before):\n"


def past_chunks(events: Sequence[Event]) -> list[Chunk]:
    """Return a chunk for each earlier step, oldest first: "3. go north => A wood.".

    What came of the last step is the page itself; the first page, once it is past, is a chunk too.
    """
    pages = {event.t: one_line(event.text) for event in events if event.kind == "OBS"}
    acts = [event for event in events if event.kind == "ACT"]
    chunks = []
    if acts and acts[0].t == 0 and 0 in pages:
        chunks.append(past_chunk("event:start", "Start", "", pages[0]))
    for act in acts:
        number, outcome = f"{act.t + 1}. ", pages.get(act.t + 1, "")
        chunks.append(past_chunk(f"event:{act.t}", number, one_line(act.text), outcome))
    return chunks


def past_chunk(id_: str, number: str, action: str, outcome: str) -> Chunk:
    """Return an earlier step as a chunk; ``data`` holds what its line is made of."""
    data = {"number": number, "action": action, "outcome": outcome}
    text = number + action + (ARROW + outcome if outcome else "")
    return Chunk(id_, "event", text, (), data, "past")


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
    page: Source,
    events: Sequence[Event],
    view: View,
    embedder: Callable[[], Embedder],
    partially_observed: bool,
) -> Source:
    """Return ``page``, with earlier steps where pages do not tell what was seen before."""
    if partially_observed:
        return WithPast(page, past_chunks(events), view, embedder)
    return page


def done_before(chunks: Sequence[Chunk]) -> frozenset[str]:
    """Return the actions of the earlier steps among ``chunks``."""
    return frozenset(str(chunk.data["action"]) for chunk in chunks if chunk.role == "past")


def marked(fragments: Sequence[Fragment], done: frozenset[str]) -> list[Fragment]:
    """Mark the commands that were taken before."""
    return [
        replace(f, text=f.text + DONE, is_done=True)
        if f.action is not None and one_line(f.action) in done
        else f
        for f in fragments
    ]
