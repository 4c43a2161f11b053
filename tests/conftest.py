"""What tests share. Downloads and caches go to the user's own cache folder, made once."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

import pytest

from tests.kit import home, sample_shop, user_memory  # noqa: F401 - fixtures
from tests.postgres_server import programs, running

os.environ.setdefault("ANONYMIZED_TELEMETRY", "False")
os.environ.setdefault("LANGSMITH_TRACING", "false")
# Libraries are compiled once, not again by each process that a test starts.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# pytest calls test modules after the checkout's folder; a process that they spawn finds them here.
ROOT = Path(__file__).resolve().parents[1]
_ALIASES = tempfile.TemporaryDirectory(prefix="stategate-tests-")
(Path(_ALIASES.name) / ROOT.name).symlink_to(ROOT)
sys.path.append(_ALIASES.name)


@pytest.fixture(scope="session")
def postgres_server():
    """Start a server on a socket of its own; yield what restarts it."""
    if programs() is None:
        pytest.skip("no PostgreSQL server here: install the package 'postgresql'")
    with running() as (url, control):
        control.url = url
        yield control


@pytest.fixture
def postgres(postgres_server):
    """Return the URL of a PostgreSQL server."""
    return postgres_server.url


@pytest.fixture(scope="session")
def chroma():
    """Start a Chroma server, as `chroma run` does; return its URL."""
    pytest.importorskip("chromadb")
    folder = tempfile.mkdtemp(prefix="stategate-chroma-")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    code = f"import sys; sys.argv = ['chroma', 'run', '--path', {folder!r}, '--host', "
    code += f"'127.0.0.1', '--port', '{port}']; from chromadb.cli.cli import app; app()"
    server = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 90
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                assert time.monotonic() < deadline, "the server did not start"
                assert server.poll() is None, "the server stopped"
                time.sleep(0.2)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(20)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def own_database(postgres):
    """Return a function: the URL of a new, empty database."""
    import psycopg

    def create():
        name = f"own_{uuid.uuid4().hex[:12]}"
        with psycopg.connect(postgres, autocommit=True) as db:
            db.execute(f"create database {name}")
        return postgres.replace("/postgres?", f"/{name}?")

    return create


@pytest.fixture
def database(postgres):
    """Return a function: the place of new tables in PostgreSQL, by a name of the test's own."""
    mark = uuid.uuid4().hex[:8]
    return lambda name="t": f"{postgres}#{name}_{mark}"
