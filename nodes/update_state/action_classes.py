"""Classes of actions, by page and affordance (never by the length of a text)."""

from nodes.update_state.views import read_page

ACTION_CLASSES = ("search", "product", "option", "buy", "details", "page", "back", "other")
_DETAILS = ("click[description]", "click[features]", "click[reviews]", "click[attributes]")


def action_class(page_text: str, action: str) -> str:
    """Return the class of ``action`` taken on the page ``page_text``."""
    page = read_page(page_text)
    act = action.lower()
    if act.startswith("search["):
        return "search"
    if not act.startswith("click["):
        return "other"
    if act == "click[buy now]":
        return "buy"
    if act == "click[back to search]":
        return "back"
    if page.kind == "results":
        if act in ("click[next >]", "click[< prev]"):
            return "page"
        listed = {f"click[{part.lower()}]" for part in page.parts}
        return "product" if act in listed else "other"
    if page.kind in ("item", "sub"):
        if act == "click[< prev]":
            return "back"
        if act in _DETAILS:
            return "details"
        offered = {f"click[{part.lower()}]" for part in page.parts}
        return "option" if page.kind == "item" and act in offered else "other"
    return "other"
