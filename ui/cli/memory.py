"""``stategate memory``: look into long-term memory, search it, forget."""

import time
from typing import TYPE_CHECKING, Annotated, Any

from stategate.stores.errors import UserError
from stategate.stores.settings import JsonFile, Settings, argument, option
from stategate.stores.text import day_of, one_line
from stategate.ui.cli.output import console, say, table, wrote
from stategate.ui.cli.settings_command import command, command_group

if TYPE_CHECKING:
    from stategate.nodes.protocols import Embedder
    from stategate.nodes.retrieval.memory import MemoryPlace
    from stategate.nodes.retrieval.remember import Memory
    from stategate.stores.memory.records import Fact

app = command_group(
    "Look into long-term memory: what is remembered of whom, and from where.",
    "stategate memory list",
    "stategate memory remember 'I moved to Oslo last week.' --speaker Ana --at 2024-03-05",
    "stategate memory search 'where does Ana live' --as-of 2024-06-01",
    "stategate memory why 'where does Ana live' --tokens 200",
    "stategate memory forget 3 7",
)
_NAMED = 4  # turns of a fact that the list names, and users
#: Why a fact is not shown, in words; of other causes, what follows the colon.
_CAUSES = {"number": "{k} others fit better", "duplicate": "the same is shown already"}
EmbedderKind = Annotated[str, option(..., "The one that the memory was written with.")]


class MemoryOf(Settings):
    """Whose memory, and where it is."""

    db: str | None = option(None, "SQLite file or postgresql:// URL.", metavar="FILE|URL")
    user: str | None = option(None, "Whose memory; by default yours.")
    agent: str = option("stategate", "Which agent's memory.")

    def place(self) -> "MemoryPlace":
        """Return where the memory is; without a user it is this system's user's."""
        from stategate.nodes.retrieval.memory import MemoryPlace
        from stategate.stores.home import this_user

        return MemoryPlace(url=self.db, user=self.user or this_user(), agent=self.agent)


class MemorySettings(MemoryOf):
    """Whose memory, and how it is written."""

    json_target: JsonFile = None


class EmbeddedMemory(MemorySettings):
    """Whose memory, opened with the embedder that it was written with."""

    embedder: EmbedderKind = "minilm"

    def open(self) -> "Memory":
        """Return the memory."""
        from stategate.nodes.retrieval.remember import Memory

        user, agent = self.user, self.agent
        return Memory(self.db, embedder=_embedder(self.embedder), user=user, agent=agent)


class SearchSettings(EmbeddedMemory):
    """A question, and of which time."""

    words: str = argument(...)
    k: int = option(5, "How many facts.", "-k", ge=1)
    as_of: str | None = option(None, "A day such as 2024-03-05: as it was then.")
    at_least: float = option(0.0, "The least probability that a fact answers.", ge=0, le=1)


class WhySettings(SearchSettings):
    """A question, and how much room its answer has."""

    words: str = argument(..., metavar="QUESTION")
    tokens: int | None = option(None, "Tokens that they may have.", ge=1)
    min_trust: float = option(0.0, "The least trust.", ge=0, le=1)
    show: int = option(20, "How many candidates to list.", ge=1)
    numbers: bool = option(False, "Also each candidate's score, by signal.")


class RememberSettings(EmbeddedMemory):
    """A text, who said it, when and where."""

    text: str = argument(...)
    at: str | None = option(None, "When it was said: 2024-03-05.")
    source: str = option("user", "user, agent, document or tool, with a name: tool:web.")
    speaker: str = option("", "Who said it.")
    thread: str = option("", "In which conversation.")


class ForgetSettings(MemorySettings):
    """What is forgotten: facts by number, or all of a thread, a source or a user."""

    ids: tuple[int, ...] = argument((), "Numbers from the list.")
    everything: bool = option(False, "All of this user's facts.", "--all")
    thread: str | None = option(None, "All that was said in a thread.")
    source: str | None = option(None, "All from a source, such as tool:web.")
    traces: str | None = option(None, "Of traces, if another.", metavar="FILE")
    checkpoints: str | None = option(None, "Of checkpoints, if others.", metavar="FILE|URL")


class ProveSettings(Settings):
    """A text that was forgotten."""

    text: str = argument(..., metavar="TEXT")
    json_target: JsonFile = None


@command(app, "stategate memory list --user ana", name="list")
def list_facts(settings: MemorySettings) -> None:
    """List every fact, oldest first, with where it was told; standing wishes stand apart."""
    place = settings.place()
    store = place.open()
    wishes = store.wishes(place.namespace)
    numbers, facts = {fact.id for fact in wishes}, store.facts(place.namespace)
    rows = [{**_plain(fact), "is_wish": fact.id in numbers} for fact in facts]
    if wrote(settings.json_target, rows):
        return
    if len(facts) > len(numbers) or not wishes:
        _show([fact for fact in facts if fact.id not in numbers], None)
    if wishes:
        say("Standing wishes, offered with every question:", "bold")
        for fact in wishes:
            say(f"{fact.id}. {one_line(fact.passage)}")


@command(app, "stategate memory search 'where does Ana live' --as-of 2024-06-01")
def search(settings: SearchSettings) -> None:
    """Find what answers a question, as an agent would; --as-of asks what was known on a day."""
    from stategate.stores.memory.recall import Limits

    limits = Limits(facts=settings.k, at_least=settings.at_least)
    found, every = settings.open().explain(settings.words, as_of=settings.as_of, limits=limits)
    if not found and every and settings.json_target is None:
        say(f"nothing remembered ({max(one.chance for one in every):.2f} at best)")
        return
    _show(found, settings.json_target)


@command(app, "stategate memory why 'where does Ana live' --tokens 200 --numbers")
def why(settings: WhySettings) -> None:
    """Say of every candidate for a question whether it is shown, and if not, why."""
    from stategate.stores.memory.recall import SIGNALS, Limits

    memory = settings.open()
    limits = Limits(settings.k, settings.tokens, settings.min_trust, settings.at_least)
    _, candidates = memory.explain(settings.words, as_of=settings.as_of, limits=limits)
    if wrote(settings.json_target, [{**vars(c), "signals": dict(c.signals)} for c in candidates]):
        return
    listed, out = candidates[: settings.show], console()
    if not listed:
        out.print("nothing is remembered that has to do with it")
    for one in listed:
        cause, _, detail = one.left_out.partition(": ")
        reason = _CAUSES.get(cause, detail).format(k=settings.k)
        out.print(f"{one.fact}. {one_line(one.text)}", markup=False)
        out.print(f"   {f'not shown: {reason}' if cause else 'shown'}", style="dim", markup=False)
    if settings.numbers and listed:
        rows = [(str(c.fact), c.score, *(c.signals[name] for name in SIGNALS)) for c in listed]
        out.print(table(("fact", "score", *SIGNALS), rows))


@command(app, "stategate memory remember 'I moved to Oslo.' --speaker Ana --at 2024-03-05")
def remember(settings: RememberSettings) -> None:
    """Keep a text, and say what became of it: stored or refused, and what it closed."""
    how = settings.model_dump(include={"at", "source", "speaker", "thread"})
    written = settings.open().remember(settings.text, **how)
    if wrote(settings.json_target, {**vars(written), "closed": list(written.closed)}):
        return
    is_stored = written.outcome == "stored"
    line = f"stored as fact {written.fact}" if is_stored else f"{written.outcome}: {written.reason}"
    if written.closed:
        line += f"; it closes {', '.join(map(str, written.closed))}"
    elif is_stored and written.reason:
        line += f"; {written.reason}"
    say(line)


@command(app, "stategate memory forget 3 7", "stategate memory forget --source tool:web")
def forget(settings: ForgetSettings) -> None:
    """Erase facts and their copies: memory, traces, checkpoints, banks, vectors."""
    from stategate.graph.forgetting import Places, forget_everywhere

    ids, thread, source = settings.ids, settings.thread, settings.source
    if sum(map(bool, (ids, settings.everything, thread, source))) != 1:
        raise UserError("name the facts to forget by number, or one of --thread, --source, --all")
    place = settings.place()
    counts = forget_everywhere(
        place.open(),
        place.namespace,
        list(ids) or None,
        thread=thread,
        source=source,
        places=Places.here(settings.traces, settings.checkpoints),
    )
    if not any(counts.values()):
        raise UserError(_nothing_matched(settings, place))
    if wrote(settings.json_target, {"forgotten": counts}):
        return
    gone = counts["facts"]
    other = ", ".join(f"{n} {what}" for what, n in counts.items() if n and what != "facts")
    say(f"forgot {gone} fact{'' if gone == 1 else 's'}{f' ({other})' if other else ''}")


@command(app, "stategate memory prove-forgotten 'my dentist is Dr. Wu'")
def prove_forgotten(settings: ProveSettings) -> None:
    """Look for a text in every byte of this machine's stores and caches, its vectors' keys included."""
    from stategate.graph.forgetting import traces_left
    from stategate.stores.home import cache, home

    left = traces_left(settings.text, [*{home(), cache()}])
    if wrote(settings.json_target, {"text": settings.text, "left_in": left}):
        return
    if left:
        raise UserError(
            f"it is still in {_listed(left)}: forget it, or close what has the file open"
        )
    say("not a byte of it is left")


def _nothing_matched(settings: ForgetSettings, place: "MemoryPlace") -> str:
    """Return that nothing was there to forget, and what there is in its place."""
    facts, user = place.open().facts(place.namespace), place.namespace.user
    missing = f"no such fact: {', '.join(map(str, settings.ids))}; " if settings.ids else ""
    if not facts:
        return f"{missing}nothing is remembered of user '{user}' (--user names another)"
    if missing:
        return f"{missing}there is {_listed([str(fact.id) for fact in facts])}"
    if settings.source:
        sources = sorted({fact.source for fact in facts})
        return f"nothing is remembered from '{settings.source}': there is {_listed(sources)}"
    names = {fact.thread_id for fact in facts}
    threads = sorted(names - {""}) or ["no thread"]
    return f"nothing is remembered of thread '{settings.thread}': there is {_listed(threads)}"


def _embedder(kind: str) -> "Embedder":
    from stategate.graph.config import load_config
    from stategate.nodes.resources import Resources

    return Resources(None, load_config({"embedder": kind}).embedder).embedder


def _show(facts: "list[Fact]", json_target: str | None) -> None:
    if wrote(json_target, [_plain(fact) for fact in facts]):
        return
    from rich.padding import Padding
    from rich.text import Text

    out = console()
    if not facts:
        out.print("nothing is remembered")
    for fact in facts:
        who = f"{fact.speaker}: " if fact.speaker else ""
        out.print(Text(f"{fact.id}. {who}{fact.text}", style="bold"))
        out.print(Padding(Text(_details(fact), style="dim"), (0, 0, 0, 3), expand=False))


def _details(fact: "Fact") -> str:
    """Return when a fact was told, how sure it is, and where, in one line."""
    parts = [time.strftime("%Y-%m-%d %H:%M", time.gmtime(fact.at))]
    if fact.score:
        parts.append(f"answers with probability {fact.support:.2f}")
    if fact.valid_to is not None:
        parts.append(f"until {day_of(fact.valid_to)} (fact {fact.closed_by})")
    parts += [fact.source, f"trust {fact.trust:.1f}"]
    return f"{', '.join(parts)}; from {f'{fact.thread_id} step {fact.step}'.strip()}"


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"


def _plain(fact: "Fact") -> dict[str, Any]:
    return {**vars(fact), "question": fact.question, "turns": list(map(dict, fact.turns))}
