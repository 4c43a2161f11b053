"""JSON as an outline: every key and value of a JSON text in two thirds of its tokens.

    {"id": "JG7", "flights": [{"from": "MCO", "day": "05-21"}, {"from": "BOS", "day": "05-22"}]}

becomes

    id: JG7
    flights{from,day}:
     MCO,05-21
     BOS,05-22

Records with the same keys are the rows of a table; an empty cell is a missing key. Numbers keep their
digits, and text is quoted where it would read as something else. A long text of several lines is
indented below "key: |" ("|-" if no line break ends it), without escapes.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

_WRAP = 100  # characters of a quoted text of several lines; a header may have twice as many
_WORTH = 0.95  # a short outline's share of the characters, at most
_LONG = 2000  # characters from which JSON is an outline anyway: its parts are its lines
_FILLED = 0.6  # share of a table's cells that hold a value, at least
#: Text that reads as a number, a word of JSON, a list, a record, an item, a name, or several lines.
_QUOTED = re.compile(
    r"-?\d[\d.]*(?:[eE][+-]?\d+)?\Z|(?:true|false|null|NaN|-?Infinity|\|-?)?\Z"
    r"|[\s\"\[{]|- |.*(?:[\s:]\Z|[\r\n])"
)
#: What only an escape shows: control characters, rare line ends, halves of a character.
_UNSEEN = re.compile(r"[\0-\x08\v\f\x0e-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]|\r(?!\n)")

#: A table's columns: each key with its own columns, None for a value.
Columns: TypeAlias = dict[str, "Columns | None"]


class _Number(str):
    """A number as it was written."""


class Outline(str):
    """A text that is an outline: its lines stand in each other by their indentation."""


def outline(text: str) -> str:
    """Return the :class:`Outline` of a JSON record, list or lines, if it is shorter or long.

    Else, and of any other text, return ``text``.
    """
    try:
        value = _parsed(text)
        if not isinstance(value, dict | list) or not value:
            return text
        shorter = "\n".join(_lines("", value))
    except (ValueError, RecursionError):
        return text
    size = len(re.sub(r"\n {1,20}", "\n ", shorter))  # a model reads an indentation as one token
    return Outline(shorter) if size < _WORTH * len(text) or len(text) > _LONG else text


def _parsed(text: str) -> Any:
    """Return the value of a JSON text, or the list of those of its lines. Raises ``ValueError``."""
    lines = [line for line in text.split("\n") if line.strip()]
    if len(lines) > 1 and all(line[0] == "{" and line.rstrip()[-1] == "}" for line in lines):
        text = f"[{','.join(lines)}]"
    return json.loads(
        text,
        parse_float=_Number,
        parse_int=_Number,
        parse_constant=_Number,
        object_pairs_hook=_record,
    )


def _record(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        raise ValueError("a key occurs twice")
    return record


def _lines(name: str, value: Any) -> Iterator[str]:
    """Yield the lines of a value behind its ``name`` ("" for none)."""
    if _is_block(value):
        mark = "|" if value.endswith("\n") else "|-"
        yield f"{name}: {mark}" if name else mark
        yield from (f" {line}" for line in value.removesuffix("\n").split("\n"))
        return
    is_flat = isinstance(value, list) and not _is_nested(value)
    if is_flat or not isinstance(value, dict | list) or not value:
        yield f"{name}: {_cell(value)}" if name else _cell(value, (": ",))
        return
    rows = [*_rows(value)]
    columns = _columns([record for _, record in rows])
    if columns and (len(rows) > 1 or len(_header(columns)) <= 2 * _WRAP):
        yield f"{name}{_header(columns)}:"
        yield from (f" {start}{','.join(_cells(columns, record))}" for start, record in rows)
    elif isinstance(value, dict):
        nested = [line for key, child in value.items() for line in _lines(_key(key), child)]
        yield from _below(name, nested)
    else:
        items = [[*_lines("", item)] for item in value]
        marked = [f"{' ' if i else '-'} {line}" for item in items for i, line in enumerate(item)]
        yield from _below(name, marked)


def _below(name: str, lines: Sequence[str]) -> Iterator[str]:
    """Yield ``lines`` indented below their name."""
    if name:
        yield f"{name}:"
    yield from (f" {line}" if name else line for line in lines)


# Tables


def _rows(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield what starts a table's row ("- " a list within the list), and its record."""
    if isinstance(value, dict):
        yield from ((f"{_key(key)}: ", record) for key, record in value.items() if len(value) > 1)
        return
    is_grouped = all(isinstance(item, list) and item for item in value)
    for item in value:
        for number, record in enumerate(item if is_grouped else [item]):
            yield ("  " if number else "- ") if is_grouped else "", record


def _columns(records: Sequence[Any]) -> Columns | None:
    """Return the columns of records with (mostly) the same keys, None where they make no table."""
    columns: Columns = {}
    if not all(isinstance(each, dict) and each and _add(columns, each) for each in records):
        return None
    filled, cells = sum(map(_width, records)), len(records) * _width(columns)
    return columns if filled >= _FILLED * cells else None


def _width(record: Mapping[str, Any]) -> int:
    """Return the number of cells of a record, or of columns."""
    return sum(
        _width(value) if isinstance(value, dict) and value else 1 for value in record.values()
    )


def _add(columns: Columns, record: Mapping[str, Any]) -> bool:
    """Add a record's keys to ``columns``; say whether each is a value, or a record, everywhere."""
    for key, value in record.items():
        if isinstance(value, dict) and value:
            inner = columns.setdefault(key, {})
            if inner is None or not _add(inner, value):
                return False
        elif columns.setdefault(key) is not None or _is_nested(value):
            return False
    return True


def _is_nested(value: Any) -> bool:
    """Say whether a value is a block, or a list of blocks, lists or records."""
    if not isinstance(value, list):
        return _is_block(value)
    return any(isinstance(item, dict | list) or _is_block(item) for item in value)


def _is_block(value: Any) -> bool:
    """Say whether a value is a long text that quotes would fill with escapes."""
    if not isinstance(value, str) or len(value) <= _WRAP:
        return False
    return ("\n" in value or value.startswith(('{"', '[{"'))) and not _UNSEEN.search(value)


def _header(columns: Columns) -> str:
    return f"{{{','.join(_key(k) + (_header(c) if c else '') for k, c in columns.items())}}}"


def _cells(columns: Columns, record: Mapping[str, Any]) -> Iterator[str]:
    """Yield a record's cell for each column, "" for a missing key."""
    for key, inner in columns.items():
        if inner:
            yield from _cells(inner, record.get(key, {}))
        else:
            yield _cell(record[key], (",", ": ")) if key in record else ""


# Values


def _key(key: str) -> str:
    return key if re.fullmatch(r"(?!-? )[\w$@./ -]*[\w$@./-]", key) else _quoted(key)


def _quoted(value: Any) -> str:
    """Return a value as JSON, with escapes for what cannot be seen."""
    text = json.dumps(value, ensure_ascii=False)
    return _UNSEEN.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _cell(value: Any, marks: Sequence[str] = ()) -> str:
    """Return a value as text, in quotes where it holds one of ``marks`` or reads as something else."""
    if isinstance(value, _Number):
        return value
    if isinstance(value, list) and value:
        return f"[{','.join(_cell(item, ',]') for item in value)}]"
    is_plain = isinstance(value, str) and not _QUOTED.match(value) and not _UNSEEN.search(value)
    return value if is_plain and not any(m in value for m in marks) else _quoted(value)
