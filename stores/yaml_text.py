"""YAML from outside, read as plain values: no aliases, nothing nested deeper than a person writes.

A few lines of aliases stand for billions of values, and a line of brackets for more depth than any
program can follow; both are refused like a slip of the pen, as ``yaml.YAMLError``.
"""

from typing import Any

import yaml

_DEPTH = 60


class _Plain(yaml.SafeLoader):
    """A safe loader of values that are written out."""

    _depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Compose anything but an alias."""
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("write values out: aliases (*name) are not read")
        self._depth += 1
        if self._depth > _DEPTH:
            raise yaml.YAMLError(f"nested more than {_DEPTH} deep: write it flatter")
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1


def read_yaml(text: str) -> Any:
    """Return the value that ``text`` says. Raises ``yaml.YAMLError``."""
    try:
        return yaml.load(text, _Plain)  # noqa: S506 - a SafeLoader
    except RecursionError:  # the scanner itself, before a node is composed
        raise yaml.YAMLError("nested too deeply: write it flatter") from None
    except (ValueError, OverflowError) as error:  # the 45th of a month; a number of 5,000 digits
        raise yaml.YAMLError(str(error)) from None
