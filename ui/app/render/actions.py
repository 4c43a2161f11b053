"""Actions as chips: a verb in colour and what it is on."""

from markupsafe import Markup

from envs.protocols import takes_text
from ui.actions import label, split_action
from ui.app.render.html import el, short


def action_chip(action: str | None, *, lost: bool = False, title: str = "") -> Markup:
    """Return an action as a chip; ``lost`` draws it as one that the model cannot see."""
    if not action:
        return el("span", "nothing", cls="sg-act sg-act-none")
    verb, target = ("", label(action)) if takes_text(action) else split_action(action)
    shown = short(target, 60)
    return el(
        "span",
        el("b", verb) if verb else None,
        el("span", shown),
        cls="sg-act sg-act-lost" if lost else "sg-act",
        title=title or (action if shown != target else None),
    )
