"""``stategate memory``: look into long-term memory, search it, forget."""

import time
from collections.abc import Sequence
from typing import Annotated

from stategate.graph.config import load_config
from stategate.graph.forgetting import forget_everywhere, traces_left
from stategate.nodes.resources import Resources
from stategate.nodes.retrieval.remember import (
    Memory,
    MemoryPlace,
    listed,
    nothing_matched,
    users_of,
)
from stategate.stores.errors import UserError
from stategate.stores.home import cache, home, own_name_of, require_own_home, this_user
from stategate.stores.memory.long_term import LongTerm
from stategate.stores.memory.recall import Limits
from stategate.stores.memory.records import Fact
from stategate.stores.settings import JsonFile, Question, Settings, argument, option
from stategate.stores.sql import require_file
from stategate.stores.text import day_of, one_line, plural
from stategate.ui.cli.output import say, wrote
from stategate.ui.cli.settings_command import command, command_group

app = command_group(
    "Look into long-term memory: what is remembered of whom, and from where."
    " `stategate ask … --remember` adds to it.",
    "stategate ask 'I live in Oslo.' --remember",
    "stategate memory list",
    "stategate memory search 'where does Ana live' --as-of 2024-06-01",
    "stategate memory why 'where does Ana live' -k 2",
    "stategate memory forget 3 7",
)
EmbedderKind = Annotated[str, option(..., "The one that the memory was written with.")]


class MemorySettings(Settings):
    """Whose memory, and where it is."""

    db: str | None = option(None, "SQLite file or postgresql:// URL.", metavar="FILE|URL")
    user: str | None = option(None, "Whose memory; by default yours.")
    json_target: JsonFile = None

    def place(self) -> MemoryPlace:
        """Return where the memory is; without a user it is this system's user's."""
        require_file(self.db, "memory", "--db", "facts")
        return MemoryPlace(url=self.db, user=self.user or this_user())


class SearchSettings(MemorySettings):
    """A question, and of which time."""

    words: Question = argument(..., metavar="QUESTION")
    embedder: EmbedderKind = "minilm"
    k: int = option(5, "How many facts.", "-k", ge=1)
    as_of: str | None = option(None, "A day such as 2024-03-05: as it was then.")
    at_least: float = option(0.0, "The least probability that a fact answers.", ge=0, le=1)

    def open(self) -> Memory:
        """Return the memory."""
        place = self.place()
        params = load_config({"embedder": self.embedder}).embedder
        return Memory(place.url, embedder=Resources(None, params).embedder, user=place.owner)


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


@command("stategate memory list --user ana", name="list", group=app)
def list_facts(settings: MemorySettings) -> None:
    """List every fact, oldest first, with where it was told; standing wishes come last."""
    place = settings.place()
    store = place.open()
    facts, apart = store.facts(place.owner), store.only_wishes(place.owner)
    if wrote(settings.json_target, [{**vars(fact), "is_wish": fact.id in apart} for fact in facts]):
        return
    if not facts:
        say(_nothing_of(store, place.owner))
    _show([fact for fact in facts if fact.id not in apart])
    _show_wishes(store, place.owner)


@command("stategate memory search 'where does Ana live' --as-of 2024-06-01", group=app)
def search(settings: SearchSettings) -> None:
    """Find what answers a question, as an agent would; --as-of asks what was known on a day."""
    memory = settings.open()
    apart = memory.store.only_wishes(memory.user)
    limits = Limits(facts=settings.k + len(apart), at_least=settings.at_least)
    found = memory.explain(settings.words, as_of=settings.as_of, limits=limits)
    found = [fact for fact in found if fact.id not in apart]
    facts = [fact for fact in found if not fact.left_out][: settings.k]
    if wrote(settings.json_target, list(map(vars, facts))):
        return
    if facts:
        order = "by words, meaning, neighbours, speaker and time"
        say(f"Best first, {order}; a probability is of what the fact alone says:", "dim")
        _show(facts)
    elif found:
        say(f"nothing remembered; the nearest fact: {found[0].left_out.partition(': ')[2]}")
    else:
        say(_nothing_of(memory.store, memory.user))
    _show_wishes(memory.store, memory.user)


@command("stategate memory why 'where does Ana live' -k 2", group=app)
def why(settings: SearchSettings) -> None:
    """Say of the 20 nearest facts to a question whether each is shown, and if not, why.

    --json has every candidate, with its score by signal.
    """
    memory = settings.open()
    limits = Limits(settings.k, at_least=settings.at_least)
    found = memory.explain(settings.words, as_of=settings.as_of, limits=limits)
    apart = memory.store.only_wishes(memory.user)
    found = [fact for fact in found if fact.id not in apart]
    if wrote(settings.json_target, list(map(vars, found))):
        return
    if not found:
        say(_nothing_of(memory.store, memory.user))
    for fact in found[:20]:
        reason = fact.left_out.partition(": ")[2]
        say(f"{fact.id}. {one_line(fact.text)}")
        say(f"   {f'not shown: {reason}' if reason else 'shown'}", "dim")
    _show_wishes(memory.store, memory.user)


@command("stategate memory forget 3 7", "stategate memory forget --source tool:web", group=app)
def forget(settings: ForgetSettings) -> None:
    """Erase facts and their copies: memory, traces, checkpoints, banks, vectors."""
    require_own_home()
    ids, thread, source = settings.ids, settings.thread, settings.source
    if sum(map(bool, (ids, settings.everything, thread, source))) != 1:
        raise UserError("name the facts to forget by number, or one of --thread, --source, --all")
    place = settings.place()
    known = {fact.id for fact in place.open().facts(place.owner)} if ids else set()
    missing = [str(number) for number in ids if number not in known]
    counts = forget_everywhere(
        place.open(),
        place.owner,
        list(ids) or None,
        thread=thread,
        source=source,
        traces=settings.traces,
        checkpoints=settings.checkpoints,
    )
    if not any(counts.values()):
        named = {"ids": ids or None, "thread": thread, "source": source}
        raise nothing_matched(place.open(), place.owner, **named)
    if wrote(settings.json_target, {"forgotten": counts}):
        return
    gone = plural(counts.pop("facts"), "fact")
    other = ", ".join(plural(n, what.removesuffix("s")) for what, n in counts.items() if n)
    say(f"forgot {gone}{f' ({other})' if other else ''}")
    if missing:
        say(f"no fact {listed(missing)}", "yellow", stderr=True)


@command("stategate memory prove-forgotten 'my dentist is Dr. Wu'", group=app)
def prove_forgotten(settings: ProveSettings) -> None:
    """Look for a text in every byte of this machine's stores and caches, its vectors' keys included."""
    if not settings.text.strip():
        raise UserError("name the text that must be gone")
    require_own_home()
    traces = traces_left(settings.text, [*{home(), cache()}])
    if wrote(settings.json_target, {"text": settings.text, "left_in": traces}):
        return
    if traces:
        raise UserError(
            f"it is still in {listed(traces)}: forget it, or close what has the file open; where a "
            "document holds it, change that and ask or ingest again"
        )
    say("not a byte of it is left")


def _nothing_of(store: LongTerm, user: str) -> str:
    """Return that no fact was found: none of the user's at all, or none about what is asked."""
    if store.facts(user):
        return "nothing is remembered that has to do with it"
    return f"nothing is remembered of user '{user}' ({users_of(store)})"


def _show(facts: Sequence[Fact]) -> None:
    """Print facts, each with when it was told, how sure it is, and where."""
    for fact in facts:
        who = f"{fact.speaker}: " if fact.speaker else ""
        say(f"{fact.id}. {who}{fact.text}", "bold")
        parts = [time.strftime("%Y-%m-%d %H:%M", time.gmtime(fact.at))]
        if fact.score:
            parts.append(f"answers with probability {fact.support:.2f}")
        if fact.valid_to is not None:
            parts.append(f"until {day_of(fact.valid_to)} (fact {fact.closed_by})")
        parts += [fact.source, f"trust {fact.trust:.1f}"]
        where = f"{own_name_of(fact.thread_id)} step {fact.step}".strip()
        say(f"   {', '.join(parts)}; from {where}", "dim")


def _show_wishes(store: LongTerm, user: str) -> None:
    """Print the standing wishes, without a probability: they go with every question."""
    wishes = store.wishes(user)
    if wishes:
        say("Standing wishes, offered with every question:", "bold")
    for fact in wishes:
        say(f"{fact.id}. {one_line(fact.passage)}")
