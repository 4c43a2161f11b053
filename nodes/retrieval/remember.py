"""Long-term memory as a library: ``remember`` what is said, ``recall`` what answers a question.

memory = Memory(user="ana")
memory.remember("I moved to Oslo last week.", at="2024-03-05", speaker="Ana")
memory.recall("Where does Ana live?")
"""

import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from stategate.language.sentences import passages
from stategate.nodes.models.embedders import MiniLM
from stategate.nodes.models.judge import answer_chances
from stategate.nodes.protocols import Embedder
from stategate.nodes.resources import shared_resources
from stategate.nodes.retrieval.corpus import sentences_of
from stategate.stores.errors import UserError
from stategate.stores.home import own_name_of, this_user
from stategate.stores.http import from_environment
from stategate.stores.memory.long_term import LongTerm, open_long_term
from stategate.stores.memory.recall import Limits, asked_of
from stategate.stores.memory.records import Fact, Turn, Written
from stategate.stores.memory.statements import WISH_TO_FORGET, extract_statements, told_part
from stategate.stores.text import storable

Moment = float | str | date  # a datetime is a date
_FARTHEST = 6e10  # seconds from 1970: some 1,900 years
_NAMED = 4  # facts, threads and users in a message
_SENTENCES = 6  # of a turn that get vectors of their own


class MemoryPlace(BaseModel):
    """One memory: where it is, and the part of one user."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str | None = Field(
        default=None, description="file, sqlite:/// or postgresql:// URL; by default this machine's"
    )
    user: str | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        description="whose; by default the call's user_id, else the conversation's own",
    )

    def open(self) -> LongTerm:
        """Open the memory. Raises ``UserError`` where that fails."""
        return open_long_term(self.url and from_environment(self.url))

    @property
    def owner(self) -> str:
        """Whose part of the memory is read and written."""
        return storable(self.user or _OWNER.get() or this_user())


_OWNER: ContextVar[str] = ContextVar("owner", default="")


@contextmanager
def owned_by(owner: str) -> Iterator[None]:
    """Let memories that name no user be ``owner``'s; without one they are this system's user's."""
    token = _OWNER.set(owner)
    try:
        yield
    finally:
        _OWNER.reset(token)


class Memory:
    """One user's long-term memory. ``url`` is a file or database, by default this machine's."""

    def __init__(
        self,
        url: str | None = None,
        *,
        embedder: Embedder | None = None,
        user: str | None = None,
    ) -> None:
        """Open it: ``user``'s, without a name that of the system's user."""
        place = MemoryPlace(url=url, user=user)
        self.store: LongTerm = place.open()
        self.user = place.owner
        shared = shared_resources().with_models(None, MiniLM())
        self._embedder = embedder or shared.embedder

    def remember(
        self,
        text: str,
        *,
        at: Moment | None = None,
        source: str = "user",
        speaker: str = "",
        thread: str = "",
    ) -> Written:
        """Keep ``text``, said at ``at`` (now), and say what became of it: stored or refused."""
        row = {"text": text, "at": at, "source": source, "speaker": speaker, "thread": thread}
        return self.remember_all([row])[0]

    def remember_all(self, rows: Iterable[str | Mapping[str, Any]]) -> list[Written]:
        """Keep many texts, embedded together: texts, or mappings of :meth:`remember`'s arguments.

        A row may have an ``id``: the same id in the same thread is written once. Raises ``UserError``
        for a row without text or with a time that is none.
        """
        given = [{"text": row} if isinstance(row, str) else row for row in rows]
        turns = [self._parts(row) for row in given]
        texts = list(dict.fromkeys(part for _, parts in turns for part in parts))
        vectors = dict(zip(texts, self._embedder.embed(texts), strict=True)) if texts else {}
        written = []
        for row, (values, parts) in zip(given, turns, strict=True):
            first, *more = (vectors[part] for part in parts)
            turn = Turn(**values, vector=first, more=tuple(more), embedder=self._embedder.name)
            done = self.store.add(self.user, turn, gated=True)
            is_whole = done.reason or turn.text == str(row["text"]).strip()
            written.append(done if is_whole else replace(done, reason=f"without {WISH_TO_FORGET}"))
        return written

    def _parts(self, row: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
        text, speaker = str(row.get("text") or "").strip(), str(row.get("speaker") or "")
        if not text:
            raise UserError("there is nothing to remember: give a text")
        at, source = seconds(row.get("at")), str(row.get("source") or "user")
        if source == "user":  # what wishes nothing else is refused, and says so
            text = told_part(text, ("forget",)) or text
        values = {
            "thread_id": str(row.get("thread") or ""),
            "step": 0,
            "text": text,
            "episode_id": str(row.get("id") or uuid.uuid4().hex),
            "speaker": speaker,
            "at": at,
            "source": source,
            "statements": extract_statements(text, speaker, at),
        }
        return values, texts_of(text, speaker)

    def recall(
        self,
        question: str,
        *,
        as_of: Moment | None = None,
        limits: Limits | None = None,
        at: float | None = None,
        at_least: float = 0.0,
    ) -> list[Fact]:
        """Return the facts that answer ``question`` best, each with where it was told.

        ``as_of`` asks what was known and held on that day. ``at_least`` is the probability of
        answering (``Fact.support``) below which a fact is left out: with .5 nothing is an answer, too.
        """
        if not 0 <= at_least <= 1:
            raise UserError(f"at_least is a probability, from 0 to 1, not {at_least}")
        limits = replace(limits or Limits(), at_least=at_least)
        found = self.explain(question, as_of=as_of, limits=limits, at=at)
        return [fact for fact in found if not fact.left_out]

    def explain(
        self,
        question: str,
        *,
        as_of: Moment | None = None,
        limits: Limits | None = None,
        at: float | None = None,
    ) -> list[Fact]:
        """Return every fact that may answer, best first, with its signals and why it is left out."""
        if not any(map(str.isalnum, question)):
            return []
        end = None if as_of is None else end_of(as_of)
        asked = asked_of(question, self._embedder, end, at, answer_chances)
        return self.store.recall(self.user, asked, limits)

    def forget(self, **named: Any) -> int:
        """Erase facts: ``ids=[3]``, ``thread="t"``, ``source="tool:x"``, everything without any.

        In this memory alone; ``graph.forgetting`` clears the other stores, too. Raises ``UserError``,
        which lists what there is, where nothing matches.
        """
        erased = self.store.erase(self.user, **named)
        if not erased:
            raise nothing_matched(self.store, self.user, **named)
        return len(erased)


def nothing_matched(store: LongTerm, user: str, **named: Any) -> UserError:
    """Return the error that nothing of ``named`` was there; it lists what ``user`` has in its place."""
    facts = store.facts(user)
    kind, value = next(((kind, v) for kind, v in named.items() if v is not None), ("", None))
    threads = {own_name_of(fact.thread_id) or "no thread" for fact in facts}
    missing, there = {
        "ids": ("no such fact", [str(fact.id) for fact in facts]),
        "source": (f"nothing is remembered from '{value}'", sorted({f.source for f in facts})),
        "thread": (f"nothing is remembered of thread '{value}'", sorted(threads)),
    }.get(kind, ("nothing is forgotten", []))
    named_there = listed(there) or f"nothing of user '{user}' ({users_of(store)})"
    return UserError(f"{missing}: there is {named_there}")


def users_of(store: LongTerm) -> str:
    """Return whose facts there are, for a message, and how to begin where there are none."""
    named = listed(store.users())
    return f"--user names {named}" if named else "`stategate ask … --remember` adds to it"


def listed(names: Sequence[str]) -> str:
    """Return the first names, for a message, and how many more there are."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"


def texts_of(text: str, speaker: str = "") -> list[str]:
    """Return what of a turn gets a vector: all of it under its speaker's name, and its parts.

    The parts of a long text are its passages, of a short one its sentences.
    """
    parts = passages(text)
    if len(parts) < 2:
        parts = sentences_of(text)[:_SENTENCES]
    whole = f"{speaker}: {text}" if speaker else text
    return list(dict.fromkeys([whole, *(parts if len(parts) > 1 else [])]))


def seconds(at: Moment | None) -> float:
    """Return Unix seconds of a time, now of None. Raises ``UserError`` for what is none of ours."""
    if at is None:
        return time.time()
    if isinstance(at, int | float):
        if not -_FARTHEST < at < _FARTHEST:  # also of NaN
            raise UserError(f"{at} is no time: give Unix seconds, or write 2024-03-05")
        return float(at)
    try:
        moment = datetime.fromisoformat(at.isoformat() if isinstance(at, date) else at)
    except (TypeError, ValueError):
        raise UserError(f"'{at}' is no time: write 2024-03-05 or 2024-03-05T14:30") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def end_of(at: Moment) -> float:
    """Return the end of the day where ``at`` names a day alone, else the moment."""
    is_text = isinstance(at, str) and len(at.strip()) == len("2024-03-05")
    is_day = is_text or (isinstance(at, date) and not isinstance(at, datetime))
    return seconds(at) + (86400.0 - 1 if is_day else 0.0)
