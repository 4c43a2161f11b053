"""What tests share. Downloads and caches go to the user's own cache folder, made once."""

import os
import sys
import tempfile
import uuid
from pathlib import Path

import pytest

from tests.kit import home, program, sample_shop, user_memory  # noqa: F401 - fixtures
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


@pytest.fixture(scope="session", autouse=True)
def sentence_model_files():
    """Fetch the sentence model once, into the user's own cache: every reader of English needs it."""
    from stategate.stores.assets.fetch import asset_path

    asset_path("minilm")


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
def chroma(tmp_path_factory):
    """Start a Chroma server, as `chroma run` does; return its URL."""
    pytest.importorskip("chromadb")
    folder = tmp_path_factory.mktemp("chroma")
    code = "import sys; from chromadb.cli.cli import app; sys.argv[0] = 'chroma'; app()"
    where = ["-c", code, "run", "--path", str(folder), "--host", "127.0.0.1", "--port"]
    with program(lambda port: [*where, str(port)], folder / "log") as url:
        yield url


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


@pytest.fixture(params=["file", "postgres"])
def where(request, tmp_path):
    """Return where checkpoints go: a file, or a database of the test's own."""
    if request.param == "file":
        return str(tmp_path / "checkpoints.sqlite")
    return request.getfixturevalue("own_database")()


@pytest.fixture(params=["file", "postgres"])
def place(request, tmp_path):
    """Return a function: the place of a store by its name, in a folder or in PostgreSQL."""
    request.getfixturevalue("home")
    if request.param == "file":
        return lambda name="store": tmp_path / name
    return request.getfixturevalue("database")


@pytest.fixture
def database(postgres):
    """Return a function: the place of new tables in PostgreSQL, by a name of the test's own."""
    mark = uuid.uuid4().hex[:8]
    return lambda name="t": f"{postgres}#{name}_{mark}"
