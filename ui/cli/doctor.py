"""``stategate doctor``: whether everything is here that is needed. Nothing is fetched."""

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from stategate.stores.errors import UserError, describe_error, error_with_type
from stategate.stores.settings import JsonFile, Overrides, Settings, option
from stategate.ui.cli.output import console, table, wrote
from stategate.ui.cli.settings_command import command, single

if TYPE_CHECKING:
    from stategate.graph.config import Config

app = single()
_MARKS = {True: ("ok", "green"), False: ("wrong", "bold red"), None: ("–", "dim")}
_ROOM = 1 << 30  # bytes that a disk should have free
#: What kinds need that load a model on this machine.
_LOCAL = {"embedded": ("xllamacpp",), "minilm": ("torch", "sentence_transformers")}


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

    def load(self) -> "Config":
        """Return the config."""
        from stategate.graph.config import load_config

        return load_config(self.config, self.overrides)


@command(app, "stategate doctor --json -")
def doctor(settings: DoctorSettings) -> None:
    """Check versions, folders, disk, stores, servers, assets, model and embedder. Fetches nothing.

    Exit code 1 if something is wrong; each line says what to do.
    """
    from rich.text import Text

    results = list(findings(settings))
    wrong = sum(finding.ok is False for finding in results)
    told = {"ok": not wrong, "findings": [vars(finding) for finding in results]}
    if not wrote(settings.json_target, told):
        out = console()
        rows = [(Text(*_MARKS[one.ok]), one.what, one.text) for one in results]
        out.print(table(("", "", ""), rows))
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
    from importlib.metadata import PackageNotFoundError, requires, version

    from packaging.requirements import Requirement

    wrong = [] if sys.version_info >= (3, 11) else ["Python 3.11 or newer is needed"]
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
    here = f"stategate {version('stategate')}, Python {sys.version.split()[0]}"
    yield Finding("packages", not wrong, "; ".join(wrong) or here)


def check_home(_: DoctorSettings) -> Iterator[Finding]:
    """Write a file into each folder of ours, and see whether there is room for more."""
    import shutil
    import tempfile

    from stategate.stores.home import cache, home

    for name, place in (("data", home), ("cache", cache)):
        try:
            folder = place()
            tempfile.TemporaryFile(dir=folder).close()
        except OSError as error:
            yield Finding(name, False, f"not writable ({error}): set STATEGATE_HOME")
            continue
        free = shutil.disk_usage(folder).free
        fix = ": make room, prune (stategate checkpoints prune), or set STATEGATE_HOME"
        text = f"{folder} is writable, {free / 1e9:.1f} GB free"
        yield Finding(name, free >= _ROOM, text if free >= _ROOM else text + fix)


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
    """Say which files from outside are here."""
    from stategate.envs.webshop.data import read_manifest
    from stategate.stores.assets.fetch import ASSETS
    from stategate.stores.home import home

    for asset in ASSETS.values():
        is_here = asset.is_present and asset.is_verified
        text = "here and checked" if is_here else "fetched or checked on first use"
        yield Finding(asset.name, is_here or None, f"{text}, {asset.size / 1e6:,.0f} MB")
    records = read_manifest(home() / "data" / "webshop")
    text = (
        "here: --set env.data=official" if records else "the sample ships; stategate data webshop"
    )
    yield Finding("webshop", bool(records) or None, text)


def check_stores(_: DoctorSettings) -> Iterator[Finding]:
    """Let SQLite check each database of this home."""
    from stategate.stores.home import cache, home

    files = [*home().glob("*.sqlite"), *home().glob("banks/*/*.sqlite")]
    files += [*home().glob("corpora/*/*.sqlite"), *cache().glob("*.sqlite")]
    damaged = {path: problem for path in sorted(set(files)) if (problem := _damage(path))}
    for path, problem in damaged.items():
        is_cache = path.name == "embeddings.sqlite"
        fix = "delete it, it is made again" if is_cache else "restore a backup"
        yield Finding("store", False, f"{path} is damaged ({problem}): {fix}")
    size = sum(path.stat().st_size for path in set(files))
    text = f"{len(set(files)) - len(damaged)} databases are whole, {size / 1e6:.0f} MB"
    yield Finding("stores", (not damaged) if files else None, text if files else "none yet")


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


def check_models(settings: DoctorSettings) -> Iterator[Finding]:
    """Say whether the chat model and the embedder could answer; ``--deep`` asks them."""
    from langchain_core.messages import HumanMessage

    from stategate.nodes.models.asking import ask
    from stategate.nodes.models.llms import OpenAILlm, key_from
    from stategate.nodes.resources import Resources

    config = settings.load()
    resources = Resources(*config.models)
    for what, params in (("model", config.llm), ("embedder", config.embedder)):
        if params is None:
            yield Finding(what, None, f"{settings.config} uses none")
            continue
        missing = [name for name in _LOCAL.get(params.kind, ()) if find_spec(name) is None]
        if missing:
            fix = f"pip install 'stategate[local]', or set another {what}"
            yield Finding(what, False, f"{', '.join(missing)} missing: {fix}")
            continue
        if isinstance(params, OpenAILlm):
            key_from(params.api_key_env, params.base_url)  # raises a line that says what to do
        if not settings.deep:
            yield Finding(what, None, f"{params.kind}; --deep asks it")
        elif what == "model":
            reply = ask(resources.llm, [HumanMessage("Say yes.")], max_tokens=8)
            yield Finding(what, bool(reply.strip()), f"{params.kind} answers")
        else:
            (row,) = resources.embedder.embed(["a text"])
            yield Finding(what, True, f"{params.kind}: {len(row)} numbers a text")


CHECKS: dict[str, Callable[[DoctorSettings], Iterator[Finding]]] = {
    "packages": check_packages,
    "home": check_home,
    "plug-ins": check_plugins,
    "assets": check_assets,
    "stores": check_stores,
    "servers": check_servers,
    "models": check_models,
}
