"""A PostgreSQL server of the tests' own: on a socket in a new folder, gone afterwards."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


def programs() -> Path | None:
    """Return the folder of the server's programs, None where none is installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    path = found[-1] if found else shutil.which("initdb")
    return Path(path).parent if path else None


@contextmanager
def running(settings: str = "") -> Iterator[tuple[str, Callable[[str], None]]]:
    """Start a server; yield its URL and what restarts it. It refuses to run as root."""
    folder = Path(tempfile.mkdtemp(prefix="stategate-pg-"))  # pytest's own folders are root's alone
    prefix, tools = [], programs()
    assert tools is not None, "no PostgreSQL server here"
    if os.geteuid() == 0:
        prefix = ["runuser", "-u", "postgres", "--"]
        folder.chmod(0o755)
        shutil.chown(folder, "postgres")

    def run(*words):
        done = subprocess.run(
            [*prefix, *map(str, words)], capture_output=True, text=True, timeout=90, check=False
        )
        assert done.returncode == 0, done.stderr
        return done

    data = folder / "data"
    run(tools / "initdb", "-D", data, "-A", "trust", "-U", "tester")
    options = f"-c listen_addresses= -k {folder} {settings}"

    def control(what):
        words = ("-o", options, "-l", folder / "log") if what != "stop" else ()
        run(tools / "pg_ctl", "-D", data, "-m", "fast", *words, "-w", what)

    control("restart")
    try:
        yield f"postgresql://tester@/postgres?host={folder}", control
    finally:
        control("stop")
        shutil.rmtree(folder, ignore_errors=True)


def is_in_database(url: str, forms: Iterable[bytes]) -> bool:
    """Say whether a dump of a database holds one of ``forms``, as text or as the digits of bytes."""
    tools = programs()
    assert tools is not None, "no PostgreSQL server here"
    words = [str(tools / "pg_dump"), url.partition("#")[0]]
    dump = subprocess.run(words, capture_output=True, timeout=90, check=True).stdout
    return any(form in dump or form.hex().encode() in dump for form in forms)
