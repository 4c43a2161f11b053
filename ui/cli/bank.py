"""``stategate bank``: make banks of experience from recorded episodes."""

import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator

from stategate.stores.errors import UserError
from stategate.stores.settings import (
    ConfigName,
    JsonFile,
    Limit,
    Overrides,
    Ray,
    Settings,
    Workers,
    argument,
    option,
)
from stategate.ui.cli.output import crew_of, say, working, wrote
from stategate.ui.cli.settings_command import command, command_group

if TYPE_CHECKING:
    from stategate.graph.config import Config
    from stategate.nodes.resources import Resources
    from stategate.trainers.bank.build import Built
    from stategate.trainers.bank.hindsight import Hindsight

app = command_group(
    "Make, look at, and tend banks of experience.",
    "stategate bank search state 'Find me a red wool scarf'",
    "stategate run webshop-experience --goal 3 --set context.bank=state",
)


def _place(name: str | None, kind: str = "state") -> str:
    """Return where a bank is that is called by its name or folder (None: the default one)."""
    from stategate.stores.bank.bank import bank_place

    return str(bank_place(name, kind))


Bank = Annotated[str, AfterValidator(_place), argument(..., "Its name or folder.", metavar="BANK")]
Traces = Annotated[
    tuple[Path, ...], argument(..., "Trace databases, JSON or JSONL files, or folders of them.")
]
Trust = Annotated[
    float, option(..., "Of who made them: 1 is yourself; advice needs 0.5 or more.", ge=0, le=1)
]


class BankConfig(Settings):
    """Whose embedder, model and updater."""

    config: ConfigName = "webshop"
    overrides: Overrides = ()

    def load(self) -> "tuple[Config, Resources]":
        """Return the config and its heavy parts."""
        from stategate.graph.config import load_config
        from stategate.nodes.resources import Resources

        config = load_config(self.config, self.overrides)
        return config, Resources(config.llm, config.embedder, env=config.env)


class JudgeSettings(BankConfig):
    """How often a model is called."""

    limit: Limit = None
    concurrency: int = option(1, "Model calls at once.", ge=1)
    per_minute: float = option(0, "Model calls a minute; 0: any.", ge=0)


class BuildSettings(JudgeSettings):
    """Of which episodes which bank is made, and how."""

    traces: Traces
    out: str | None = option(
        None, "Else 'state' or 'trace'; goes on if there.", metavar="NAME|FOLDER"
    )
    kind: Literal["state", "trace"] = option(
        "state", "'state' (advice a step) or 'trace' (a task)."
    )
    annotator: Literal["return", "hindsight"] = option("return", "Calls no model, or once a task.")
    include_incorrect: bool = option(False, "Failed episodes too, with blame.")
    updater: bool = option(False, "Keep the config's recurrent states.")
    trust: Trust = 1.0
    workers: Workers = 1
    ray: Ray = None


class HindsightSettings(JudgeSettings):
    """Which bank's advice is written anew."""

    folder: Bank
    traces: Traces
    watch: float = option(0, "Look again after so many seconds; 0: once.", ge=0)


class PracticeSettings(BankConfig):
    """Which goals are played, and how."""

    out: Path = option(..., "Trace database; goes on if there.", metavar="FILE")
    goals: str = option("0-99", "0-99; or of the official data: train or beside.")
    styles: str = option("", "How the rule actor plays, comma-separated; else all.")
    workers: Workers = 1
    ray: Ray = None


class ShowSettings(Settings):
    """Which rows."""

    folder: Bank
    limit: int = option(5, "Rows to show, those of most worth.", ge=0)
    episode: str | None = option(None, "Only rows of this episode.")
    json_target: JsonFile = None


class SearchSettings(BankConfig):
    """What is looked for."""

    folder: Bank
    text: str = argument(..., "A question, or a whole state as text.")
    k: int = option(5, "How many rows.", "-k", ge=1, le=100)
    json_target: JsonFile = None


class EditSettings(Settings):
    """What is changed of a row."""

    folder: Bank
    row: str = argument(..., "The row's id (see show).")
    q: float | None = option(None, "Its new worth.", ge=0, le=10)
    experience: str | None = option(None, "Its new advice; '' for none.")
    remove: bool = option(False, "Remove the row.")


class PruneSettings(Settings):
    """Which rows go."""

    folder: Bank
    keep: int | None = option(None, "Rows to keep at most.", ge=0)
    min_q: float | None = option(None, "Remove rows worth less.")
    older_than_days: float | None = option(None, "Of rows that never advised.", ge=0)
    useless: bool = option(False, "Remove what was tried and earned nothing.")


class MergeSettings(Settings):
    """Which banks go where."""

    folders: tuple[str, ...] = argument(..., "Banks to put together.", metavar="BANKS")
    out: str = option(..., "The bank they go to.", metavar="NAME|FOLDER")
    trust: Trust = 1.0


class ExportSettings(Settings):
    """Where rows go."""

    folder: Bank
    target: Path = argument(..., "The JSONL file to write.")


@command(app, "stategate bank build runs/p.sqlite --include-incorrect")
def build(settings: BuildSettings) -> None:
    """Build a bank from recorded episodes; run it again after a kill and it goes on."""
    from stategate.trainers.bank.build import build_state_bank, build_trace_bank
    from stategate.trainers.bank.sources import read_episodes

    crew = crew_of(settings.workers, settings.ray)
    config, resources = settings.load()
    with working("reading the episodes"):
        read = read_episodes(settings.traces, settings.include_incorrect, settings.trust)
    episodes = read.found[: settings.limit]
    _tell_problems(read.problems, "not read")
    if not episodes:
        raise UserError("no episode to learn from: give other traces, or --include-incorrect")
    if any(episode.images for episode in episodes):
        from stategate.trainers.bank.hindsight import Captions

        captions = Captions(resources.llm, resources.llm_params.model_dump_json())
        episodes = [captions.caption(episode) for episode in episodes]
        _tell_problems(captions.problems, "without a caption")
    place = _place(settings.out, settings.kind)
    if settings.kind == "trace":
        with working("building the bank"):
            built = build_trace_bank(place, episodes, resources, crew)
        _tell(built, place)
        return
    is_judged = settings.annotator == "hindsight"
    judge = _judge(resources, episodes, settings) if is_judged else None
    params = config.updater if settings.updater else None
    with working("building the bank"):
        built = build_state_bank(place, episodes, resources, judge, params, crew=crew)
    _tell(built, place)
    if judge is not None:
        _tell_cost(judge)


@command(app, "stategate bank hindsight state runs/traces.sqlite --watch 60 &")
def hindsight(settings: HindsightSettings) -> None:
    """Replace return-based advice by a model's, while agents go on using the bank."""
    from stategate.trainers.bank.build import upgrade, waiting_in
    from stategate.trainers.bank.sources import read_episodes

    _, resources = settings.load()
    tried: set[str] = set()
    is_first = True
    while is_first or settings.watch:
        if not is_first:
            time.sleep(settings.watch)
        read = read_episodes(settings.traces, include_incorrect=True)
        there = waiting_in(settings.folder) - tried
        todo = [episode for episode in read.found[: settings.limit] if episode.id in there]
        if todo or is_first:
            _tell_problems(read.problems, "not read")
            judge = _judge(resources, todo, settings)
            done = upgrade(settings.folder, todo, judge, resources.experience)
            say(f"{done.rows} rows of {done.read} episodes have a model's advice now")
            _tell_problems(done.problems, "left as they were")
            _tell_cost(judge)
        tried |= {episode.id for episode in todo}
        is_first = False


@command(app, "stategate bank practice --goals train --out p.sqlite --set env.data=official")
def practice(settings: PracticeSettings) -> None:
    """Play goals with the rule actor in several styles, mistakes included, to learn from."""
    from stategate.trainers.webshop.practice import practise

    named: dict[str, Any] = {"styles": settings.styles.split(",")} if settings.styles else {}
    named["crew"] = crew_of(settings.workers, settings.ray)
    played = practise(settings.config, settings.goals, settings.out, settings.overrides, **named)
    say(f"{played} episodes played, in {settings.out}")


@command(app, "stategate bank show state --limit 5")
def show(settings: ShowSettings) -> None:
    """Show what a bank holds: numbers, what it was made with, and its rows of most worth."""
    from stategate.stores.bank.bank import open_bank

    bank, episode = open_bank(settings.folder), settings.episode
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
    best = sorted(rows, key=lambda row: (row.n if episode else -row.q, row.n))[: settings.limit]
    if wrote(settings.json_target, {**facts, "shown": [_plain(row) for row in best]}):
        return
    for key, value in facts.items():
        shown = f"{value:.2f}" if isinstance(value, float) else value
        if isinstance(shown, dict):
            shown = ", ".join(f"{name} {count}" for name, count in shown.items())
        say(f"{key:<11}{shown}")
    for row in best:
        _print(row)


@command(app, "stategate bank search state 'Find me a red wool scarf' -k 3")
def search(settings: SearchSettings) -> None:
    """Find the rows nearest to a text."""
    if not settings.text.strip():
        raise UserError("nothing to search for: give a question or a state")
    from stategate.ui.memory import nearest_rows

    config, resources = settings.load()
    world = resources.get(config.env)
    hits = nearest_rows(settings.folder, settings.text, settings.k, resources, world)
    if wrote(settings.json_target, [{"score": hit.score, **_plain(hit.row)} for hit in hits]):
        return
    for hit in hits:
        _print(hit.row, hit.score)


@command(app, "stategate bank edit state 1f2e3d --q 0")
def edit(settings: EditSettings) -> None:
    """Change the worth or the advice of one row, or remove it."""
    from stategate.stores.bank.bank import open_bank

    bank, q, experience = open_bank(settings.folder), settings.q, settings.experience
    if settings.remove:
        bank.remove([bank.row(settings.row).n])
        say("1 row removed")
        return
    if q is None and experience is None:
        raise UserError("nothing to change: give --q, --experience or --remove")
    changes = {} if experience is None else {"experience": experience, "by": "edited"}
    _print(bank.change(settings.row, q=q, **changes))


@command(app, "stategate bank prune state --keep 50000 --useless")
def prune(settings: PruneSettings) -> None:
    """Let go of rows by worth, age or uselessness."""
    from stategate.nodes.experience.grow import prune as let_go
    from stategate.stores.bank.bank import open_bank

    days = settings.older_than_days
    how = settings.model_dump(include={"keep", "min_q", "useless"})
    if days is None and all(value in (None, False) for value in how.values()):
        raise UserError("nothing to prune by: give --keep, --min-q, --older-than-days or --useless")
    bank = open_bank(settings.folder)
    gone = let_go(bank, older_than=None if days is None else days * 86400, **how)
    say(f"{gone} rows removed, {len(bank)} left")


@command(app, "stategate bank merge a b --out all")
def merge(settings: MergeSettings) -> None:
    """Put banks of one make together; a row that is in several comes once."""
    from stategate.stores.bank import bank

    sources = [bank.open_bank(_place(folder)) for folder in settings.folders]
    place = _place(settings.out)
    added = sum(bank.merge(source, place, settings.trust) for source in sources)
    say(f"{added} new rows in {place}")


@command(app, "stategate bank export state rows.jsonl")
def export(settings: ExportSettings) -> None:
    """Write all rows, without vectors, as JSON lines."""
    from stategate.stores.bank.bank import export_rows, open_bank

    count = export_rows(open_bank(settings.folder), settings.target)
    say(f"{count} rows in {settings.target}")


def _judge(resources: "Resources", episodes: list[Any], settings: JudgeSettings) -> "Hindsight":
    from stategate.trainers.bank.hindsight import Hindsight

    params = resources.llm_params
    name = str(getattr(params, "model", params.kind))
    room = int(getattr(params, "n_ctx", 16_000)) - 300
    pace = (settings.concurrency, settings.per_minute)
    judge = Hindsight(resources.llm, resources.experience, name, room, *pace)
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
