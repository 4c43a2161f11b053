"""Files written whole or not at all: bytes, text, JSON, JSON lines, and whole folders; YAML is read.

What is written goes beside the target under a name of this process and thread, then takes the target's
place; a failure, or a kill, leaves the target as it was. ``OSError`` becomes ``UserError``.
"""

import json
import math
import os
import shutil
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import yaml

from stategate.stores.errors import UserError, user_error_context


def user_path(name: str | Path) -> Path:
    """Return the path that a person names, ``~`` replaced. Raises ``UserError`` for no file's name."""
    errors = (OSError, RuntimeError)  # too long a name, and a user that is not here
    with user_error_context(f"'{str(name)[:60]}' names no file", "name another", errors):
        path = Path(name).expanduser()
        path.exists()
    return path


@contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """Yield a name to write a file or a folder under; it then replaces ``path``, file or folder.

    A link stays, and leads to what was written; a pipe or a device is itself what is written to.
    Folders above are made. Raises ``UserError`` for an ``OSError``, inside or at the end.
    """
    named = user_path(path)
    with user_error_context(f"cannot write '{path}'", "name another file", OSError):
        if named.exists() and not (named.is_file() or named.is_dir()):
            yield named
            return
        target = Path(os.path.realpath(named))
        partial = target.with_name(f"{target.name}.{os.getpid()}.{threading.get_ident()}.part")
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield partial
            if partial.is_dir() and target.is_dir():
                shutil.rmtree(target)
            partial.replace(target)
        finally:
            with suppress(OSError):
                shutil.rmtree(partial) if partial.is_dir() else partial.unlink()


def write_bytes(path: str | Path, content: bytes) -> None:
    """Write a file."""
    with atomic_path(path) as partial:
        partial.write_bytes(content)


def write_text(path: str | Path, text: str) -> None:
    """Write a UTF-8 file; lone surrogates (a model's broken emoji) become "?"."""
    write_bytes(path, text.encode("utf-8", "replace"))


def write_json(path: str | Path, value: object, indent: int | None = None) -> None:
    """Write one JSON value (null for what is not a number), and a line break."""
    write_text(path, json.dumps(json_safe(value), indent=indent, ensure_ascii=False) + "\n")


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON text. Raises ``ValueError`` for any other, also for a deep one."""
    if not text.strip():
        raise ValueError("it is empty")
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("JSON nested too deeply") from None


def json_safe(value: object) -> Any:
    """Return ``value`` with NaN and infinities as None: JSON has neither."""
    if isinstance(value, Mapping):
        return {key: json_safe(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_safe(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_lines(path: str | Path, rows: Iterable[Mapping[str, object]]) -> int:
    """Write ``rows``, one JSON object a line; returns how many."""
    count = 0
    with (
        atomic_path(path) as partial,
        partial.open("w", encoding="utf-8", errors="replace") as lines,
    ):
        for row in rows:
            lines.write(json.dumps(row, ensure_ascii=False) + "\n")
            count += 1
    return count


class _Loader(yaml.SafeLoader):
    """Reads YAML without what its text does not show: aliases, deep nesting, keys written twice."""

    MOST, depth = 60, 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Return the node of the next value, or raise ``yaml.YAMLError``."""
        # A few lines of aliases stand for billions of values, and a line of brackets takes minutes.
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("write values out: aliases (*name) are not read")
        if self.depth > self.MOST:
            raise yaml.YAMLError(f"nested more than {self.MOST} deep: write it flatter")
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Return a mapping; of a key that is written twice YAML would keep the later value alone."""
        there: set[tuple[str, str]] = set()
        for key, _ in node.value:
            if (key.tag, str(key.value)) in there:
                line = key.start_mark.line + 1
                raise yaml.YAMLError(f"'{key.value}' is there twice, again in line {line}")
            there.add((key.tag, str(key.value)))
        return super().construct_mapping(node, deep)


def read_yaml(text: str) -> Any:
    """Return the value that ``text`` says, by :class:`_Loader`. Raises ``yaml.YAMLError``."""
    try:
        return _Loader(text).get_single_data()
    except (ValueError, OverflowError) as error:  # the 45th of a month; a number of 5,000 digits
        raise yaml.YAMLError(str(error)) from None


def read_pair(text: str, form: str) -> tuple[str, Any]:
    """Return KEY and VALUE of "KEY=VALUE", read as YAML. Raises ``UserError``: write ``form``."""
    key, equals, value = text.partition("=")
    if not (equals and key.strip()):
        raise UserError(f"write {form}, not '{text}'")
    with user_error_context(f"'{text}' is no YAML", kinds=yaml.YAMLError):
        return key.strip(), read_yaml(value) if value else ""
