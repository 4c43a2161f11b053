"""Safe HTML from Python: every text is escaped unless it is HTML made here."""

from collections.abc import Iterable
from typing import Any

from markupsafe import Markup, escape

#: What a component's template engine would read inside a value (``${x}``, ``{{x}}``).
_TEMPLATE = str.maketrans({"{": "&#123;", "}": "&#125;", "$": "&#36;", "`": "&#96;"})
_VOID = frozenset({"input", "br", "img"})


def safe(text: object) -> Markup:
    """Escape ``text``, unless it is HTML already."""
    if isinstance(text, Markup):
        return text
    return Markup(str(escape(text)).translate(_TEMPLATE))  # noqa: S704 - escaped just here


def el(name: str, /, *children: Any, **attributes: Any) -> Markup:
    """Return an element.

    ``children`` may be text, HTML, None (nothing) or lists of these. An attribute's underscores become
    dashes (``cls`` is ``class``, a trailing one goes); True writes its bare name, False and None
    leave it out.
    """
    words = [name]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        label = "class" if key == "cls" else key.rstrip("_").replace("_", "-")
        words.append(label if value is True else f'{label}="{safe(value)}"')
    opening = f"<{' '.join(words)}>"
    if name in _VOID:
        return Markup(opening)  # noqa: S704 - attributes are escaped
    return Markup(f"{opening}{join(children)}</{name}>")  # noqa: S704


def join(children: Iterable[Any], between: str = "") -> Markup:
    """Join children (see :func:`el`) to HTML."""
    parts: list[Markup] = []
    for child in children:
        if child is None:
            continue
        if isinstance(child, list | tuple):
            parts.append(join(child))
        else:
            parts.append(safe(child))
    return Markup(safe(between).join(parts))  # noqa: S704 - each part is safe


def percent(share: float) -> str:
    """Return a share as a CSS length, within bounds."""
    return f"{100 * min(max(share, 0.0), 1.0):.1f}%"


def plural(count: int, noun: str) -> str:
    """Say ``1 step`` or ``2 steps``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def brief(seconds: float) -> str:
    """Say a duration: ``4 ms``, ``1.3 s``."""
    if seconds < 0.0005:
        return "under 1 ms"
    return f"{1000 * seconds:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def short(text: object, width: int = 80) -> str:
    """Fold white space and cut to ``width`` characters."""
    line = " ".join(str(text).split())
    return line if len(line) <= width else line[: width - 1].rstrip() + "…"


def note(text: object, kind: str = "info", lead: str = "") -> Markup:
    """Return a message box: ``info``, ``good``, ``warn`` or ``bad``."""
    role = "alert" if kind == "bad" else "status"
    strong = el("strong", lead, " ") if lead else None
    return el("div", strong, text, cls=f"sg-note sg-note-{kind}", role=role)


def empty(title: str, hint: object = "") -> Markup:
    """Return what stands where there is nothing yet, and says how to get something."""
    return el("div", el("div", title, cls="sg-empty-title"), el("div", hint), cls="sg-empty")
