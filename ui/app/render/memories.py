"""Memory: facts with where they came from, entities as a graph, rows of the banks of experience."""

import math
import time
from collections.abc import Mapping, Sequence

import numpy as np
from markupsafe import Markup

from stores.bank.bank import Row
from stores.memory.records import Entity, Fact, Relation
from ui.app.render.charts import HUES
from ui.app.render.html import el, plural, short


def render_facts(facts: Sequence[Fact], total: int) -> Markup:
    """Draw facts as cards, each with its provenance and what can be done with it."""
    if not facts:
        nothing = "Nothing is remembered here yet." if not total else "No fact fits."
        return el("div", nothing, cls="sg-muted")
    cards = [_fact(fact) for fact in facts]
    count = f"{len(facts)} of {plural(total, 'fact')}"
    return el("div", el("div", count, cls="sg-muted"), el("div", cards, cls="sg-facts-grid"))


def _fact(fact: Fact) -> Markup:
    seen = f"asked {fact.times}×" if fact.times > 1 else "asked once"
    marks = [el("span", f"salience {fact.salience:.2f}", cls="sg-badge"),
             el("span", seen, cls="sg-badge")]  # fmt: skip
    if fact.score:
        marks.append(el("span", f"score {fact.score:.2f}", cls="sg-score"))
    if fact.contradicts:
        others = ", ".join(f"#{other}" for other in fact.contradicts)
        marks.append(el("span", f"answered otherwise in {others}", cls="sg-badge sg-badge-warn"))
    if not fact.success:
        marks.append(el("span", "not answered", cls="sg-badge sg-badge-warn"))
    sources = [
        el("li", f"{day(turn['at'])}: thread {turn['thread_id']}, step {turn['step']}")
        for turn in fact.turns
    ]
    summary = el("summary", f"from {plural(len(sources), 'turn')}, last {day(fact.updated)}")
    return _card(
        f"#{fact.id}", str(fact.id), "fact", marks,
        [
            el("div", fact.question, cls="sg-card-title"),
            el("div", fact.answer, cls="sg-card-text"),
            el("details", summary, el("ul", sources), cls="sg-prompt"),
        ],
    )  # fmt: skip


def _card(
    name: str, id_: str, what: str, marks: Sequence[Markup], body: Sequence[object]
) -> Markup:
    """Draw what is remembered as a card with its two buttons."""
    edit = el("button", "Edit", type="button", data_fact=id_, cls="sg-btn",
              aria_label=f"edit {what} {id_}")  # fmt: skip
    forget = el("button", "Forget", type="button", data_drop=id_, cls="sg-btn sg-danger",
                aria_label=f"forget {what} {id_}")  # fmt: skip
    head = el("div", el("b", name), marks, cls="sg-row")
    buttons = el("div", edit, forget, cls="sg-row")
    return el("article", head, list(body), buttons, cls="sg-card sg-fact-card")


def day(at: float) -> str:
    """Say a time, in UTC."""
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime(at))


def render_entities(
    entities: Sequence[Entity], relations: Sequence[Relation], chosen: str | None = None
) -> Markup:
    """Draw entities as a graph; a name that is clicked shows what is remembered of it."""
    if not entities:
        return el("div", "No names are remembered here yet.", cls="sg-muted")
    names = list(dict.fromkeys(entity.name for entity in entities))
    known = {name: i for i, name in enumerate(names)}
    kinds = {entity.name: entity.kind for entity in entities}
    edges = [
        (known[r.subject.name], known[r.object.name], r.relation)
        for r in relations
        if r.subject.name in known and r.object.name in known and r.subject.name != r.object.name
    ]
    width, height = 600, 440
    spots = layout(len(names), [(a, b) for a, b, _ in edges], width, height)
    colours = {kind: HUES[i % len(HUES)] for i, kind in enumerate(dict.fromkeys(kinds.values()))}
    parts: list[Markup] = []
    for a, b, relation in edges:
        (x1, y1), (x2, y2) = spots[a], spots[b]
        verb = relation.replace("_", " ")
        parts.append(el("line", el("title", f"{names[a]} {verb} {names[b]}"), x1=f"{x1:.0f}",
                        y1=f"{y1:.0f}", x2=f"{x2:.0f}", y2=f"{y2:.0f}", cls="sg-edge"))  # fmt: skip
        if len(edges) <= 24:
            parts.append(el("text", verb, x=f"{(x1 + x2) / 2:.0f}", y=f"{(y1 + y2) / 2 - 3:.0f}",
                            cls="sg-edge-name"))  # fmt: skip
    degree = [sum(i in (a, b) for a, b, _ in edges) for i in range(len(names))]
    for i, name in enumerate(names):
        x, y = spots[i]
        tone = f"--h:{colours[kinds[name]]}"
        here = " sg-here" if name == chosen else ""
        parts.append(
            el(
                "g",
                el("title", f"{name} ({kinds[name]})"),
                el("circle", cx=f"{x:.0f}", cy=f"{y:.0f}", r=f"{8 + 2.2 * math.sqrt(degree[i]):.1f}"),
                el("text", short(name, 26), x=f"{x:.0f}", y=f"{y - 14:.0f}"),
                data_pick=name, cls="sg-entity" + here, style=tone, tabindex="0", role="button",
            )
        )  # fmt: skip
    legend = [el("span", el("i", style=f"--h:{hue}"), kind, cls="sg-key") for kind, hue in
              colours.items()]  # fmt: skip
    caption = f"{plural(len(names), 'name')}, {plural(len(edges), 'relation')}"
    picture = el("svg", parts, viewBox=f"0 0 {width} {height}", cls="sg-graph", role="group",
                 aria_label=f"graph of {caption}")  # fmt: skip
    return el("figure", el("figcaption", caption, cls="sg-muted"), picture,
              el("div", legend, cls="sg-row"), cls="sg-figure sg-box")  # fmt: skip


def layout(
    count: int, edges: Sequence[tuple[int, int]], width: float, height: float, steps: int = 160
) -> list[tuple[float, float]]:
    """Place ``count`` nodes by forces (Fruchterman and Reingold, 1991), always the same way."""
    if not count:
        return []
    angles = np.arange(count) * 2.399963  # the golden angle spreads any number of nodes evenly
    radius = 0.42 * np.sqrt((np.arange(count) + 0.5) / max(count, 1))
    points = np.stack([np.cos(angles), np.sin(angles)], axis=1) * radius[:, None]
    ideal = 1.3 / math.sqrt(max(count, 1))
    pairs = np.asarray(list(edges), dtype=int).reshape(-1, 2)
    for step in range(steps if count > 1 else 0):
        apart = points[:, None, :] - points[None, :, :]
        far = np.linalg.norm(apart, axis=2) + np.eye(count)
        force = (apart / far[..., None] * (ideal**2 / far)[..., None]).sum(axis=1)
        for a, b in pairs:
            pull = points[b] - points[a]
            strength = np.linalg.norm(pull) / ideal
            force[a] += pull * strength
            force[b] -= pull * strength
        force -= 0.6 * points  # towards the middle, or what is not connected drifts away
        size = np.linalg.norm(force, axis=1, keepdims=True) + 1e-9
        points = points + force / size * np.minimum(size, 0.08 * (1 - step / steps))
    low, high = points.min(axis=0), points.max(axis=0)
    span = np.where(high - low > 1e-6, high - low, 1.0)
    margin = np.array([70.0, 36.0])
    room = np.array([width, height]) - 2 * margin
    placed = margin + (points - low) / span * room if count > 1 else np.array([[width, height]]) / 2
    return [(float(x), float(y)) for x, y in placed]


def render_rows(
    rows: Sequence[Row], total: int, facts: Mapping[str, object], scores: Mapping[str, float]
) -> Markup:
    """Draw rows of a bank: the advice, what it was drawn from, how much it is worth and has helped."""
    lines = [
        el("div", el("span", name, cls="sg-fact-name"), el("span", str(value)), cls="sg-fact")
        for name, value in facts.items()
    ]
    cards = [_row(row, scores.get(row.id)) for row in rows]
    count = f"{len(rows)} of {plural(total, 'row')}"
    return el("div", el("div", lines, cls="sg-facts-list"), el("div", count, cls="sg-muted"),
              el("div", cards, cls="sg-facts-grid"))  # fmt: skip


def _row(row: Row, score: float | None) -> Markup:
    data = row.data
    text = data.get("state") or data.get("question") or ""
    plan = data.get("plan")
    moves = " → ".join(map(str, plan)) if isinstance(plan, list | tuple) else data.get("action", "")
    advice = data.get("experience") or ("" if plan else "(no advice)")
    marks = [el("span", f"q {row.q:.2f}", cls="sg-badge")]
    if row.uses:
        marks.append(el("span", f"used {row.uses}×, earned {row.helped:.2f}", cls="sg-badge"))
    if score is not None:
        marks.append(el("span", f"{score:.2f}", cls="sg-score", title="likeness"))
    source = [("episode", data.get("episode")), ("step", data.get("step", data.get("t"))),
              ("by", data.get("by")), ("task", row.task)]  # fmt: skip
    origin = ", ".join(f"{name} {value}" for name, value in source if value not in (None, ""))
    created = f", {day(row.created)}" if row.created else ""
    return _card(
        row.id[:10], row.id, "row", marks,
        [
            el("div", short(text, 360), cls="sg-card-text"),
            el("div", short(moves, 160), cls="sg-act sg-wide") if moves else None,
            el("div", short(advice, 400), cls="sg-advice") if advice else None,
            el("div", f"from {origin}{created}", cls="sg-muted"),
        ],
    )  # fmt: skip
