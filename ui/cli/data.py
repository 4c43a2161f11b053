"""``stategate data``: fetch the files that worlds read, and make what trainers learn from."""

from pathlib import Path
from typing import Any, Literal

from stategate.stores.settings import CommaList, Ray, Settings, Workers, argument, option
from stategate.ui.cli.output import crew_of, say, write_json
from stategate.ui.cli.settings_command import command, command_group

app = command_group(
    "Fetch the data that worlds read.",
    "stategate data webshop --from ~/webshop-files",
    "stategate run webshop --goal 3 --set env.data=official",
)


class FetchSettings(Settings):
    """Where the files come from, and where they go."""

    source: Path | None = option(
        None, "Copy from here, download nothing.", "--from", metavar="FOLDER"
    )
    target: Path | None = option(
        None, "Keep them here, not where env.data=official.", "--to", metavar="FOLDER"
    )

    def folder(self, world: str) -> Path:
        """Return the folder that the files of ``world`` go to."""
        from stategate.stores.home import home

        return self.target.expanduser() if self.target else home() / "data" / world

    def hint(self, folder: Path) -> str:
        """Say how a config names ``folder``."""
        return f"use them with --set env.data={folder if self.target else 'official'}"


class TrajectorySettings(Settings):
    """Who plays which tasks, and how many."""

    out: Path = option(..., "Where the JSON lines go.", metavar="FOLDER")
    world: Literal["webshop", "alfworld"] = option("webshop", "Whose expert plays.")
    practice: bool = option(False, "Goals to practise on: for policy.")
    source: str = option("sample", "'sample', 'official' or a folder.", "--data")
    episodes: int | None = option(None, "Of training.", "-n", "--episodes", ge=1)
    heldout: int | None = option(None, "Episodes to report on; 100 or 300.", ge=1)
    observation: Literal["rich", "text", "both"] = option("both", "Or both in turn.")
    stray: float = option(0.1, "Share of random commands (alfworld).", ge=0, le=1)
    others: CommaList = option(("rule",), "Actors that play beside the expert: rule,policy.")
    seed: int = 0
    workers: Workers = 1
    ray: Ray = None


class ConvertSettings(Settings):
    """Whose traces, and where they go."""

    form: str = argument(..., "react (prompt traces) or human (server logs).")
    source: Path = argument(..., "A file, or a folder of files.")
    out: Path = option(..., "The JSON lines to write.", metavar="FILE")


@command(app, "stategate data webshop --from ~/webshop-files")
def webshop(settings: FetchSettings) -> None:
    """Fetch WebShop's official files, checked by SHA-256, from their publisher."""
    from stategate.envs.webshop.data import fetch

    folder = settings.folder("webshop")
    for record in fetch(folder, settings.source):
        which = "official" if record.official else "differs from the official file"
        say(f"{record.name}  {record.bytes / 1e6:.1f} MB  SHA-256 {record.sha256[:12]}  {which}")
    say(f"in {folder}: {settings.hint(folder)}")


@command(app, "stategate data alfworld --from ~/alfworld")
def alfworld(settings: FetchSettings) -> None:
    """Fetch ALFWorld's games from its project's release, or copy them, unpacked or in archives."""
    from stategate.envs.alfworld.files import fetch

    folder = settings.folder("alfworld")
    records, games = fetch(folder, settings.source)
    for record in records:
        say(f"{record.name}  {record.bytes / 1e6:.1f} MB  SHA-256 {record.sha256[:12]}")
    counts = ", ".join(f"{count} {split}" for split, count in games.items())
    say(f"{counts} games in {folder}: {settings.hint(folder)}")


@command(app, "stategate data trajectories --practice --data official --out runs/practice")
def trajectories(settings: TrajectorySettings) -> None:
    """Let a world's expert play, to train from; nothing that a test goal aims at is played."""
    source, out = settings.source, settings.out
    counts = {"n": settings.episodes, "heldout": settings.heldout}
    how: dict[str, Any] = {name: count for name, count in counts.items() if count is not None}
    how |= {"seed": settings.seed, "crew": crew_of(settings.workers, settings.ray)}
    if settings.world == "alfworld":
        from stategate.nodes.observe.alfworld import AlfWorldEnv
        from stategate.trainers.alfworld.collect import collect as search

        played = search(AlfWorldEnv(data=source).folder(), out, stray=settings.stray, **how)
        write_json("-", played["splits"])
        return
    from stategate.trainers.webshop.collect import collect, collect_practice
    from stategate.trainers.webshop.goals import MODES

    how["modes"] = MODES if settings.observation == "both" else (settings.observation,)
    if settings.practice:
        write_json("-", collect_practice(source, out, **how)["splits"])
    else:
        write_json("-", collect(source, out, others=list(settings.others), **how)["splits"])


@command(app, "stategate data convert human mturk/ --out runs/trajectories/human.jsonl")
def convert(settings: ConvertSettings) -> None:
    """Bring other people's WebShop traces into the form of our trajectories."""
    from stategate.stores.traces.trajectories import write_trajectories
    from stategate.trainers.webshop.convert import convert as converted

    count = write_trajectories(settings.out, converted(settings.form, settings.source))
    say(f"{count} episodes in {settings.out}")
