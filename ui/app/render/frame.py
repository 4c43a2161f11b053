"""The head of every page: the name, and the five nodes with what fills them today."""

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from ui.app.render.html import el, plural

#: The picture of the agent: each node, and the slot of the config that fills it.
_NODES = (
    ("observe", "env"),
    ("update_state", "updater"),
    ("build_context", "context"),
    ("act", "actor"),
    ("write_memory", "memory"),
)


def render_head() -> Markup:
    """Draw the name and what this is."""
    gate = Markup(
        '<svg viewBox="0 0 32 32" width="30" height="30" aria-hidden="true">'
        '<rect x="2" y="5" width="4" height="22" rx="2" class="sg-logo-a"></rect>'
        '<rect x="26" y="5" width="4" height="22" rx="2" class="sg-logo-a"></rect>'
        '<rect x="9" y="9" width="4" height="14" rx="2" class="sg-logo-b"></rect>'
        '<rect x="14" y="13" width="4" height="6" rx="2" class="sg-logo-b"></rect>'
        '<rect x="19" y="9" width="4" height="14" rx="2" class="sg-logo-b"></rect></svg>'
    )
    return el(
        "header",
        el("div", gate, el("h1", "Stategate"), cls="sg-brand"),
        el("p", "Step through an episode, see what the model gets to read, and ask what another "
           "memory would have done."),
        cls="sg-head",
    )  # fmt: skip


def render_pipeline(kinds: Mapping[str, str | Sequence[str]]) -> Markup:
    """Draw observe → update_state → build_context → act → write_memory with today's kinds."""
    boxes: list[Markup] = []
    for node, slot in _NODES:
        kind = kinds.get(slot) or "none"
        told = kind if isinstance(kind, str) else ", ".join(kind) or "none"
        if boxes:
            boxes.append(el("span", "→", cls="sg-arrow", aria_hidden="true"))
        boxes.append(
            el("span", el("small", node), el("b", told), cls="sg-node", title=f"{slot}: {told}")
        )
    return el("div", boxes, cls="sg-pipeline", role="img", aria_label="the agent's nodes")


def render_goals(
    goals: Sequence[tuple[int, str]], total: int, first: int, chosen: int | None = None
) -> Markup:
    """Draw goals to choose from, a button each; ``first`` of ``total`` is where this page begins."""
    rows = [
        el(
            "button", el("b", f"#{number}"), el("span", text), type="button",
            data_goal=str(number), cls="sg-goal" + (" sg-here" if number == chosen else ""),
        )
        for number, text in goals
    ]  # fmt: skip
    if not rows:
        return el("div", "No goal has these words.", cls="sg-muted")
    pages = []
    if first > 0:
        pages.append(el("button", "‹ earlier", type="button", data_turn="-1", cls="sg-btn"))
    if first + len(goals) < total:
        pages.append(el("button", "more ›", type="button", data_turn="1", cls="sg-btn"))
    where = f"{first + 1}–{first + len(goals)} of {plural(total, 'goal')}"
    return el(
        "div",
        el("div", rows, cls="sg-goals"),
        el("div", pages, el("span", where, cls="sg-muted"), cls="sg-row"),
    )
