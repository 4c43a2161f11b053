"""A WebShop session: an immutable value that says where in an episode one is.

Fields: ``goal`` (index, or None) and ``instruction`` (free text of a goalless episode, or None);
``page`` (search, results, item, sub, done); ``keywords`` and ``number`` of the results page;
``asin``, ``options`` and ``sub`` of the product; ``visited`` products since the last fresh search.
"""

from collections.abc import Mapping
from typing import Any, NoReturn

from stores.errors import UserError

FIELDS = (
    "goal", "instruction", "page", "keywords", "number", "asin", "options", "sub", "visited",
)  # fmt: skip
PAGES = ("search", "results", "item", "sub", "done")


class Frozen(dict[str, Any]):
    """A dict that refuses to change: JSON-serialisable like a dict, safe to share like a tuple."""

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("a session is immutable: world.step returns the next one")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(sorted((key, repr(value)) for key, value in self.items())))

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (dict(self),))

    def having(self, **changes: Any) -> "Frozen":
        """Return a copy with ``changes``."""
        return Frozen({**self, **changes})


def start(goal: int | None, instruction: str | None) -> Frozen:
    """Return the session at the search page."""
    return Frozen(
        goal=goal, instruction=instruction, page="search", keywords=None, number=None,
        asin=None, options=Frozen(), sub=None, visited=(),
    )  # fmt: skip


def restore(value: Mapping[str, Any]) -> Frozen:
    """Read a session back from plain JSON values. Raises ``UserError`` for anything else."""
    if isinstance(value, Frozen):
        return value
    try:
        keywords, number = value["keywords"], value["number"]
        read = Frozen(
            {
                **value,
                "keywords": None if keywords is None else tuple(keywords),
                "options": Frozen(value["options"]),
                "visited": tuple(value["visited"]),
            }
        )
        is_placed = value["page"] == "search" or bool(keywords and isinstance(number, int))
        is_session = is_placed and value["page"] in PAGES and set(value) == set(FIELDS)
    except (KeyError, TypeError, ValueError):
        is_session = False
    if not is_session:
        raise UserError("this is not a WebShop session: take one from reset() or step()")
    return read
