"""Fork and compare: the same moment through several context builders, chunk beside chunk."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

from nodes.protocols import BuiltContext, Decision, Piece
from ui.actions import costs_of
from ui.app.render.actions import action_chip
from ui.app.render.context import fold_history, lost_line, meter, render_piece, shading
from ui.app.render.html import brief, el, join, note, plural, short


@dataclass(frozen=True)
class Lane:
    """One builder's view of the moment: what it built and what the actor would do, or why not."""

    name: str
    kind: str
    budget: int
    context: BuiltContext | None = None
    decision: Decision | None = None
    build_seconds: float = 0.0
    act_seconds: float = 0.0
    problem: str = ""
    waiting: bool = False
    params: Mapping[str, Any] = field(default_factory=dict)


def render_lanes(
    lanes: Sequence[Lane], whole: Mapping[str, str], about: Mapping[str, str], moment: str = ""
) -> Markup:
    """Draw lanes side by side on one grid, so that what each kept of a chunk stands in one row.

    ``whole`` holds the page's chunks in words by id, in page order, ``about`` titles by action. Where
    the page is narrow the lanes follow one another.
    """
    order = piece_order([lane.context for lane in lanes if lane.context is not None], list(whole))
    cells: list[Markup] = []
    votes = [lane.decision.action for lane in lanes if lane.decision is not None]
    for number, lane in enumerate(lanes):
        cells.append(_head(lane, number, votes, about))
        shades: dict[str, tuple[Piece, float]] = {}
        if lane.context is not None:
            pieces = fold_history(lane.context.pieces)
            shades = dict(
                zip((p.id for p in pieces), zip(pieces, shading(pieces), strict=True), strict=True)
            )
        for row in order:
            if row in shades:
                cells.append(render_piece(*shades[row], whole))
            else:
                cells.append(el("div", cls="sg-piece sg-absent", aria_hidden="true"))
    rows = f"--lanes:{len(lanes)};--rows:{len(order) + 1}"
    return el(
        "div",
        el("div", moment, cls="sg-moment") if moment else None,
        _verdict(lanes),
        el("div", cells, cls="sg-lanes", style=rows),
        cls="sg-compare",
    )


def piece_order(contexts: Sequence[BuiltContext], chunks: Sequence[str]) -> list[str]:
    """Return the ids of all contexts' pieces in one order: instruction, the page, then the rest.

    ``chunks`` are the ids of the page's chunks.
    """
    rank = {chunk: i for i, chunk in enumerate(chunks)}
    seen: dict[str, tuple[int, int]] = {}
    for context in contexts:
        for place, piece in enumerate(fold_history(context.pieces)):
            if piece.id == "instruction":
                key = (0, 0)
            elif piece.id in rank:
                key = (1, rank[piece.id])
            else:
                key = (2, place)
            seen.setdefault(piece.id, key)
    return sorted(seen, key=lambda id_: seen[id_])


def _head(lane: Lane, number: int, votes: Sequence[str], about: Mapping[str, str]) -> Markup:
    letter = "ABCD"[number % 4]
    title = el(
        "div",
        el("span", letter, cls=f"sg-letter sg-lane-{letter.lower()}"),
        el("b", lane.kind),
        el("span", f"budget {lane.budget:,}", cls="sg-muted"),
        cls="sg-lane-title",
    )
    if lane.waiting:
        state = el("div", el("span", cls="sg-spin"), "building …", cls="sg-row")
        return el("div", title, state, cls="sg-lane-head")
    if lane.context is None:
        state = note(lane.problem, "bad") if lane.problem else el("div", "waits", cls="sg-muted")
        return el("div", title, state, cls="sg-lane-head")
    costs = [f"built in {brief(lane.build_seconds)}, chose in {brief(lane.act_seconds)}"]
    costs += costs_of(lane.decision) if lane.decision else []
    return el(
        "div",
        title,
        _choice(lane, votes, about),
        meter(lane.context, lane.budget),
        el("div", " · ".join(costs), cls="sg-muted sg-lane-cost"),
        lost_line(lane.context),
        el(
            "button", f"Continue with {letter}", type="button", data_continue=str(number),
            cls="sg-btn sg-primary",
        ),
        cls="sg-lane-head",
    )  # fmt: skip


def _choice(lane: Lane, votes: Sequence[str], about: Mapping[str, str]) -> Markup:
    if lane.decision is None:
        return el("div", lane.problem or "the actor was not asked", cls="sg-muted")
    same = votes.count(lane.decision.action)
    agree = "alone" if same == 1 else f"like {same - 1} other" + ("s" if same > 2 else "")
    mark = el("span", agree, cls="sg-badge" + (" sg-badge-warn" if same == 1 else ""))
    return el(
        "div",
        el("div", el("span", "would", cls="sg-muted"), action_chip(lane.decision.action),
           mark if len(votes) > 1 else None, cls="sg-row"),
        el("div", short(about[lane.decision.action], 90), cls="sg-about")
        if lane.decision.action in about
        else None,
        el("div", lane.decision.fallback, cls="sg-fallback") if lane.decision.fallback else None,
        el("div", lane.decision.reason, cls="sg-reason") if lane.decision.reason else None,
        cls="sg-would",
    )  # fmt: skip


def _verdict(lanes: Sequence[Lane]) -> Markup:
    """Say in one line whether the builders agree, and who reads least."""
    ready = [lane for lane in lanes if lane.decision is not None and lane.context is not None]
    if len(ready) < 2:
        return Markup("")
    actions = {lane.decision.action for lane in ready if lane.decision}
    sizes = sorted((lane.context.tokens, lane.kind) for lane in ready if lane.context)
    (least, small), (most, large) = sizes[0], sizes[-1]
    agreement = (
        f"All {len(ready)} would do the same."
        if len(actions) == 1
        else f"{plural(len(actions), 'different action')} from the same moment."
    )
    parts: list[object] = [el("b", agreement), " "]
    if least < most:
        parts.append(f"{small} reads {least:,} tokens, {large} reads {most:,}.")
    return el("div", join(parts), cls="sg-verdict", role="status")
