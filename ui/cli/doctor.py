"""``stategate doctor``: whether everything is here that is needed."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from stategate.stores.errors import UserError, error_with_type
from stategate.ui.cli.doctor_stores import Finding
from stategate.ui.cli.output import JsonFile, Overrides, console, opt, write_json

_SHOWN = ("stategate", "langgraph", "langchain-core", "torch", "xllamacpp")
_MARKS = {True: ("ok", "green"), False: ("wrong", "bold red"), None: ("–", "dim")}
_ROOM = 1 << 30  # bytes that a disk should have free
#: Our top-level folders, as other packages may call theirs, too.
FOLDERS = "graph nodes stores trainers ui evals envs configs checkpoints".split()


def doctor(
    config: Annotated[str, opt("Whose model, embedder and stores to look at.")] = "webshop",
    overrides: Overrides = None,
    deep: Annotated[bool, opt("Ask model and embedder something.", "--deep")] = False,
    json_target: JsonFile = None,
) -> None:
    """Check versions, folders, disk, stores, servers, assets, model and embedder. Fetches nothing.

    Exit code 1 if something is wrong; each line says what to do.
    """
    from rich.table import Table
    from rich.text import Text

    results = list(findings(config, overrides or (), deep=deep))
    wrong = sum(finding.ok is False for finding in results)
    if json_target is not None:
        write_json(
            json_target, {"ok": not wrong, "findings": [vars(finding) for finding in results]}
        )
    else:
        out = console()
        table = Table.grid("", "", "", padding=(0, 2))
        for finding in results:
            table.add_row(Text(*_MARKS[finding.ok]), finding.what, Text(finding.text))
        out.print(table)
        out.print(f"[bold red]{wrong} wrong[/bold red]" if wrong else "[green]all is well[/green]")
    if wrong:
        raise typer.Exit(1)


def findings(
    config: str = "webshop", overrides: Sequence[str] = (), *, deep: bool = False
) -> Iterator[Finding]:
    """Look at everything, one thing at a time; a check that breaks is itself a finding."""
    from stategate.ui.cli.doctor_models import embedder, model
    from stategate.ui.cli.doctor_stores import servers, stores

    checks: dict[str, Callable[[], Iterator[Finding]]] = {
        "packages": _packages,
        "folders": _folders,
        "home": _home,
        "loopback": _loopback,
        "plug-ins": _plugins,
        "tokens": _tokens,
        "assets": _assets,
        "data": _data,
        "stores": stores,
        "servers": servers,
        "model": lambda: model(config, overrides, deep),
        "embedder": lambda: embedder(config, overrides, deep),
    }
    for name, check in checks.items():
        try:
            yield from check()
        except UserError as error:  # one line that says what to do
            yield Finding(name, False, str(error))
        except Exception as error:  # a doctor that dies of what it finds helps nobody
            yield Finding(name, False, error_with_type(error, 1000))


def _packages() -> Iterator[Finding]:
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


def _folders() -> Iterator[Finding]:
    """Say whose each of our top-level folders is: their names are common words."""
    from importlib.metadata import distribution, packages_distributions

    owners: Mapping[str, Sequence[str]] = packages_distributions()
    root = Path(__file__).resolve().parents[2]
    shadows = []
    for name in FOLDERS:
        place, ours = _place_of(name), root / name
        others = sorted({owner for owner in owners.get(name, ()) if owner.lower() != "stategate"})
        fix = "rename it, or leave it off the path"
        fix = f"pip uninstall {' '.join(others)}" if others else fix
        if place is not None and place.resolve() != ours:
            shadows.append(f"'{name}' is read from {place}, not from here: {fix}")
        elif any(Path(str(distribution(o).locate_file(name))).resolve() == ours for o in others):
            shadows.append(f"files of {', '.join(others)} lie among ours in {ours}: {fix}")
    for shadow in shadows:
        yield Finding("folder", False, shadow)
    if not shadows:
        yield Finding("folders", True, f"no other package hides {', '.join(FOLDERS)}")


def _place_of(name: str) -> Path | None:
    """Return the folder (or file) that ``import name`` reads, None if there is none."""
    from importlib.machinery import PathFinder
    from importlib.util import find_spec

    # The path first: what is loaded may be older.
    spec = PathFinder.find_spec(name) or find_spec(name)
    places = [*(spec.submodule_search_locations or ()), spec.origin] if spec is not None else []
    return next((Path(place) for place in places if place), None)


def _home() -> Iterator[Finding]:
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


def _loopback() -> Iterator[Finding]:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname(), timeout=5).close()
    yield Finding("loopback", True, "a free port on 127.0.0.1 answers")


def _plugins() -> Iterator[Finding]:
    from stategate.nodes.protocols import SLOTS
    from stategate.nodes.registry import registry
    from stategate.stores.errors import MissingExtra

    known = registry()
    count = sum(len(known.kinds(slot)) for slot in SLOTS)
    yield Finding("plug-ins", True, f"{count} kinds in {len(SLOTS)} slots")
    for name, why in known.broken.items():  # a part that nobody installed is not broken
        ok = None if why.startswith(MissingExtra.__name__) else False
        yield Finding("plug-in", ok, f"{name}: {why.removeprefix('MissingExtra: ')}")


def _tokens() -> Iterator[Finding]:
    from stategate.stores.tokens import count_tokens

    yield Finding("tokens", count_tokens("hello world") == 2, "cl100k counts offline")


def _assets() -> Iterator[Finding]:
    from stategate.stores.assets.fetch import ASSETS

    for asset in ASSETS.values():
        size = f"{asset.size / 1e6:,.0f} MB"
        if asset.is_present and asset.is_verified:
            yield Finding(asset.name, True, f"here and checked, {size}")
            continue
        fetch = "its SHA-256 is checked" if asset.is_present else "not here yet; it is fetched"
        yield Finding(asset.name, None, f"{size}; {fetch} on first use")


def _data() -> Iterator[Finding]:
    from stategate.envs.webshop.data import read_manifest
    from stategate.stores.home import home

    records = read_manifest(home() / "data" / "webshop")
    if not records:
        yield Finding("webshop", None, "the sample ships; the real one: stategate data webshop")
        return
    official = all(record.official for record in records)
    which = "the official files" if official else "files that differ from the official ones"
    yield Finding("webshop", True, f"{which} are here: --set env.data=official")
