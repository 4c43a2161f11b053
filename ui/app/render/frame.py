"""The head of every page: the name, and the five nodes with what fills them today."""

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from ui.app.render.html import el

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
        shown = kind if isinstance(kind, str) else ", ".join(kind) or "none"
        if boxes:
            boxes.append(el("span", "→", cls="sg-arrow", aria_hidden="true"))
        boxes.append(
            el("span", el("small", node), el("b", shown), cls="sg-node", title=f"{slot}: {shown}")
        )
    return el("div", boxes, cls="sg-pipeline", role="img", aria_label="the agent's nodes")


def render_tasks(tasks: Sequence[tuple[int, str]], where: str, first: int, more: bool) -> Markup:
    """Draw tasks to choose from, a button each; ``where`` says which of how many these are.

    ``first`` is where this page begins, ``more`` whether another follows.
    """
    rows = [
        el("button", el("b", f"#{number}"), el("span", text), type="button",
           data_task=str(number), cls="sg-task")
        for number, text in tasks
    ]  # fmt: skip
    pages = []
    if first > 0:
        pages.append(el("button", "‹ earlier", type="button", data_turn="-1", cls="sg-btn"))
    if more:
        pages.append(el("button", "more ›", type="button", data_turn="1", cls="sg-btn"))
    return el(
        "div",
        el("div", rows, cls="sg-tasks"),
        el("div", pages, el("span", where, cls="sg-muted"), cls="sg-row"),
    )
