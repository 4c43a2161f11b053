"""Several builders at one moment, side by side: what each shows, what it leaves out, how it ends."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

from stategate.graph.session import Preview
from stategate.nodes.protocols import BuiltContext
from stategate.nodes.registry import registry
from stategate.ui.app.context import fold_history, shown_pieces
from stategate.ui.app.html import macros, plural
from stategate.ui.app.workspace import Ending


@dataclass(frozen=True)
class Lane:
    """One builder at the moment: what it built and what the actor would do, or why not."""

    name: str
    kind: str
    budget: int
    params: Mapping[str, Any] = field(default_factory=dict)
    seen: Preview | None = None
    problem: str = ""
    waiting: bool = False
    ending: Ending | None = None

    @property
    def hint(self) -> str:
        """What this kind of builder does, in one line."""
        return registry().hint("context", self.kind)


def render_lanes(
    lanes: Sequence[Lane],
    whole: Mapping[str, str],
    about: Mapping[str, str],
    moment: str = "",
    task: str = "",
) -> Markup:
    """Draw lanes side by side on one grid, so that what each kept of a chunk stands in one row.

    ``whole`` holds the page's chunks in words by id, in page order, ``about`` titles by action. Where
    the page is narrow the lanes follow one another.
    """
    order = piece_order([lane.seen.context for lane in lanes if lane.seen], list(whole))
    drawn = []
    for lane in lanes:
        pieces = shown_pieces(lane.seen.context, whole) if lane.seen else []
        drawn.append((lane, {shown.piece.id: shown for shown in pieces}))
    votes = [lane.seen.decision.action for lane in lanes if lane.seen and lane.seen.decision]
    where = (moment, " ".join(task.split()))
    return macros("compare").lanes(drawn, order, about, where, _verdict(lanes), votes)


def piece_order(contexts: Sequence[BuiltContext], chunks: Sequence[str]) -> list[str]:
    """Return the ids of all contexts' pieces in one order: instruction, the page, then the rest.

    ``chunks`` are the ids of the page's chunks.
    """
    rank = {"instruction": -1, **{chunk: i for i, chunk in enumerate(chunks)}}
    places: dict[str, int] = {}
    for context in contexts:
        for place, piece in enumerate(fold_history(context.pieces)):
            places.setdefault(piece.id, rank.get(piece.id, len(rank) + place))
    return sorted(places, key=lambda id_: places[id_])


def _verdict(lanes: Sequence[Lane]) -> tuple[str, str] | None:
    """Say in one line whether the builders agree, and who reads least."""
    ended = [(lane.ending.reward, lane.kind) for lane in lanes if lane.ending is not None]
    if len(ended) == len(lanes) > 1:
        rewards = sorted({reward for reward, _ in ended}, reverse=True)
        if len(rewards) == 1:
            return f"All {len(ended)} end with reward {rewards[0]:.2f}.", ""
        groups = [
            f"{' and '.join(kind for r, kind in ended if r == reward)} {reward:.2f}"
            for reward in rewards
        ]
        return f"Rewards at the end: {', '.join(groups)}.", ""
    ready = [(lane.seen, lane.kind) for lane in lanes if lane.seen and lane.seen.decision]
    if len(ready) < 2:
        return None
    actions = {seen.decision.action for seen, _ in ready if seen.decision}
    (least, small), *_, (most, large) = sorted((seen.context.tokens, kind) for seen, kind in ready)
    agreement = f"{plural(len(actions), 'different action')} from the same moment."
    if len(actions) == 1:
        agreement = f"All {len(ready)} would do the same."
    sizes_apart = f"{small} reads {least:,} tokens, {large} reads {most:,}."
    return agreement, sizes_apart if least < most else ""
