"""Banks as files for people: merge several into one, export rows to JSON lines."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from stores.bank.bank import Bank, Entry, Row
from stores.errors import UserError
from stores.files import write_lines

_BLOCK = 500


def open_bank(folder: str | Path) -> Bank:
    """Open a bank of either kind, without checking what its vectors are made with."""
    for kind in ("state", "trace"):
        try:
            return Bank(folder, kind, {})
        except UserError as error:
            if "has kind" not in str(error):
                raise
    raise UserError(f"'{folder}' holds a bank of an unknown kind")


def merge(source: Bank, target_folder: str | Path) -> int:
    """Add the rows of ``source`` to the bank in a folder, made if it is not there.

    Rows that are there already (by id) are left alone; returns how many are new. Raises
    ``UserError`` where the vectors are made with something else.
    """
    if Path(target_folder).expanduser().resolve() == source.folder.resolve():
        raise UserError("a bank cannot be merged into itself: name another --out")
    target = Bank(target_folder, source.kind, source.makes(), create=True)
    if target.makes() != source.makes():
        raise UserError(
            f"'{target_folder}' holds {sorted(target.makes())} vectors, '{source.folder}' "
            f"{sorted(source.makes())}: merge into a new folder"
        )
    added = 0
    try:
        for part in _parts(source):
            added += target.add(part)
        for row in source.query("select id from sources"):
            target.add([], source=row["id"])
    finally:
        target.close()
    return added


def export_rows(bank: Bank, path: str | Path) -> int:
    """Write all rows (without vectors) as JSON lines, whole or not at all; returns how many."""
    shown = (
        {**{k: v for k, v in vars(row).items() if k not in ("data", "n")}, **row.data}
        for row in bank.rows()
    )
    return write_lines(path, shown)


def _parts(bank: Bank) -> Iterator[list[Entry]]:
    rows: list[Row] = bank.rows()
    for start in range(0, len(rows), _BLOCK):
        part = rows[start : start + _BLOCK]
        marks = ",".join("?" * len(part))
        found = bank.query(
            f"select * from vectors where n in ({marks}) order by n, key, place",  # noqa: S608
            [row.n for row in part],
        )
        vectors: dict[int, dict[str, list[np.ndarray]]] = {}
        for row in found:
            vector = np.frombuffer(row["vector"], dtype="<f4")
            vectors.setdefault(row["n"], {}).setdefault(row["key"], []).append(vector)
        yield [
            Entry(row, {key: np.stack(v) for key, v in vectors.get(row.n, {}).items()})
            for row in part
        ]
