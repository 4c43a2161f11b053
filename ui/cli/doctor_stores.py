"""What ``stategate doctor`` says of stores: this home's databases, and the servers that it names."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from stategate.stores.errors import describe_error


@dataclass(frozen=True)
class Finding:
    """One thing looked at: ``ok`` is None where it is worth knowing but not wrong."""

    what: str
    ok: bool | None
    text: str


def stores() -> Iterator[Finding]:
    """Look into each database of this home: whole, damaged, or of a newer version."""
    from stategate.stores.home import cache, home

    own = ["traces.sqlite", "checkpoints.sqlite", "long_term.sqlite"]
    files = {name: home() / name for name in own}
    files["embeddings.sqlite"] = cache() / "embeddings.sqlite"
    files |= {f"bank {p.parent.name}": p for p in sorted(home().glob("banks/*/bank.sqlite"))}
    files |= {f"corpus {p.parent.name}": p for p in sorted(home().glob("corpora/*/corpus.sqlite"))}
    there = {name: path for name, path in files.items() if path.is_file()}
    damaged = {name: problem for name, path in there.items() if (problem := _damage(path))}
    for name, problem in damaged.items():
        fix = "delete it, it is made again" if name == "embeddings.sqlite" else "restore a backup"
        yield Finding("store", False, f"{name} is damaged ({problem}): {fix}")
    size = sum(path.stat().st_size for path in there.values())
    whole = [name for name in there if name not in damaged]
    text = f"{len(whole)} databases are whole, {size / 1e6:.0f} MB" if there else "none yet"
    yield Finding("stores", True if there and not damaged else None, text)


def servers() -> Iterator[Finding]:
    """Ask the servers that the environment names."""
    from stategate.stores.shared_backup import CHROMA, POSTGRES
    from stategate.stores.text import without_password

    if url := os.environ.get(POSTGRES):
        import psycopg

        try:
            with psycopg.connect(url, connect_timeout=5) as db:
                version = db.info.server_version // 10_000
            yield Finding(
                "postgresql", True, f"version {version} answers at {without_password(url)}"
            )
        except psycopg.Error as error:
            yield Finding(
                "postgresql", False, f"{describe_error(error)}: start it, or mend {POSTGRES}"
            )
    if url := os.environ.get(CHROMA):
        from stategate.stores.corpus.vectors import collections

        count = len(collections(url))  # raises a line that says what to do
        yield Finding("chroma", True, f"{count} collections at {without_password(url)}")


def _damage(path: Path) -> str:
    """Return what SQLite finds wrong with a file, "" where nothing is."""
    import sqlite3
    from contextlib import closing

    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as db:
            found = str(db.execute("pragma quick_check(1)").fetchone()[0])
    except sqlite3.Error as error:
        return str(error)
    return "" if found == "ok" else found.splitlines()[0][:80]
