"""``stategate data``: fetch the files that worlds read."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from stategate.ui.cli.evaluating import Ray, Workers, crew_of
from stategate.ui.cli.output import command, command_group, console, opt, say, write_json

data_app = command_group(
    "Fetch the data that worlds read.",
    "stategate data webshop --from ~/webshop-files",
    "stategate run webshop --goal 3 --set env.data=official",
)

_From = Annotated[Path | None, opt("Copy from here, download nothing.", "--from", metavar="FOLDER")]
_To = Annotated[
    Path | None, opt("Keep them here, not where env.data=official.", "--to", metavar="FOLDER")
]


@command(data_app, "stategate data webshop --from ~/webshop-files")
def webshop(
    source: _From = None,
    target: _To = None,
) -> None:
    """Fetch WebShop's official files, checked by SHA-256, from their publisher."""
    from rich.table import Table

    from stategate.envs.webshop.data import fetch
    from stategate.stores.home import home

    folder = target.expanduser() if target else home() / "data" / "webshop"
    records = fetch(folder, source)
    out = console()
    table = Table("file", "MB", "SHA-256", "", box=None, pad_edge=False)
    for record in records:
        official = "[green]official[/green]" if record.official else "[yellow]differs[/yellow]"
        table.add_row(record.name, f"{record.bytes / 1e6:.1f}", record.sha256[:12], official)
    out.print(table)
    value = f"'{folder}'" if target else "official"
    out.print(f"in {folder}: use them with [bold]--set env.data={value}[/bold]", soft_wrap=True)


@command(data_app, "stategate data alfworld --from ~/alfworld")
def alfworld(
    source: _From = None,
    target: _To = None,
) -> None:
    """Fetch ALFWorld's games from its project's release, or copy them, unpacked or in archives."""
    from stategate.envs.alfworld.data import fetch
    from stategate.stores.home import home

    folder = target.expanduser() if target else home() / "data" / "alfworld"
    records, games = fetch(folder, source)
    out = console()
    for record in records:
        out.print(f"{record.name}  {record.bytes / 1e6:.1f} MB  SHA-256 {record.sha256[:12]}")
    counts = ", ".join(f"{count} {split}" for split, count in games.items())
    value = f"'{folder}'" if target else "official"
    out.print(f"{counts} games in {folder}: use them with --set env.data={value}", soft_wrap=True)


@command(data_app, "stategate data trajectories --practice --data official --out runs/practice")
def trajectories(
    out: Annotated[Path, opt("Where the JSON lines go.", metavar="FOLDER")],
    world: Annotated[Literal["webshop", "alfworld"], opt("Whose expert plays.")] = "webshop",
    practice: Annotated[bool, opt("Goals to practise on: for policy.", "--practice")] = False,
    source: Annotated[str, opt("'sample', 'official' or a folder.", "--data")] = "sample",
    episodes: Annotated[int | None, opt("Of training.", "-n", "--episodes", min=1)] = None,
    heldout: Annotated[int | None, opt("Episodes to report on; 100 or 300.", min=1)] = None,
    observation: Annotated[Literal["rich", "text", "both"], opt("Or both in turn.")] = "both",
    stray: Annotated[float, opt("Share of random commands (alfworld).", min=0, max=1)] = 0.1,
    others: Annotated[str, opt("Actors that play beside the expert: rule,policy.")] = "rule",
    seed: int = 0,
    workers: Workers = 1,
    ray: Ray = None,
) -> None:
    """Let a world's expert play, to train from; nothing that a test goal aims at is played."""
    crew = crew_of(workers, ray)
    counts = {"n": episodes, "heldout": heldout}
    known = {name: count for name, count in counts.items() if count is not None}
    if world == "alfworld":
        from stategate.nodes.observe.alfworld import AlfWorldEnv
        from stategate.trainers.alfworld.collect import collect as search

        folder = AlfWorldEnv(data=source).folder()
        played = search(folder, out, seed=seed, stray=stray, crew=crew, **known)
        write_json("-", played["splits"])
        return
    from stategate.trainers.webshop.collect import collect, collect_practice
    from stategate.trainers.webshop.goals import MODES

    modes = MODES if observation == "both" else (observation,)
    how: dict[str, Any] = {"seed": seed, "modes": modes, "crew": crew, **known}
    if practice:
        write_json("-", collect_practice(source, out, **how)["splits"])
        return
    actors = [name.strip() for name in others.split(",") if name.strip()]
    write_json("-", collect(source, out, others=actors, **how)["splits"])


@command(data_app, "stategate data convert human mturk/ --out runs/trajectories/human.jsonl")
def convert(
    form: Annotated[str, typer.Argument(help="react (prompt traces) or human (server logs).")],
    source: Annotated[Path, typer.Argument(help="A file, or a folder of files.")],
    out: Annotated[Path, opt("The JSON lines to write.", metavar="FILE")],
) -> None:
    """Bring other people's WebShop traces into the form of our trajectories."""
    from stategate.stores.traces.trajectories import write_trajectories
    from stategate.trainers.webshop.convert import convert as converted

    count = write_trajectories(out, converted(form, source))
    say(f"{count} episodes in {out}")
