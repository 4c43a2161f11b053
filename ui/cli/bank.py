"""``stategate bank``: make banks of experience from recorded episodes."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from stategate.stores.errors import UserError
from stategate.ui.cli.evaluating import Ray, Workers, crew_of
from stategate.ui.cli.output import (
    JsonFile,
    Limit,
    Overrides,
    command,
    command_group,
    opt,
    say,
    working,
    wrote,
)

if TYPE_CHECKING:
    from stategate.nodes.resources import Resources
    from stategate.trainers.bank.build import Built
    from stategate.trainers.bank.hindsight import Hindsight


def _place(name: str | None, kind: str = "state") -> str | Path:
    """Return where a bank is that is called by its name or folder (None: the default one)."""
    from stategate.stores.bank.places import bank_place

    return bank_place(name, kind)


bank_app = command_group(
    "Make, look at, and tend banks of experience.",
    "stategate bank search state 'Find me a red wool scarf'",
    "stategate run webshop-experience --goal 3 --set context.bank=state",
)
_Traces = Annotated[
    list[Path], typer.Argument(help="Trace databases, JSON or JSONL files, or folders of them.")
]
_Config = Annotated[str, opt("Preset or YAML file: its embedder, llm, updater.")]
_Kind = Literal["state", "trace"]
_Annotator = Literal["return", "hindsight"]
_Calls = Annotated[int, opt("Model calls at once.", min=1)]
_PerMinute = Annotated[float, opt("Model calls a minute; 0: any.", min=0)]
_Trust = Annotated[
    float, opt("Of who made them: 1 is yourself; advice needs 0.5 or more.", min=0, max=1)
]
_Folder = Annotated[Path, typer.Argument(metavar="BANK", help="Its name or folder.", parser=_place)]


@command(bank_app, "stategate bank build runs/p.sqlite --include-incorrect")
def build(
    traces: _Traces,
    out: Annotated[
        str | None, opt("Else 'state' or 'trace'; goes on if there.", metavar="NAME|FOLDER")
    ] = None,
    kind: Annotated[_Kind, opt("'state' (advice a step) or 'trace' (a task).")] = "state",
    annotator: Annotated[_Annotator, opt("Calls no model, or once a task.")] = "return",
    include_incorrect: Annotated[
        bool, opt("Failed episodes too, with blame.", "--include-incorrect")
    ] = False,
    updater: Annotated[bool, opt("Keep the config's recurrent states.", "--updater")] = False,
    trust: _Trust = 1.0,
    limit: Limit = None,
    concurrency: _Calls = 1,
    per_minute: _PerMinute = 0,
    config: _Config = "webshop",
    overrides: Overrides = None,
    workers: Workers = 1,
    ray: Ray = None,
) -> None:
    """Build a bank from recorded episodes; run it again after a kill and it goes on."""
    from stategate.trainers.bank.build import build_state_bank, build_trace_bank
    from stategate.trainers.bank.sources import read_episodes

    crew = crew_of(workers, ray)
    settled, resources = _resources(config, overrides)
    with working("reading the episodes"):
        read = read_episodes(traces, include_incorrect, trust)
    episodes = read.found[:limit]
    _tell_problems(read.problems, "not read")
    if not episodes:
        raise UserError("no episode to learn from: give other traces, or --include-incorrect")
    if any(episode.images for episode in episodes):
        from stategate.trainers.bank.captions import Captions

        captions = Captions(resources.llm, resources.llm_params.model_dump_json())
        episodes = [captions.caption(episode) for episode in episodes]
        _tell_problems(captions.problems, "without a caption")
    place = _place(out, kind)
    if kind == "trace":
        with working("building the bank"):
            built = build_trace_bank(place, episodes, resources, crew)
        _tell(built, place)
        return
    is_judged = annotator == "hindsight"
    judge = _judge(resources, episodes, concurrency, per_minute) if is_judged else None
    params = settled.updater if updater else None
    with working("building the bank"):
        built = build_state_bank(place, episodes, resources, judge, params, crew=crew)
    _tell(built, place)
    if judge is not None:
        _tell_cost(judge)


@command(bank_app, "stategate bank hindsight state runs/traces.sqlite --watch 60 &")
def hindsight(
    folder: _Folder,
    traces: _Traces,
    limit: Limit = None,
    concurrency: _Calls = 1,
    per_minute: _PerMinute = 0,
    watch: Annotated[float, opt("Look again after so many seconds; 0: once.", min=0)] = 0,
    config: _Config = "webshop",
    overrides: Overrides = None,
) -> None:
    """Replace return-based advice by a model's, while agents go on using the bank."""
    from stategate.trainers.bank.build import upgrade, waiting_in
    from stategate.trainers.bank.sources import read_episodes

    _, resources = _resources(config, overrides)
    tried: set[str] = set()
    is_first = True
    while is_first or watch:
        if not is_first:
            time.sleep(watch)
        read = read_episodes(traces, include_incorrect=True)
        there = waiting_in(folder) - tried
        todo = [episode for episode in read.found[:limit] if episode.id in there]
        if todo or is_first:
            _tell_problems(read.problems, "not read")
            judge = _judge(resources, todo, concurrency, per_minute)
            done = upgrade(folder, todo, judge, resources.view)
            say(f"{done.rows} rows of {done.read} episodes have a model's advice now")
            _tell_problems(done.problems, "left as they were")
            _tell_cost(judge)
        tried |= {episode.id for episode in todo}
        is_first = False


@command(bank_app, "stategate bank practice --goals train --out p.sqlite --set env.data=official")
def practice(
    out: Annotated[Path, opt("Trace database; goes on if there.", metavar="FILE")],
    goals: Annotated[str, opt("0-99; or of the official data: train or beside.")] = "0-99",
    styles: Annotated[str, opt("How the rule actor plays, comma-separated; else all.")] = "",
    config: _Config = "webshop",
    overrides: Overrides = None,
    workers: Workers = 1,
    ray: Ray = None,
) -> None:
    """Play goals with the rule actor in several styles, mistakes included, to learn from."""
    from stategate.trainers.webshop.practice import practise

    named: dict[str, Any] = {"styles": styles.split(",")} if styles else {}
    crew = crew_of(workers, ray)
    played = practise(config, goals, out, overrides or (), crew=crew, **named)
    say(f"{played} episodes played, in {out}")


@command(bank_app, "stategate bank show state --limit 5")
def show(
    folder: _Folder,
    limit: Annotated[int, opt("Rows to show, those of most worth.", min=0)] = 5,
    episode: Annotated[str | None, opt("Only rows of this episode.")] = None,
    json_target: JsonFile = None,
) -> None:
    """Show what a bank holds: numbers, what it was made with, and its rows of most worth."""
    from collections import Counter

    from stategate.stores.bank.bank import open_bank

    bank = open_bank(folder)
    rows = [r for r in bank.rows() if episode is None or r.data.get("episode") == episode]
    facts: dict[str, Any] = {
        "kind": bank.kind,
        "rows": len(rows),
        "tasks": len({row.task for row in rows}),
        "made_with": bank.makes(),
        "version": bank.meta("version"),
        "annotators": dict(Counter(str(row.data.get("by", "–")) for row in rows)),
        "moves": dict(Counter(str(row.data.get("move", "–")) for row in rows).most_common()),
        "mean_q": sum(row.q for row in rows) / len(rows) if rows else 0.0,
        "used": sum(row.uses for row in rows),
    }
    best = sorted(rows, key=lambda row: (row.n if episode else -row.q, row.n))[:limit]
    if wrote(json_target, {**facts, "shown": [_plain(row) for row in best]}):
        return
    for key, value in facts.items():
        shown = f"{value:.2f}" if isinstance(value, float) else value
        if isinstance(shown, dict):
            shown = ", ".join(f"{name} {count}" for name, count in shown.items())
        say(f"{key:<11}{shown}")
    for row in best:
        _print(row)


@command(bank_app, "stategate bank search state 'Find me a red wool scarf' -k 3")
def search(
    folder: _Folder,
    text: Annotated[str, typer.Argument(help="A question, or a whole state as text.")],
    k: Annotated[int, opt("How many rows.", "-k", min=1, max=100)] = 5,
    config: _Config = "webshop",
    overrides: Overrides = None,
    json_target: JsonFile = None,
) -> None:
    """Find the rows nearest to a text."""
    if not text.strip():
        raise UserError("nothing to search for: give a question or a state")
    from stategate.ui.memory import nearest_rows

    settled, resources = _resources(config, overrides)
    hits = nearest_rows(folder, text, k, resources, resources.get(settled.env))
    if wrote(json_target, [{"score": hit.score, **_plain(hit.row)} for hit in hits]):
        return
    for hit in hits:
        _print(hit.row, hit.score)


@command(bank_app, "stategate bank edit state 1f2e3d --q 0")
def edit(
    folder: _Folder,
    row: Annotated[str, typer.Argument(help="The row's id (see show).")],
    q: Annotated[float | None, opt("Its new worth.", min=0, max=10)] = None,
    experience: Annotated[str | None, opt("Its new advice; '' for none.")] = None,
    remove: Annotated[bool, opt("Remove the row.", "--remove")] = False,
) -> None:
    """Change the worth or the advice of one row, or remove it."""
    from stategate.stores.bank.bank import open_bank

    bank = open_bank(folder)
    if remove:
        bank.remove([bank.row(row).n])
        say("1 row removed")
        return
    if q is None and experience is None:
        raise UserError("nothing to change: give --q, --experience or --remove")
    changes = {} if experience is None else {"experience": experience, "by": "edited"}
    _print(bank.change(row, q=q, **changes))


@command(bank_app, "stategate bank prune state --keep 50000 --useless")
def prune(
    folder: _Folder,
    keep: Annotated[int | None, opt("Rows to keep at most.", min=0)] = None,
    min_q: Annotated[float | None, opt("Remove rows worth less.")] = None,
    older_than_days: Annotated[float | None, opt("Of rows that never advised.", min=0)] = None,
    useless: Annotated[bool, opt("Remove what was tried and earned nothing.", "--useless")] = False,
) -> None:
    """Let go of rows by worth, age or uselessness."""
    from stategate.nodes.experience.grow import prune as let_go
    from stategate.stores.bank.bank import open_bank

    if keep is None and min_q is None and older_than_days is None and not useless:
        raise UserError("nothing to prune by: give --keep, --min-q, --older-than-days or --useless")
    age = None if older_than_days is None else older_than_days * 86400
    bank = open_bank(folder)
    gone = let_go(bank, keep=keep, min_q=min_q, older_than=age, useless=useless)
    say(f"{gone} rows removed, {len(bank)} left")


@command(bank_app, "stategate bank merge a b --out all")
def merge(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="BANKS", help="Banks to put together.", parser=_place),
    ],
    out: Annotated[str, opt("The bank they go to.", metavar="NAME|FOLDER")],
    trust: _Trust = 1.0,
) -> None:
    """Put banks of one make together; a row that is in several comes once."""
    from stategate.stores.bank import bank

    sources = [bank.open_bank(folder) for folder in folders]
    place = _place(out)
    added = sum(bank.merge(source, place, trust) for source in sources)
    say(f"{added} new rows in {place}")


@command(bank_app, "stategate bank export state rows.jsonl")
def export(
    folder: _Folder, target: Annotated[Path, typer.Argument(help="The JSONL file to write.")]
) -> None:
    """Write all rows, without vectors, as JSON lines."""
    from stategate.stores.bank.bank import export_rows, open_bank

    count = export_rows(open_bank(folder), target)
    say(f"{count} rows in {target}")


def _resources(config: str, overrides: list[str] | None) -> "tuple[Any, Resources]":
    from stategate.graph.config import load_config
    from stategate.nodes.resources import Resources

    settled = load_config(config, overrides or ())
    return settled, Resources(settled.llm, settled.embedder, env=settled.env)


def _judge(
    resources: "Resources", episodes: list[Any], concurrency: int, per_minute: float
) -> "Hindsight":
    from stategate.trainers.bank.hindsight import Hindsight

    params = resources.llm_params
    name = str(getattr(params, "model", params.kind))
    room = int(getattr(params, "n_ctx", 16_000)) - 300
    judge = Hindsight(resources.llm, resources.view, name, room, concurrency, per_minute)
    tokens_in, tokens_out, cost = judge.estimate(episodes)
    tokens = f"about {tokens_in} tokens in, {tokens_out} out"
    say(f"{len(episodes)} calls at most once each: {tokens}, {_money(cost)}")
    return judge


def _tell(built: "Built", folder: str | Path) -> None:
    summary = f"{built.rows} rows from {built.read} episodes in {folder}"
    summary += f", {built.known} were there already" if built.known else ""
    if built.leaks:
        summary += f"; {built.leaks} pieces of advice told the answer and were dropped"
    say(summary)
    _tell_problems(built.problems, "not added")


def _tell_problems(problems: list[str], what: str) -> None:
    for line in problems[:5]:
        say(f"{what}: {line}", "yellow", stderr=True)
    if len(problems) > 5:
        say(f"… and {len(problems) - 5} more {what}", "yellow", stderr=True)


def _tell_cost(judge: "Hindsight") -> None:
    used = judge.usage
    tokens = f"{used.tokens_in} tokens in, {used.tokens_out} out"
    say(f"used: {used.calls} calls, {tokens}, {_money(judge.cost())}")


def _money(cost: float | None) -> str:
    return "at an unknown cost" if cost is None else f"${cost:.4f}"


def _plain(row: Any) -> dict[str, Any]:
    return {key: value for key, value in vars(row).items() if key != "n"}


def _print(row: Any, score: float | None = None) -> None:
    data = row.data
    likeness = "" if score is None else f"  likeness {score:.3f}"
    used = f"  used {row.uses}x, earned {row.helped:.2f}" if row.uses else ""
    advice = f"{data.get('action')}: {data.get('experience') or '(no advice)'}"
    say(f"\n{row.id}  q {row.q:.2f}{likeness}  {row.task}{used}", "bold cyan")
    say(str(data.get("state") or data.get("question") or ""))
    say(" > ".join(data["plan"]) if "plan" in data else advice, "green")
