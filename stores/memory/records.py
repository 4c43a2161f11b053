"""What long-term memory keeps: a turn as it is written, a fact as it is read."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from stategate.stores.embeddings import Vector

#: How far a source is trusted unless told otherwise: what the user says, what the agent answers, and
#: text from outside, which is data whatever it says.
TRUST: Mapping[str, float] = {"user": 1.0, "agent": 0.6, "document": 0.2, "tool": 0.2}
#: Below this a fact neither closes nor merges with a trusted one, and prompts mark it.
TRUSTED = 0.5


@dataclass(frozen=True)
class Statement:
    """What a turn states, and since when (Unix seconds); a standing wish says how to answer."""

    text: str
    since: float
    is_wish: bool = False


@dataclass(frozen=True)
class Turn:
    """What somebody told, and where and when. ``vector`` is that of all of it, unit length.

    ``about`` is what a turn that points back into its conversation is about ("" for others): without
    it a fact would be unreadable in another conversation. ``more`` are vectors of sentences, by which a
    long turn is found, too.
    """

    thread_id: str
    episode_id: str
    step: int
    text: str
    vector: Vector
    embedder: str
    at: float | None = None
    about: str = ""
    speaker: str = ""
    source: str = "user"
    statements: tuple[Statement, ...] = ()
    more: tuple[Vector, ...] = ()


@dataclass(frozen=True)
class Fact:
    """A turn as it is remembered; times in Unix seconds.

    ``text`` can be read outside its conversation. ``score`` is its nearness to what was asked (cosine),
    ``support`` the calibrated probability that it answers (``recall.answer_chance``): where no fact has
    much of it, nothing is known. ``passage`` is the part of a long text that is nearest to what was
    asked, of a short one all of it. ``signals`` are what recall ranked it by, ``left_out`` says why it
    is not shown ("" if it is).

    ``valid_to`` is when later turns ended all that it states (None: it holds), ``closed_by`` the fact
    that ended the last of it. ``ended`` are its sentences that ended while others hold: when,
    which, and by which fact.
    """

    id: int
    text: str
    thread_id: str
    episode_id: str
    step: int
    at: float
    speaker: str = ""
    source: str = "user"
    trust: float = 1.0
    valid_from: float | None = None
    valid_to: float | None = None
    closed_by: int | None = None
    ended: tuple[tuple[float, str, int], ...] = ()
    score: float = 0.0
    support: float = 0.0
    passage: str = ""
    signals: Mapping[str, float] = field(default_factory=dict, hash=False)
    left_out: str = ""


@dataclass(frozen=True)
class Written:
    """What became of a turn: ``stored``, ``refused`` or ``repeated``.

    ``closed`` are the facts that it ended.
    """

    outcome: str
    fact: int | None = None
    reason: str = ""
    closed: tuple[int, ...] = ()
