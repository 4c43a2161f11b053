"""``stategate memory``: look into long-term memory, search it, forget, export and import."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ui.cli.output import AsJson, command_group, console, opt, say, write_json

if TYPE_CHECKING:
    from nodes.protocols import Embedder
    from nodes.retrieval.memory import MemoryPlace
    from stores.memory.records import Fact

memory_app = command_group(
    "Look into long-term memory: what is remembered of whom, and from which turn.",
    "stategate memory search 'where do stones move' --user ana",
    "stategate memory export memory.jsonl",
)
_Db = Annotated[str | None, opt("SQLite file or postgresql:// URL.", metavar="FILE|URL")]
_User = Annotated[str, opt("Whose memory.")]
_Agent = Annotated[str, opt("Which agent's memory.")]
_Embedder = Annotated[str, opt("The one that the memory was written with.")]
_File = Annotated[Path, typer.Argument(metavar="FILE", show_default=False)]


@memory_app.command("list")
def list_(
    db: _Db = None, user: _User = "default", agent: _Agent = "stategate", as_json: AsJson = False
) -> None:
    """List every fact, oldest first, with the turns it came from."""
    place = _place(db, user, agent)
    _show(place.open().facts(place.namespace), as_json)


@memory_app.command()
def search(
    words: Annotated[str, typer.Argument(show_default=False)],
    k: Annotated[int, opt("How many facts.", "-k", min=1)] = 5,
    embedder: _Embedder = "minilm",
    db: _Db = None,
    user: _User = "default",
    agent: _Agent = "stategate",
    as_json: AsJson = False,
) -> None:
    """Find facts by relevance, as an agent would."""
    place, model = _place(db, user, agent), _embedder(embedder)
    vector = model.embed([words])[0]
    _show(place.open().search(place.namespace, vector, model.name, k, 0.0), as_json)


@memory_app.command()
def forget(
    ids: Annotated[list[int] | None, typer.Argument(help="Numbers from the list.")] = None,
    everything: Annotated[bool, opt("All of this user's facts.", "--all")] = False,
    db: _Db = None,
    user: _User = "default",
    agent: _Agent = "stategate",
) -> None:
    """Delete facts, the turns that they came from, and names that nothing else mentions."""
    from stores.errors import UserError

    if bool(ids) == everything:
        raise UserError("name the facts to forget by number, or --all")
    place = _place(db, user, agent)
    before = place.open().facts(place.namespace)
    gone = place.open().forget(place.namespace, None if everything else ids)
    if not gone and ids:
        raise UserError(f"no such fact: {', '.join(map(str, ids))} (see stategate memory list)")
    say(f"forgot {gone} fact{'' if gone == 1 else 's'}")
    left = place.open().facts(place.namespace)
    lost = [fact.answer for fact in before if fact.id not in {kept.id for kept in left}]
    # An answer may have quoted what was remembered then; whoever forgets must know where.
    quoting = [fact.id for fact in left if any(words in fact.answer for words in lost if words)]
    if quoting:
        numbers = ", ".join(map(str, quoting))
        say(f"still quoted in the answer of: {numbers} (forget those, too?)", "yellow")


@memory_app.command()
def export(
    target: _File, db: _Db = None, user: _User = "default", agent: _Agent = "stategate"
) -> None:
    """Write the memory to a JSON Lines file, one turn a line, for `import`."""
    place = _place(db, user, agent)
    count = place.open().export_turns(place.namespace, target.expanduser())
    say(f"wrote {count} turns to {target}")


@memory_app.command("import")
def import_(
    source: _File,
    db: _Db = None,
    user: _User = "default",
    agent: _Agent = "stategate",
    embedder: _Embedder = "minilm",
) -> None:
    """Read a file that `export` wrote; turns that are there already are left alone."""
    from nodes.retrieval.entities import extractor_of

    place, model = _place(db, user, agent), _embedder(embedder)
    count = place.open().import_turns(
        place.namespace, source.expanduser(), model.embed, model.name, extractor_of("spacy")
    )
    say(f"read {count} new turns")


def _embedder(kind: str) -> "Embedder":
    from graph.config import load_config
    from nodes.resources import Resources

    return Resources(None, load_config({"embedder": kind}).embedder).embedder


def _place(db: str | None, user: str, agent: str) -> "MemoryPlace":
    from nodes.retrieval.memory import MemoryPlace

    return MemoryPlace(url=db, user=user, agent=agent)


def _show(facts: "list[Fact]", as_json: bool) -> None:
    if as_json:
        write_json("-", [_plain(fact) for fact in facts])
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
        out.print(Text(f"{fact.id}. {fact.question}", style="bold"))
        out.print(Padding(Text(fact.answer), (0, 0, 0, 3), expand=False))
        source = fact.turns[-1] if fact.turns else {}
        where = f"; from {source['thread_id']} step {source['step']}" if source else ""
        about = f"{day}, salience {fact.salience:.2f}, seen {fact.times}×{score}{also}{where}"
        out.print(Padding(Text(about, style="dim"), (0, 0, 0, 3), expand=False))


def _plain(fact: "Fact") -> dict[str, Any]:
    turns = [dict(turn) for turn in fact.turns]
    return {**vars(fact), "contradicts": list(fact.contradicts), "turns": turns}
