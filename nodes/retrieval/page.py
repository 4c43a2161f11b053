"""Candidate chunks: the page's, preceded by past steps if the world is partially observed.

Earlier steps come from the recent events in graph state, which short-term memory keeps within its
budget: builders stay pure, and a resumed or forked episode finds them in its checkpoint.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from stategate.envs.protocols import Chunk, Fragment, Observation, fragments_of
from stategate.nodes.protocols import Embedder, Vector, WorldProfile
from stategate.nodes.retrieval.quoting import shielded
from stategate.stores.text import one_line
from stategate.stores.traces import Event

#: The end of a prompt line.
BREAK = Fragment("\n", role="lead")
#: Between a step's action and its outcome.
ARROW = " => "
#: Marks a command that was taken before, where a builder may drop the step itself.
DONE = "*"
#: The header that explains the mark.
LEGEND = f"So far ({DONE} = done before):\n"


class PageSource:
    """The chunks of one page; in a partially observed world preceded by the past steps of ``events``.

    ``search`` embeds them on first use (each text once, by hash).
    """

    def __init__(
        self,
        profile: WorldProfile,
        observation: Observation,
        embedder: Callable[[], Embedder],
        events: Sequence[Event] = (),
    ) -> None:
        past = past_chunks(events) if profile.partially_observed else []
        self._chunks = (*past, *profile.view.chunks(observation))
        self._embedder = embedder

    def all(self) -> Sequence[Chunk]:
        """Return every chunk: earlier steps, oldest first, then the page's, in page order."""
        return self._chunks

    def search(self, vector: Vector, k: int) -> list[tuple[Chunk, float]]:
        """Return the ``k`` chunks nearest to ``vector`` by cosine; ties keep page order."""
        return nearest(self._chunks, describe, self._embedder, vector, k)


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
def render(chunk: Chunk) -> tuple[Fragment, ...]:
    """Return the prompt line(s) of ``chunk``, ending in a line break (() if there is nothing)."""
    fragments = shielded(fragments_of(chunk))
    if not any(fragment.text.strip() for fragment in fragments):
        return ()
    return (*fragments, BREAK)


def lead(text: str) -> Fragment:
    """Return a fragment of our own frame, such as a label before text of the world or a person."""
    return Fragment(text, role="lead")


def text_of(fragments: Sequence[Fragment]) -> str:
    """Join fragments to prompt text."""
    return "".join(fragment.text for fragment in fragments)


def describe(chunk: Chunk) -> str:
    """Return ``chunk`` as the text that embedders see: its prompt lines."""
    return text_of(render(chunk)).strip() or chunk.text.strip()


def past_chunks(events: Sequence[Event]) -> list[Chunk]:
    """Return a chunk for each earlier step, oldest first: "3. go north => A wood.".

    The last step's outcome is the page itself; the first page, once it is past, is a chunk too.
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
    """Return an earlier step as a chunk; ``data`` holds the parts of its line."""
    data = {"number": number, "action": action, "outcome": outcome}
    line = [lead(number)]
    line += [Fragment(action, role="action")] if action else []
    line += [lead(ARROW)] if outcome and (number or action) else []
    line += [Fragment(outcome, role="outcome")] if outcome else []
    return Chunk(id_, "event", text_of(line), (), data, "past", fragments=tuple(line))


def done_before(chunks: Sequence[Chunk]) -> frozenset[str]:
    """Return the actions of the earlier steps among ``chunks``."""
    return frozenset(str(chunk.data["action"]) for chunk in chunks if chunk.role == "past")


def marked(fragments: Sequence[Fragment], done: frozenset[str]) -> list[Fragment]:
    """Return ``fragments`` with ``DONE`` after each command that was taken before."""
    return [
        replace(f, text=f.text + DONE, is_done=True)
        if f.action is not None and one_line(f.action) in done
        else f
        for f in fragments
    ]
