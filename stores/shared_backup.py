"""What lies on shared servers, in files and back: a PostgreSQL database, and a Chroma server's vectors.

The database is dumped and restored by PostgreSQL's own programs, which see one moment of it; passwords
go to them in the environment, so that no list of processes shows them. Collections of Chroma are JSON
lines: what the collection is, then its rows.
"""

import base64
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from stategate.stores.corpus.vectors import Vectors, collections, is_server
from stategate.stores.errors import UserError, user_error_context
from stategate.stores.files import parse_json, write_lines
from stategate.stores.text import without_password

POSTGRES, CHROMA = "STATEGATE_POSTGRES", "STATEGATE_CHROMA"
DUMP, FOLDER = "servers/postgres.dump", "servers/chroma"
#: What a connection is called in a URL and in the environment of PostgreSQL's programs.
_SETTINGS = {
    "host": "PGHOST",
    "port": "PGPORT",
    "dbname": "PGDATABASE",
    "user": "PGUSER",
    "password": "PGPASSWORD",
    "sslmode": "PGSSLMODE",
}


def fetch(folder: Path) -> list[str]:
    """Write what the named servers hold below ``folder``; return the names of its files.

    Raises ``UserError`` where a server does not answer.
    """
    names = []
    if url := os.environ.get(POSTGRES):
        target = folder / DUMP
        target.parent.mkdir(parents=True, exist_ok=True)
        _run("pg_dump", url, "--format=custom", "--no-owner", f"--file={target}")
        names.append(DUMP)
    url = os.environ.get(CHROMA, "")
    if is_server(url):
        (folder / FOLDER).mkdir(parents=True, exist_ok=True)
        for collection in collections(url):
            name = f"{FOLDER}/{collection.name}.jsonl"
            write_lines(folder / name, _rows(collection))
            names.append(name)
    return names


def require_room(names: Iterable[str]) -> None:
    """Check that the servers can take the files of ``names``, before anything is written.

    Raises ``UserError`` where a server is not named or is not empty.
    """
    wanted = set(names)
    if DUMP in wanted:
        _require_empty(_named(POSTGRES))
    if any(name.startswith(FOLDER) for name in wanted):
        there = [collection.name for collection in collections(_named(CHROMA))]
        if there:
            raise UserError(f"the Chroma server holds '{there[0]}' already: name an empty one")


def put_back(folder: Path) -> None:
    """Give the servers what :func:`fetch` wrote below ``folder``."""
    dump = folder / DUMP
    if dump.is_file():
        words = ("--no-owner", "--exit-on-error", "--single-transaction", str(dump))
        _run("pg_restore", _named(POSTGRES), *words)
    for path in sorted((folder / FOLDER).glob("*.jsonl")):
        _fill(_named(CHROMA), path)


def _rows(collection: Vectors) -> Iterator[dict[str, object]]:
    yield {
        "name": collection.name,
        "embedder": collection.embedder,
        "dimension": collection.dimension,
        "mark": collection.mark(),
    }
    for id_, vector, text, metadata in collection.rows():
        raw = base64.b64encode(np.asarray(vector, "<f4").tobytes()).decode()
        yield {"id": id_, "vector": raw, "text": text, "metadata": dict(metadata)}


def _fill(url: str, path: Path) -> None:
    with path.open(encoding="utf-8") as file:
        head = parse_json(next(file))
        collection = Vectors(url, head["name"], head["embedder"], int(head["dimension"]))
        while block := [parse_json(line) for _, line in zip(range(1000), file, strict=False)]:
            vectors = [np.frombuffer(base64.b64decode(row["vector"]), "<f4") for row in block]
            collection.put(
                [row["id"] for row in block],
                np.stack(vectors),
                [row["text"] for row in block],
                [row["metadata"] for row in block],
            )
        collection.set_mark(head["mark"])


def _named(variable: str) -> str:
    url = os.environ.get(variable, "")
    if not url:
        raise UserError(f"the backup holds what was on a server: set {variable} to an empty one")
    return url


def _require_empty(url: str) -> None:
    import psycopg

    query = (
        "select table_schema, table_name from information_schema.tables"
        " where table_schema not in ('pg_catalog', 'information_schema') limit 1"
    )
    with (
        user_error_context(f"cannot reach the database of {POSTGRES}", kinds=psycopg.Error),
        psycopg.connect(url, connect_timeout=10) as db,
    ):
        there = db.execute(query).fetchone()
    if there is not None:
        raise UserError(
            f"the database of {POSTGRES} holds {there[0]}.{there[1]}: name an empty one"
        )


def _run(program: str, url: str, *words: str) -> None:
    from psycopg.conninfo import conninfo_to_dict

    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{program}"))
    path = shutil.which(program) or (str(found[-1]) if found else None)
    if path is None:
        raise UserError(f"there is no {program} here: install PostgreSQL's client programs")
    settings = conninfo_to_dict(url)
    own = {_SETTINGS[key]: str(value) for key, value in settings.items() if key in _SETTINGS}
    named = ["--dbname", own.get("PGDATABASE", "postgres")]
    done = subprocess.run(  # noqa: S603 - PostgreSQL's own program
        [path, *named, *words],
        env={**os.environ, **own},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        problem = without_password(" ".join(done.stderr.split()))[:200]
        raise UserError(f"{program} failed: {problem}")
