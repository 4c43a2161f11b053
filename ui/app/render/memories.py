"""Memory: facts with where they came from, entities as a graph, rows of the banks of experience."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

from stategate.stores.bank.bank import Row
from stategate.stores.memory.extraction import Entity, Relation
from stategate.stores.memory.recall import SIGNALS
from stategate.stores.memory.records import Candidate, Fact
from stategate.ui.app.render.html import day, hues, macros, plural


def render_facts(facts: Sequence[Fact], total: int) -> Markup:
    """Draw facts as cards, each with its provenance and what can be done with it."""
    if not facts:
        nothing = "Nothing is remembered here yet." if not total else "No fact fits."
        return macros("parts").muted(nothing)
    return macros("memories").facts(facts, total)


def render_why(candidates: Sequence[Candidate]) -> Markup:
    """Draw what recall looked at: scores by signal, and why each was left out."""
    if not candidates:
        return macros("parts").muted(
            "Search for something: here stands why it was found, or was not."
        )
    return macros("memories").candidates(candidates, SIGNALS)


def render_timeline(rows: Sequence[Mapping[str, Any]]) -> Markup:
    """Draw what was stated of whom, from when to when."""
    if not rows:
        return macros("parts").muted("No states are known: nobody said where they live or work.")
    return macros("memories").timeline(rows)


def render_entities(
    entities: Sequence[Entity], relations: Sequence[Relation], chosen: str | None = None
) -> Markup:
    """Draw entities as a graph; a name that is clicked shows what is remembered of it."""
    if not entities:
        return macros("parts").muted("No names are remembered here yet.")
    kinds = {entity.name: entity.kind for entity in entities}
    names = list(kinds)
    pairs = [
        (names.index(r.subject.name), names.index(r.object.name), r.relation.replace("_", " "))
        for r in relations
        if r.subject.name in kinds and r.object.name in kinds and r.subject.name != r.object.name
    ]
    width, height = 600, 440
    spots = layout(len(names), [(a, b) for a, b, _ in pairs], width, height)
    edges = [(spots[a], spots[b], names[a], verb, names[b]) for a, b, verb in pairs]
    degree = [sum(i in (a, b) for a, b, _ in pairs) for i in range(len(names))]
    drawn = [
        (spots[i], name, kinds[name], 8 + 2.2 * math.sqrt(degree[i]), name == chosen)
        for i, name in enumerate(names)
    ]
    caption = f"{plural(len(names), 'name')}, {plural(len(edges), 'relation')}"
    colours = hues(list(kinds.values()))
    return macros("charts").graph(caption, width, height, edges, drawn, colours)


def layout(
    count: int, edges: Sequence[tuple[int, int]], width: float, height: float
) -> list[tuple[float, float]]:
    """Place ``count`` nodes by forces (Fruchterman and Reingold, 1991), always the same way."""
    if count < 2:
        return [(width / 2, height / 2)] * count
    import networkx  # type: ignore[import-untyped]

    graph = networkx.Graph(edges)
    graph.add_nodes_from(range(count))
    placed = networkx.spring_layout(graph, k=1.3 / math.sqrt(count), iterations=160, seed=0)
    points = np.array([placed[node] for node in range(count)])
    span = np.ptp(points, axis=0)
    margin, room = np.array([70.0, 36.0]), np.array([width, height])
    shares = (points - points.min(axis=0)) / np.where(span > 1e-6, span, 1.0)
    return [(float(x), float(y)) for x, y in margin + shares * (room - 2 * margin)]


def render_rows(
    rows: Sequence[Row], total: int, facts: Mapping[str, object], scores: Mapping[str, float]
) -> Markup:
    """Draw rows of a bank: the advice, what it was drawn from, how much it is worth and has helped."""
    cards = []
    for row in rows:
        data = row.data
        plan = data.get("plan")
        source = {
            "episode": data.get("episode"),
            "step": data.get("step", data.get("t")),
            "by": data.get("by"),
            "task": row.task,
        }
        origin = ", ".join(f"{k} {value}" for k, value in source.items() if value not in (None, ""))
        cards.append(
            {
                "row": row,
                "text": data.get("state") or data.get("question") or "",
                "moves": " → ".join(map(str, plan)) if plan else data.get("action", ""),
                "advice": data.get("experience") or ("" if plan else "(no advice)"),
                "score": scores.get(row.id),
                "origin": origin + (f", {day(row.created)}" if row.created else ""),
            }
        )
    return macros("memories").rows(facts.items(), cards, total)
