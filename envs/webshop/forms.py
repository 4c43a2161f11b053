"""Which parts of an instruction a search is made of."""

from collections.abc import Mapping

#: Searches among ``envs.webshop.actions.MOVES``, by the roles of the words that they take.
FORMS: Mapping[str, tuple[str, ...]] = {
    "search": ("thing", "property", "value"),
    "search_no_options": ("thing", "property"),
    "search_kind_options": ("thing", "value"),
    "search_kind": ("thing",),
}
