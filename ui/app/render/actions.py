"""Actions as people read them: a verb in colour and what it is on."""

from markupsafe import Markup

from envs.protocols import SEARCH
from ui.app.render.html import el, short

_VERBS = {"search": "search", "click": "click", "answer": "answer"}


def split_action(action: str) -> tuple[str, str]:
    """Return (verb, object) of ``click[buy now]``; ("", action) for anything else."""
    head, bracket, rest = action.partition("[")
    if bracket and rest.endswith("]"):
        return head, rest[:-1]
    return "", action


def action_label(action: str) -> str:
    """Return what a button that takes ``action`` says."""
    if action == SEARCH:
        return "search …"
    verb, target = split_action(action)
    return target if verb == "click" else action


def action_chip(action: str | None, *, lost: bool = False, title: str = "") -> Markup:
    """Return an action as a chip; ``lost`` draws it as one that the model cannot see."""
    if not action:
        return el("span", "nothing", cls="sg-act sg-act-none")
    verb, target = split_action(action)
    tone = "sg-act-lost" if lost else f"sg-act-{_VERBS.get(verb, 'other')}"
    shown = short(target, 60)
    return el(
        "span",
        el("b", verb) if verb else None,
        el("span", shown),
        cls=f"sg-act {tone}",
        title=title or (action if shown != target else None),
    )
