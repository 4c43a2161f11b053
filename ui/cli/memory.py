"""``stategate memory``: look into long-term memory, search it, forget, export and import."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stategate.stores.text import day_of, one_line
from stategate.ui.cli.output import JsonFile, command_group, console, opt, say, write_json, wrote

if TYPE_CHECKING:
    from stategate.nodes.protocols import Embedder
    from stategate.nodes.retrieval.memory import MemoryPlace
    from stategate.nodes.retrieval.remember import Memory
    from stategate.stores.memory.records import Fact

memory_app = command_group(
    "Look into long-term memory: what is remembered of whom, and from which turn.",
    "stategate memory list",
    "stategate memory remember 'I moved to Oslo last week.' --speaker Ana --at 2024-03-05",
    "stategate memory search 'where does Ana live' --as-of 2024-06-01",
    "stategate memory why 'where does Ana live' --tokens 200",
    "stategate memory forget 3 7",
    "stategate memory prove-forgotten 'Oslo'",
    "stategate memory export memory.jsonl",
)
_Db = Annotated[str | None, opt("SQLite file or postgresql:// URL.", metavar="FILE|URL")]
_Embedder = Annotated[str, opt("The one that the memory was written with.")]
_AsOf = Annotated[str | None, opt("A day such as 2024-03-05: as it was then.")]
_Traces = Annotated[str | None, opt("Of traces, if another.", metavar="FILE")]
_Checkpoints = Annotated[str | None, opt("Of checkpoints, if others.", metavar="FILE|URL")]
_TURNS = 4  # of a fact that the list names, and users
_QUOTED = 8  # letters from which a forgotten text is looked for in what is left
_User = Annotated[str | None, opt("Whose memory; by default yours.")]
_Agent = Annotated[str, opt("Which agent's memory.")]


@memory_app.command("list")
def list_(
    db: _Db = None,
    user: _User = None,
    agent: _Agent = "stategate",
    json_target: JsonFile = None,
) -> None:
    """List every fact, oldest first, with the turns it came from."""
    place = _place(db, user, agent)
    facts = place.open().facts(place.namespace)
    _show(facts, json_target)
    if others := [] if facts else [n.user for n in place.open().namespaces()]:
        more = f" and {len(others) - _TURNS} more" if len(others) > _TURNS else ""
        whose = f"of {', '.join(others[:_TURNS])}{more}: name one with --user"
        say(f"of {place.namespace.user}; there is a memory {whose}", "yellow", stderr=True)


@memory_app.command()
def search(
    words: Annotated[str, typer.Argument(show_default=False)],
    k: Annotated[int, opt("How many facts.", "-k", min=1)] = 5,
    as_of: _AsOf = None,
    embedder: _Embedder = "minilm",
    db: _Db = None,
    user: _User = None,
    agent: _Agent = "stategate",
    json_target: JsonFile = None,
) -> None:
    """Find what answers a question, as an agent would; --as-of asks what was known on a day."""
    from stategate.stores.memory.recall import Limits

    memory = _memory(db, user, agent, embedder)
    _show(memory.recall(words, as_of=as_of, limits=Limits(facts=k)), json_target)


@memory_app.command()
def why(
    words: Annotated[str, typer.Argument(metavar="QUESTION", show_default=False)],
    k: Annotated[int, opt("How many facts may be shown.", "-k", min=1)] = 5,
    tokens: Annotated[int | None, opt("Tokens that they may have.", min=1)] = None,
    min_trust: Annotated[float, opt("The least trust.", min=0, max=1)] = 0.0,
    show: Annotated[int, opt("How many candidates to list.", min=1)] = 20,
    as_of: _AsOf = None,
    embedder: _Embedder = "minilm",
    db: _Db = None,
    user: _User = None,
    agent: _Agent = "stategate",
    json_target: JsonFile = None,
) -> None:
    """Show every candidate for a question: its score by signal, and why it was left out."""
    from stategate.stores.memory.recall import SIGNALS, Limits

    memory = _memory(db, user, agent, embedder)
    limits = Limits(k, tokens, 0.0, min_trust)
    _, candidates = memory.explain(words, as_of=as_of, limits=limits)
    others = [n for n in memory.store.namespaces() if n != memory.namespace]
    if wrote(json_target, [{**vars(c), "signals": dict(c.signals)} for c in candidates]):
        return
    from rich.table import Table

    table = Table("fact", "score", *SIGNALS, box=None, pad_edge=False)
    for candidate in candidates[:show]:
        scores = [f"{candidate.signals[name]:.2f}" for name in SIGNALS]
        table.add_row(str(candidate.fact), f"{candidate.score:.2f}", *scores)
    out = console()
    for candidate in candidates[:show]:
        left_out = f"left out, {candidate.left_out}" if candidate.left_out else "shown"
        out.print(f"{candidate.fact}. [{left_out}] {one_line(candidate.text)}", markup=False)
    out.print(table)
    if others:
        out.print(f"namespace: facts of {len(others)} other users or agents were not looked at")


@memory_app.command()
def timeline(
    db: _Db = None,
    user: _User = None,
    agent: _Agent = "stategate",
    json_target: JsonFile = None,
) -> None:
    """Show what was stated of whom, from when to when, and which fact ended it."""
    from stategate.stores.memory.records import TRUSTED

    place = _place(db, user, agent)
    rows = place.open().timeline(place.namespace)
    if wrote(json_target, rows):
        return
    from rich.markup import escape
    from rich.table import Table

    table = Table("of", "what", "value", "from", "until", "fact", box=None, pad_edge=False)
    for row in rows:
        value = f"{'not ' if row['negated'] else ''}{row['value']}"
        value += " (unverified)" if row["trust"] < TRUSTED else ""
        until = (
            "holds"
            if row["valid_to"] is None
            else f"{day_of(row['valid_to'])} ({row['closed_by']})"
        )
        cells = [row["subject"], row["relation"], value, day_of(row["valid_from"]), until]
        table.add_row(*(escape(cell) for cell in (*cells, str(row["fact_id"]))))
    console().print(table)


@memory_app.command()
def remember(
    text: Annotated[str, typer.Argument(show_default=False)],
    at: Annotated[str | None, opt("When it was said: 2024-03-05.")] = None,
    source: Annotated[str, opt("user, agent, document or tool, with a name: tool:web.")] = "user",
    speaker: Annotated[str, opt("Who said it.")] = "",
    thread: Annotated[str, opt("In which conversation.")] = "",
    embedder: _Embedder = "minilm",
    db: _Db = None,
    user: _User = None,
    agent: _Agent = "stategate",
    json_target: JsonFile = None,
) -> None:
    """Keep a text, and say what became of it: stored, merged or refused, and what it closed."""
    memory = _memory(db, user, agent, embedder)
    written = memory.remember(text, at=at, source=source, speaker=speaker, thread=thread)
    lists = {"closed": list(written.closed), "dropped": list(written.dropped)}
    if wrote(json_target, {**vars(written), **lists}):
        return
    said = {"stored": "stored as fact", "merged": "merged into fact"}.get(written.outcome, "")
    line = f"{said} {written.fact}" if said else f"{written.outcome}: {written.reason}"
    closed = f"; it closes {', '.join(map(str, written.closed))}" if written.closed else ""
    dropped = ", ".join(map(str, written.dropped))
    say(f"{line}{closed}{f'; the memory was full, so these went: {dropped}' if dropped else ''}")


@memory_app.command()
def forget(
    ids: Annotated[list[int] | None, typer.Argument(help="Numbers from the list.")] = None,
    everything: Annotated[bool, opt("All of this user's facts.", "--all")] = False,
    thread: Annotated[str | None, opt("All that was said in a thread.")] = None,
    source: Annotated[str | None, opt("All from a source, such as tool:web.")] = None,
    traces: _Traces = None,
    checkpoints: _Checkpoints = None,
    embedder: _Embedder = "minilm",
    db: _Db = None,
    user: _User = None,
    agent: _Agent = "stategate",
    json_target: JsonFile = None,
) -> None:
    """Erase facts, their turns and what came of them: memory, traces, checkpoints, banks, vectors."""
    from stategate.graph.forgetting import Places, forget_everywhere
    from stategate.stores.errors import UserError

    if sum(map(bool, (ids, everything, thread, source))) != 1:
        raise UserError("name the facts to forget by number, or one of --thread, --source, --all")
    place = _place(db, user, agent)
    report = forget_everywhere(
        place.open(),
        place.namespace,
        ids or None,
        thread=thread,
        source=source,
        places=Places.here(traces, checkpoints),
        embedder=lambda: _embedder(embedder),
    )
    if not report.erased and ids:
        raise UserError(f"no such fact: {', '.join(map(str, ids))} (see stategate memory list)")
    if wrote(json_target, {"forgotten": report.counts, "exported_to": report.exports}):
        return
    gone = report.counts["facts"]
    other = ", ".join(f"{n} {what}" for what, n in report.counts.items() if n and what != "facts")
    say(f"forgot {gone} fact{'' if gone == 1 else 's'}{f' ({other})' if other else ''}")
    left = place.open().facts(place.namespace)
    lost = [text for text in report.erased.texts if len(text) > _QUOTED]
    # An answer may have quoted what was remembered then; whoever forgets must know where.
    quoting = [f.id for f in left if any(words in f"{f.question}\n{f.answer}" for words in lost)]
    if quoting:
        numbers = ", ".join(map(str, quoting))
        say(f"still quoted in the answer of: {numbers} (forget those, too?)", "yellow")
    for path in report.exports:
        say(f"turns of this user were exported to {path}: delete that file yourself", "yellow")


@memory_app.command("prove-forgotten")
def prove_forgotten(
    texts: Annotated[list[str], typer.Argument(metavar="TEXT...", help="What must be nowhere.")],
    traces: _Traces = None,
    checkpoints: _Checkpoints = None,
    db: _Db = None,
    json_target: JsonFile = None,
) -> None:
    """Search every store for words, byte by byte; exit code 1 where they still stand."""
    from stategate.graph.forgetting import Places, search_everywhere
    from stategate.stores.memory.long_term import open_long_term

    hits = search_everywhere(texts, open_long_term(db), Places.here(traces, checkpoints))
    if json_target is not None:
        write_json(json_target, [vars(hit) for hit in hits])
    else:
        for hit in hits:
            say(f"{hit.store}: {hit.where} holds '{hit.text}'", "red")
        if not hits:
            say(f"nowhere: {len(texts)} text{'' if len(texts) == 1 else 's'} searched")
    if hits:
        raise typer.Exit(1)


@memory_app.command()
def export(
    target: Annotated[Path, typer.Argument(metavar="FILE", show_default=False)],
    db: _Db = None,
    user: _User = None,
    agent: _Agent = "stategate",
) -> None:
    """Write the memory to a JSON Lines file, one turn a line, for `import`."""
    place = _place(db, user, agent)
    count = place.open().export_turns(place.namespace, target.expanduser())
    console().print(f"wrote {count} turns to {target}", soft_wrap=True, markup=False)


@memory_app.command("import")
def import_(
    source: Annotated[Path, typer.Argument(metavar="FILE", show_default=False)],
    db: _Db = None,
    user: _User = None,
    agent: _Agent = "stategate",
    embedder: Annotated[str, opt("To find the facts by.")] = "minilm",
) -> None:
    """Read a file that `export` wrote; turns that are there already are left alone."""
    from stategate.nodes.retrieval.entities import extractor_of

    place, model = _place(db, user, agent), _embedder(embedder)
    count = place.open().import_turns(
        place.namespace, source.expanduser(), model.embed, model.name, extractor_of("spacy")
    )
    console().print(f"read {count} new turns", markup=False)


def _embedder(kind: str) -> "Embedder":
    from stategate.graph.config import load_config
    from stategate.nodes.resources import Resources

    return Resources(None, load_config({"embedder": kind}).embedder).embedder


def _memory(db: str | None, user: str | None, agent: str, embedder: str) -> "Memory":
    from stategate.nodes.retrieval.remember import Memory

    return Memory(db, embedder=_embedder(embedder), user=user, agent=agent)


def _place(db: str | None, user: str | None, agent: str) -> "MemoryPlace":
    from stategate.nodes.retrieval.memory import MemoryPlace
    from stategate.stores.home import this_user

    return MemoryPlace(url=db, user=user or this_user(), agent=agent)


def _show(facts: "list[Fact]", json_target: str | None) -> None:
    if wrote(json_target, [_plain(fact) for fact in facts]):
        return
    from rich.padding import Padding
    from rich.text import Text

    out = console()
    if not facts:
        out.print("nothing is remembered")
    for fact in facts:
        day = time.strftime("%Y-%m-%d %H:%M", time.gmtime(fact.updated))
        score = f", score {fact.score:.2f}" if fact.score else ""
        also = f", otherwise in {', '.join(map(str, fact.contradicts))}" if fact.contradicts else ""
        who = f"{fact.speaker}: " if fact.speaker else ""
        out.print(Text(f"{fact.id}. {who}{fact.question}", style="bold"))
        if fact.answer:
            out.print(Padding(Text(fact.answer), (0, 0, 0, 3), expand=False))
        turns = [f"{turn['thread_id']} step {turn['step']}".strip() for turn in fact.turns]
        more = f" and {len(turns) - _TURNS} more" if len(turns) > _TURNS else ""
        where = f"; from {', '.join(turns[:_TURNS])}{more}" if turns else ""
        until = ""
        if fact.valid_to is not None:
            until = f", until {day_of(fact.valid_to)} (fact {fact.closed_by})"
        trust = f", {fact.source}, trust {fact.trust:.1f}"
        seen = f"salience {fact.salience:.2f}, seen {fact.times}×"
        about = f"{day}, {seen}{score}{also}{until}{trust}{where}"
        out.print(Padding(Text(about, style="dim"), (0, 0, 0, 3), expand=False))


def _plain(fact: "Fact") -> dict[str, Any]:
    return {
        **vars(fact),
        "contradicts": list(fact.contradicts),
        "turns": list(map(dict, fact.turns)),
    }
