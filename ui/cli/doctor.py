"""``stategate doctor``: whether everything is here that is needed. Nothing is fetched."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import typer

from stategate.stores.errors import UserError, describe_error, error_with_type
from stategate.stores.settings import JsonFile, Overrides, Settings, option
from stategate.ui.cli.output import console, write_json
from stategate.ui.cli.settings_command import command, single

app = single()
_SHOWN = ("stategate", "langgraph", "langchain-core", "torch", "xllamacpp")
_MARKS = {True: ("ok", "green"), False: ("wrong", "bold red"), None: ("–", "dim")}
_ROOM = 1 << 30  # bytes that a disk should have free


@dataclass(frozen=True)
class Finding:
    """One thing looked at: ``ok`` is None where it is worth knowing but not wrong."""

    what: str
    ok: bool | None
    text: str


class DoctorSettings(Settings):
    """Whose parts are looked at, and how closely."""

    config: str = option("webshop", "Whose model, embedder and stores to look at.")
    overrides: Overrides = ()
    deep: bool = option(False, "Ask model and embedder something.")
    json_target: JsonFile = None

    def load(self) -> Any:
        """Return the config."""
        from stategate.graph.config import load_config

        return load_config(self.config, self.overrides)


@command(app, "stategate doctor --json -")
def doctor(settings: DoctorSettings) -> None:
    """Check versions, folders, disk, stores, servers, assets, model and embedder. Fetches nothing.

    Exit code 1 if something is wrong; each line says what to do.
    """
    from rich.table import Table
    from rich.text import Text

    results = list(findings(settings))
    wrong = sum(finding.ok is False for finding in results)
    if settings.json_target is not None:
        told = {"ok": not wrong, "findings": [vars(finding) for finding in results]}
        write_json(settings.json_target, told)
    else:
        out = console()
        table = Table.grid("", "", "", padding=(0, 2))
        for finding in results:
            table.add_row(Text(*_MARKS[finding.ok]), finding.what, Text(finding.text))
        out.print(table)
        out.print(f"[bold red]{wrong} wrong[/bold red]" if wrong else "[green]all is well[/green]")
    if wrong:
        raise typer.Exit(1)


def findings(settings: DoctorSettings) -> Iterator[Finding]:
    """Look at everything, one thing at a time; a check that breaks is itself a finding."""
    for name, check in CHECKS.items():
        try:
            yield from check(settings)
        except UserError as error:  # one line that says what to do
            yield Finding(name, False, str(error))
        except Exception as error:  # a doctor that dies of what it finds helps nobody
            yield Finding(name, False, error_with_type(error, 1000))


def check_packages(_: DoctorSettings) -> Iterator[Finding]:
    """Compare what is installed with what is needed."""
    from importlib.metadata import PackageNotFoundError, distributions, requires, version

    from packaging.requirements import Requirement

    own = f"{sys.version.split()[0]} (3.11 or newer is needed)"
    yield Finding("python", sys.version_info >= (3, 11), own)
    wrong = []
    for needed in map(Requirement, requires("stategate") or ()):
        if needed.marker is not None and not needed.marker.evaluate({"extra": ""}):
            continue
        try:
            installed = version(needed.name)
        except PackageNotFoundError:
            wrong.append(f"{needed.name} is missing")
            continue
        if not needed.specifier.contains(installed, prereleases=True):
            wrong.append(f"{needed.name} is {installed}, needed {needed.specifier}")
    here = {d.name: d.version for d in distributions() if d.name in _SHOWN}
    versions = ", ".join(f"{name} {here[name]}" for name in _SHOWN if name in here)
    yield Finding("packages", not wrong, "; ".join(wrong) or versions)


def check_home(_: DoctorSettings) -> Iterator[Finding]:
    """Write a file into each folder of ours, and see whether there is room for more."""
    import shutil
    import tempfile

    from stategate.stores.home import cache, home

    for name, place in (("data", home), ("cache", cache)):
        try:
            folder = place()
            tempfile.TemporaryFile(dir=folder).close()
        except (OSError, UserError) as error:
            fix = "" if isinstance(error, UserError) else ": set STATEGATE_HOME"
            yield Finding(name, False, f"not writable ({error}){fix}")
            continue
        free = shutil.disk_usage(folder).free
        if free < _ROOM:
            fix = "make room, prune (stategate checkpoints prune), or set STATEGATE_HOME"
            yield Finding(name, False, f"{folder} has {free / 1e6:.0f} MB free: {fix}")
            continue
        yield Finding(name, True, f"{folder} is writable, {free / 1e9:.0f} GB free")


def check_loopback(_: DoctorSettings) -> Iterator[Finding]:
    """Connect to a free port of this machine: the embedded model's server needs one."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname(), timeout=5).close()
    yield Finding("loopback", True, "a free port on 127.0.0.1 answers")


def check_plugins(_: DoctorSettings) -> Iterator[Finding]:
    """Count the kinds, and name those that do not load."""
    from stategate.nodes.protocols import SLOTS
    from stategate.nodes.registry import registry
    from stategate.stores.errors import MissingExtra

    known = registry()
    count = sum(len(known.kinds(slot)) for slot in SLOTS)
    yield Finding("plug-ins", True, f"{count} kinds in {len(SLOTS)} slots")
    for name, why in known.broken.items():  # a part that nobody installed is not broken
        ok = None if why.startswith(MissingExtra.__name__) else False
        yield Finding("plug-in", ok, f"{name}: {why.removeprefix('MissingExtra: ')}")


def check_assets(_: DoctorSettings) -> Iterator[Finding]:
    """Say which files from outside are here, and whether tokens are counted without one."""
    from stategate.envs.webshop.data import read_manifest
    from stategate.stores.assets.fetch import ASSETS
    from stategate.stores.home import home
    from stategate.stores.tokens import count_tokens

    yield Finding("tokens", count_tokens("hello world") == 2, "cl100k counts offline")
    for asset in ASSETS.values():
        size = f"{asset.size / 1e6:,.0f} MB"
        if asset.is_present and asset.is_verified:
            yield Finding(asset.name, True, f"here and checked, {size}")
            continue
        fetch = "its SHA-256 is checked" if asset.is_present else "not here yet; it is fetched"
        yield Finding(asset.name, None, f"{size}; {fetch} on first use")
    records = read_manifest(home() / "data" / "webshop")
    official = "files that differ from the official ones are here: --set env.data=official"
    if all(record.official for record in records):
        official = "the official files are here: --set env.data=official"
    text = official if records else "the sample ships; the real one: stategate data webshop"
    yield Finding("webshop", True if records else None, text)


def check_stores(_: DoctorSettings) -> Iterator[Finding]:
    """Let SQLite check each database of this home."""
    from stategate.stores.home import cache, home

    files = [home() / f"{name}.sqlite" for name in ("traces", "checkpoints", "long_term")]
    files += [cache() / "embeddings.sqlite", *sorted(home().glob("banks/*/bank.sqlite"))]
    files += sorted(home().glob("corpora/*/corpus.sqlite"))
    there = [path for path in files if path.is_file()]
    damaged = {path: problem for path in there if (problem := _damage(path))}
    for path, problem in damaged.items():
        is_cache = path.name == "embeddings.sqlite"
        fix = "delete it, it is made again" if is_cache else "restore a backup"
        yield Finding("store", False, f"{path} is damaged ({problem}): {fix}")
    size = sum(path.stat().st_size for path in there)
    text = f"{len(there) - len(damaged)} databases are whole, {size / 1e6:.0f} MB"
    is_well = True if there and not damaged else None
    yield Finding("stores", is_well, text if there else "none yet")


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


def check_servers(_: DoctorSettings) -> Iterator[Finding]:
    """Ask the servers that the environment names."""
    from stategate.stores.text import without_password

    if url := os.environ.get("STATEGATE_POSTGRES"):
        import psycopg

        try:
            with psycopg.connect(url, connect_timeout=5) as db:
                version = db.info.server_version // 10_000
            text = f"version {version} answers at {without_password(url)}"
            yield Finding("postgresql", True, text)
        except psycopg.Error as error:
            fix = "start it, or mend STATEGATE_POSTGRES"
            yield Finding("postgresql", False, f"{describe_error(error)}: {fix}")
    if url := os.environ.get("STATEGATE_CHROMA"):
        from stategate.stores.corpus.vectors import collections

        count = len(collections(url))  # raises a line that says what to do
        yield Finding("chroma", True, f"{count} collections at {without_password(url)}")


def check_model(settings: DoctorSettings) -> Iterator[Finding]:
    """Say whether the chat model could answer: its packages, file or key; ``--deep`` asks it."""
    config = settings.load()
    params: Any = config.llm
    if params is None:
        yield Finding("model", None, f"{settings.config} uses none")
        return
    name = f"{params.kind} {getattr(params, 'model', '')}".strip()
    if params.kind == "embedded":
        yield _embedded(params, name)
    elif params.kind == "openai":
        from stategate.nodes.models.keys import key_from

        key_from(params.api_key_env, params.base_url)  # raises a line that says what to do
        yield Finding("model", None, f"{name} at {params.base_url}; --deep asks it")
    if settings.deep:
        from langchain_core.messages import HumanMessage

        from stategate.nodes.models.asking import ask
        from stategate.nodes.resources import Resources

        started = time.perf_counter()
        reply = ask(Resources(*config.models).llm, [HumanMessage("Say yes.")], max_tokens=8)
        took = time.perf_counter() - started
        yield Finding("model", bool(reply.strip()), f"{name} answered in {took:.1f} s")


def _embedded(params: Any, name: str) -> Finding:
    from stategate.stores.assets.fetch import ASSETS

    if find_spec("xllamacpp") is None:
        fix = "pip install 'stategate[local]', or set llm.kind=openai and llm.base_url"
        return Finding("model", False, f"xllamacpp is missing: {fix}")
    if params.ALIASES.get(params.model, params.model) not in ASSETS:  # else check_assets tells
        is_there = Path(params.model).is_file()
        return Finding("model", is_there, name if is_there else f"no file '{params.model}'")
    return Finding("model", None, f"{name}; --deep asks it")


def check_embedder(settings: DoctorSettings) -> Iterator[Finding]:
    """Say whether texts could be embedded; ``--deep`` embeds one."""
    from stategate.nodes.resources import Resources

    config = settings.load()
    kind = config.embedder.kind
    needed = ("torch", "sentence_transformers") if kind == "minilm" else ()
    if missing := [name for name in needed if find_spec(name) is None]:
        fix = "pip install 'stategate[local]', or set embedder.kind=hashing"
        yield Finding("embedder", False, f"{', '.join(missing)} missing: {fix}")
        return
    if not settings.deep:
        yield Finding("embedder", True, f"{kind} can be loaded; --deep embeds a text")
        return
    started = time.perf_counter()
    row = Resources(*config.models).embedder.embed([f"a text of {time.time()}"])[0]
    took = time.perf_counter() - started
    yield Finding("embedder", True, f"{kind}: {len(row)} numbers a text, {took:.1f} s")


CHECKS: dict[str, Callable[[DoctorSettings], Iterator[Finding]]] = {
    "packages": check_packages,
    "home": check_home,
    "loopback": check_loopback,
    "plug-ins": check_plugins,
    "assets": check_assets,
    "stores": check_stores,
    "servers": check_servers,
    "model": check_model,
    "embedder": check_embedder,
}
