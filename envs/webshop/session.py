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
    if not isinstance(value, Mapping) or set(value) != set(FIELDS):
        raise UserError("this is not a WebShop session: take one from reset() or step()")
    keywords = value["keywords"]
    return Frozen(
        {
            **value,
            "keywords": None if keywords is None else tuple(keywords),
            "options": Frozen(value["options"]),
            "visited": tuple(value["visited"]),
        }
    )
