"""HTML from templates: every text is escaped unless it is HTML made here."""

import time

from jinja2 import Environment, PackageLoader, Undefined
from markupsafe import Markup, escape

from stategate.envs.protocols import split_action, takes_text
from stategate.nodes.protocols import Piece
from stategate.stores.text import plural
from stategate.ui.actions import costs_of, figure, label
from stategate.ui.actions import short as short

#: What a component's template engine would read inside a value (``${x}``, ``{{x}}``).
_TEMPLATE = str.maketrans({"{": "&#123;", "}": "&#125;", "$": "&#36;", "`": "&#96;"})


def safe(text: object) -> Markup:
    """Escape ``text``, unless it is HTML already; None is nothing."""
    if isinstance(text, Markup):
        return text
    if text is None or isinstance(text, Undefined):
        return Markup("")
    return Markup(str(escape(text)).translate(_TEMPLATE))  # noqa: S704 - escaped just here


def render(name: str, *values: object) -> Markup:
    """Return the HTML of a macro: ``parts.note`` is ``note`` of ``ui/app/templates/parts.html``."""
    template, _, macro = name.partition(".")
    html: Markup = getattr(_TEMPLATES.get_template(f"{template}.html").module, macro)(*values)
    return html


def percent(share: float) -> str:
    """Return a share as a CSS length, within bounds."""
    return f"{100 * min(max(share, 0.0), 1.0):.1f}%"


def brief(seconds: float) -> str:
    """Say a duration: ``4 ms``, ``1.3 s``."""
    if seconds < 0.0005:
        return "under 1 ms"
    return f"{1000 * seconds:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def day(at: float | None) -> str:
    """Say a time, in UTC; "" for none."""
    return "" if at is None else time.strftime("%Y-%m-%d %H:%M", time.gmtime(at))


def whole_size(piece: Piece) -> int:
    """Return a piece's tokens when whole (a builder may frame a chunk that is none itself)."""
    return max(piece.tokens_before, piece.tokens_after)


def note(text: object, kind: str = "info", lead: str = "") -> Markup:
    """Return a message box: ``info``, ``good``, ``warn`` or ``bad``."""
    return render("parts.note", text, kind, lead)


_TEMPLATES = Environment(
    loader=PackageLoader("stategate.ui.app", "templates"),
    autoescape=True,
    finalize=safe,
    trim_blocks=True,
    lstrip_blocks=True,
)
_FILTERS = (
    brief,
    costs_of,
    figure,
    label,
    note,
    percent,
    plural,
    short,
    split_action,
    takes_text,
    whole_size,
)
_TEMPLATES.filters.update({function.__name__: function for function in _FILTERS})
_TEMPLATES.filters["thousands"] = "{:,}".format
