"""Which earlier steps a decision needs: found out by what an actor does without them."""

from collections.abc import Sequence
from dataclasses import replace

from stategate.envs.protocols import Chunk
from stategate.nodes.build_context.assemble import assemble
from stategate.nodes.build_context.compress import squeeze
from stategate.nodes.protocols import Actor, BuiltContext, ContextRequest

_ROOM = 100_000  # tokens: here nothing is cut for want of room
#: Labels of earlier steps: needed, or left out because another one does as well; 0 where not needed.
NEEDED, LEFT_OUT = 1.0, -1.0


def needed(actor: Actor, request: ContextRequest, step: int) -> list[float]:
    """Return a label for each earlier step of ``request``, oldest first."""
    past = [chunk for chunk in request.source.all() if chunk.role == "past"]
    weights = {chunk.id: 1.0 for chunk in request.source.all()}
    wide = replace(request, budget=_ROOM)
    whole = assemble(wide, request.source.all())

    def shown(chunks: Sequence[Chunk]) -> BuiltContext:
        return squeeze(wide, whole, _ROOM, weights, past={chunk.id: 1.0 for chunk in chunks})

    wanted = actor(whole, step)

    def brings_back(chunks: Sequence[Chunk]) -> bool:
        found = actor(shown(chunks), step)
        # Where an actor says why, one reason is one decision: which of two places that nobody has
        # seen comes first is nobody's memory.
        return found.action == wanted.action or (
            bool(found.reason) and found.reason == wanted.reason
        )

    labels = [0.0] * len(past)
    if not past or brings_back(()):
        return labels
    alone = [i for i, chunk in enumerate(past) if brings_back([chunk])]
    if alone:
        for i in alone:
            labels[i] = LEFT_OUT
        labels[alone[-1]] = NEEDED
        return labels
    if not brings_back(past):
        return labels  # not even all of their news is enough: nothing to be learned here
    left = list(range(len(past)))
    for i in range(len(past)):
        rest = [j for j in left if j != i]
        if brings_back([past[j] for j in rest]):
            left = rest
    for i in left:
        labels[i] = NEEDED
    return labels
