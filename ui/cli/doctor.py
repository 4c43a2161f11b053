"""``stategate doctor``: whether everything is here that is needed. Nothing is fetched."""

import shutil
import tempfile
from collections.abc import Callable
from importlib.util import find_spec

import typer
from rich.text import Text

from stategate.graph.config import load_config
from stategate.nodes.models.llms import OpenAILlm, key_from
from stategate.stores.assets.fetch import ASSETS
from stategate.stores.errors import UserError, error_with_type
from stategate.stores.home import cache, home, require_own_home
from stategate.stores.settings import JsonFile, Overrides, Settings, option
from stategate.stores.sql import damage_of
from stategate.ui.cli.output import console, table, wrote
from stategate.ui.cli.settings_command import command

#: What kinds need that load a model on this machine.
_LOCAL = {"embedded": ("xllamacpp",), "sentence_transformers": ("sentence_transformers",)}


class DoctorSettings(Settings):
    """Whose parts are looked at."""

    config: str = option("webshop", "Whose model and embedder to look at.")
    overrides: Overrides = ()
    json_target: JsonFile = None


@command("stategate doctor --json -")
def doctor(settings: DoctorSettings) -> None:
    """Check folders, disk, assets, model and embedder. Fetches nothing.

    Exit code 1 if something is wrong; each line says what to do.
    """
    results = [(name, *examine(name, settings)) for name in CHECKS]
    findings = [{"what": what, "ok": is_well, "text": text} for what, is_well, text in results]
    wrong = sum(not finding["ok"] for finding in findings)
    if not wrote(settings.json_target, {"ok": not wrong, "findings": findings}):
        marks = {True: Text("ok", "green"), False: Text("wrong", "bold red")}
        rows = [(marks[is_well], what, text) for what, is_well, text in results]
        console().print(table(("", "", f"{wrong} wrong" if wrong else "all is well"), rows))
    if wrong:
        raise typer.Exit(1)


def examine(name: str, settings: DoctorSettings) -> tuple[bool, str]:
    """Return whether all is well with what one check looks at, and what is to be known of it."""
    try:
        return True, CHECKS[name](settings)
    except UserError as error:  # one line that says what to do
        return False, str(error)
    except Exception as error:  # a doctor that dies of what it finds helps nobody
        return False, error_with_type(error, 1000)


def check_home(_: DoctorSettings) -> str:
    """Write a file into each folder of ours, and tell how much room there is."""
    require_own_home()
    for folder in (home(), cache()):
        tempfile.TemporaryFile(dir=folder).close()
    free = shutil.disk_usage(home()).free
    folders = " and ".join(str(folder) for folder in dict.fromkeys((home(), cache())))
    return f"{folders}: writable, {free / 1e9:.0f} GB free"


def check_databases(_: DoctorSettings) -> str:
    """Look through each database of the home: its pages must fit together."""
    found = {file for folder in (home(), cache()) for file in folder.rglob("*.sqlite*")}
    files = sorted(file for file in found if file.suffix in (".sqlite", ".sqlite3"))
    if damaged := [f"{file} ({why})" for file in files if (why := damage_of(file))]:
        fix = "put an older copy in its place, or delete it and ingest or build it again"
        raise UserError(f"damaged: {', '.join(damaged)}: {fix}")
    return f"{len(files)} looked through, none damaged"


def check_assets(_: DoctorSettings) -> str:
    """Say which files from outside are here."""
    here = [asset.name for asset in ASSETS.values() if asset.is_verified]
    absent = [f"{a.name} ({a.size / 1e6:,.0f} MB)" for a in ASSETS.values() if a.name not in here]
    fetched = f"; fetched on first use: {', '.join(absent)}" if absent else ""
    return f"here and checked: {', '.join(here) or 'none'}{fetched}"


def check_model(settings: DoctorSettings) -> str:
    """Say whether the chat model could answer."""
    llm = load_config(settings.config, settings.overrides).llm
    if llm is None:
        return f"{settings.config} uses none"
    if isinstance(llm, OpenAILlm):
        key_from(llm.api_key_env, llm.base_url)  # raises a line that says what to do
        return f"{llm.model}; its server was not called"
    return _require_packages(llm.kind, "llm.kind=openai and llm.base_url")


def check_embedder(settings: DoctorSettings) -> str:
    """Say whether texts could be embedded."""
    embedder = load_config(settings.config, settings.overrides).embedder
    return _require_packages(embedder.kind, "embedder.kind=hashing")


def _require_packages(kind: str, other: str) -> str:
    if missing := [name for name in _LOCAL.get(kind, ()) if find_spec(name) is None]:
        fix = f"pip install 'stategate[local]', or set {other}"
        raise UserError(f"{', '.join(missing)} missing: {fix}")
    return kind


CHECKS: dict[str, Callable[[DoctorSettings], str]] = {
    "home": check_home,
    "databases": check_databases,
    "assets": check_assets,
    "model": check_model,
    "embedder": check_embedder,
}
