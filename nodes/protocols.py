"""The vocabulary of nodes, and one Protocol for each slot.

A node is chosen by ``kind``: a frozen pydantic params model whose ``build(resources)`` returns the
callable that does the work. Params are what configuration files, run directories and the graph's
context schema hold; what ``build`` returns may be heavy, is made once and is never stored in state.
"""

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol, SupportsFloat, TypeVar, cast, runtime_checkable

from langchain_core.messages import BaseMessage, HumanMessage
from pydantic import BaseModel, ConfigDict, Field

from stategate.envs.protocols import Chunk, Fragment, FragmentRole, Observation, Session, View
from stategate.nodes.experience.adapter import ExperienceAdapter
from stategate.stores.embeddings import Embedder as Embedder
from stategate.stores.embeddings import Vector as Vector
from stategate.stores.errors import UserError
from stategate.stores.traces import Event

T = TypeVar("T")
SLOTS = ("env", "llm", "embedder", "updater", "context", "actor", "memory")


#: Kinds of pieces that are a context's own frame, not the world's text.
FRAME = frozenset(("instruction", "status", "history", "event", "experience", "question"))


@dataclass(frozen=True)
class Step:
    """An earlier step as a prompt shows it; "" for a part that it does not show."""

    action: str
    outcome: str = ""
    note: str = ""


@dataclass(frozen=True)
class Piece:
    """One part of a built context: the shown and the dropped content of a chunk or of the frame.

    ``text`` is the piece's part of the prompt ("" if dropped), and ``fragments`` are the same text
    with the role of each stretch: joined they are ``text``. Actors read roles (:meth:`says`,
    :attr:`step`) and never the prompt; without fragments they read only ``text`` and ``actions``.
    ``actions`` are the affordances that ``text`` shows, ``tokens_before`` the size of the whole chunk,
    ``tokens_after`` that of ``text``. ``score`` is the builder's (None if it does not score),
    ``reason`` why the piece was left out, if its source says so. ``role`` is the chunk's, ``choice``
    the name of the choice that its actions settle, ``is_visited`` marks an entry opened before.
    """

    id: str
    kind: str
    text: str
    actions: tuple[str, ...]
    tokens_before: int
    tokens_after: int
    score: float | None = None
    dropped_actions: tuple[str, ...] = ()
    reason: str = ""
    role: str = ""
    choice: str = ""
    is_visited: bool = False
    fragments: tuple[Fragment, ...] = ()

    def says(self, role: FragmentRole) -> str:
        """Return the shown text of one role, "" if there is none."""
        if not self.fragments:
            is_asked = role == "instruction" and self.kind in ("instruction", "question")
            return self.text.strip() if is_asked else ""
        return "".join(f.value for f in self.fragments if f.role == role).strip()

    @property
    def step(self) -> Step | None:
        """The earlier step that the piece shows, or None."""
        if not any(f.role in ("action", "outcome") for f in self.fragments):
            return None
        return Step(self.says("action"), self.says("outcome"), self.says("note"))

    @property
    def values(self) -> dict[str, str]:
        """The status values that the piece shows, by name."""
        return {f.name: f.value for f in self.fragments if f.role == "value"}

    @property
    def done_actions(self) -> tuple[str, ...]:
        """The affordances that the piece marks as taken before."""
        return tuple(f.action for f in self.fragments if f.is_done and f.action is not None)

    def emptied(self, reason: str = "") -> "Piece":
        """Return the piece with all its text and actions dropped."""
        dropped = tuple(dict.fromkeys((*self.actions, *self.dropped_actions)))
        return replace(
            self,
            text="",
            fragments=(),
            actions=(),
            tokens_after=0,
            dropped_actions=dropped,
            reason=reason or self.reason,
        )


@dataclass(frozen=True)
class BuiltContext:
    """The prompt of one model call, and the pieces that it was rendered from.

    Invariants (checked by ``nodes.conformance``): the joined texts of ``pieces`` equal the joined
    contents of ``messages``; ``tokens`` is their size, at most the budget unless ``over_budget``: then
    the pieces that must never be dropped exceed it by themselves.
    """

    messages: tuple[BaseMessage, ...]
    pieces: tuple[Piece, ...]
    tokens: int
    over_budget: bool = False

    @property
    def actions(self) -> tuple[str, ...]:
        """The affordances that the prompt shows, in order and without repeats."""
        return tuple(dict.fromkeys(a for piece in self.pieces for a in piece.actions))

    @property
    def dropped_actions(self) -> tuple[str, ...]:
        """The affordances of the page that the model cannot see."""
        visible = set(self.actions)
        dropped = (a for piece in self.pieces for a in piece.dropped_actions)
        return tuple(dict.fromkeys(a for a in dropped if a not in visible))

    @property
    def text(self) -> str:
        """The prompt as one string."""
        return "".join(str(message.content) for message in self.messages)

    @property
    def instruction(self) -> str:
        """The shown instruction, "" if there is none."""
        return next(filter(None, (piece.says("instruction") for piece in self.pieces)), "")

    @property
    def steps(self) -> list[Step]:
        """The earlier steps that are shown, oldest first."""
        return [piece.step for piece in self.pieces if piece.step is not None]

    @property
    def status(self) -> dict[str, str]:
        """The status values that are shown, by name."""
        return {name: value for piece in self.pieces for name, value in piece.values.items()}

    def visible(self, *kinds: str) -> list[Piece]:
        """Return the pieces of these kinds that are shown."""
        return [piece for piece in self.pieces if piece.kind in kinds and piece.text]

    def plus(self, pieces: Sequence[Piece]) -> "BuiltContext":
        """Return this context with ``pieces`` appended as a new message."""
        tokens = sum(piece.tokens_after for piece in pieces)
        added = (HumanMessage("".join(piece.text for piece in pieces)),) if tokens else ()
        messages, tokens = (*self.messages, *added), self.tokens + tokens
        return BuiltContext(messages, (*self.pieces, *pieces), tokens, self.over_budget)


class Source(Protocol):
    """The candidate chunks of a context builder: those of a page, of a corpus, or of a history."""

    def all(self) -> Sequence[Chunk]:
        """Return every candidate, in page order."""
        ...

    def search(self, vector: Vector, k: int) -> list[tuple[Chunk, float]]:
        """Return the ``k`` candidates nearest to ``vector`` (cosine), best first, with scores."""
        ...


@dataclass(frozen=True)
class WorldProfile:
    """A world as nodes know it without playing it.

    ``view`` reads a page, ``experience`` words past steps. ``partially_observed``: a page shows only
    the present place, so that what earlier pages showed is nowhere but in memory.
    """

    view: View = field(default_factory=View)
    experience: ExperienceAdapter = field(default_factory=ExperienceAdapter)
    partially_observed: bool = False


@dataclass(frozen=True)
class ContextRequest:
    """The input of a context builder.

    ``events`` are the last few events before this observation, oldest first. ``state`` is the
    recurrent state's query view (float32, shape ``(d_state,)``), None if nothing is learned.
    ``budget`` is in cl100k tokens. ``profile`` reads the world's pages.
    """

    instruction: str
    observation: Observation
    source: Source
    events: tuple[Event, ...]
    budget: int
    state: Vector | None = None
    profile: WorldProfile = field(default_factory=WorldProfile)

    @property
    def view(self) -> View:
        """How the world's pages are read."""
        return self.profile.view


#: Returns what the model reads. Pure: equal requests give equal contexts.
ContextBuilder = Callable[[ContextRequest], BuiltContext]


@dataclass(frozen=True)
class Decision:
    """An actor's action, with its reason and the usage of the model.

    ``fallback`` says why the action is not the model's choice (None if it is). ``tokens_in`` and
    ``tokens_out`` are the model's usage, ``cached`` those of the former that a provider's cache held,
    ``cost`` is in US dollars (None if unknown).
    """

    action: str
    fallback: str | None = None
    reason: str = ""
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float | None = None
    attempts: int = 1
    probabilities: Mapping[str, float] = field(default_factory=dict)
    cached: int = 0


#: Returns the decision for a built context, which is all that it reads, and a step counted from 0.
Actor = Callable[[BuiltContext, int], Decision]


@runtime_checkable
class AsyncActor(Protocol):
    """An actor that also has a coroutine, for servers with many calls that wait at once."""

    async def adecide(self, context: BuiltContext, step: int) -> Decision:
        """Choose as the actor does, without keeping a thread."""
        ...


class Updater(Protocol):
    """A recurrent state of constant size, updated with each event.

    Between steps a checkpoint keeps the state in half precision: three significant digits, and no
    number beyond ±65504.
    """

    def initial(self) -> Vector | None:
        """Return the state before any event (shape ``(d_state,)``), None if nothing is kept."""
        ...

    def update(self, state: Vector | None, events: Sequence[Event]) -> Vector | None:
        """Return the state after ``events``; O(1) per event."""
        ...


@dataclass(frozen=True)
class StepRecord:
    """One finished step: the input of memory writers, and what a session's step returns.

    ``step`` counts from 0. ``turn`` is the time of events that outlive a task: the steps of the whole
    thread if its world is a conversation, else ``step``. ``seconds`` is how long a session's step took.
    """

    thread_id: str
    episode_id: str
    step: int
    task: Mapping[str, Any]
    instruction: str
    observation: Observation
    context: BuiltContext
    decision: Decision
    outcome: Observation
    events: tuple[Event, ...]
    turn: int = 0
    seconds: float = 0.0

    @property
    def reward(self) -> float:
        """The step's reward."""
        return self.outcome.reward

    @property
    def done(self) -> bool:
        """Whether the episode is over."""
        return self.outcome.done

    @property
    def tokens(self) -> int:
        """Tokens of the built context."""
        return self.context.tokens


#: Writes a finished step to a memory; idempotent by (episode, step). Returns the state's new list of
#: recent events, or None to keep the old one.
MemoryWriter = Callable[[StepRecord], Sequence[Event] | None]


class Params(BaseModel, ABC):
    """Parameters of one kind: JSON-serialisable, frozen, unknown fields refused.

    The docstring's first sentence says in plain words what the kind does: lists of kinds show it.
    ``resources`` is everywhere a ``nodes.resources.Resources``, which imports these protocols, so that
    they cannot name it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())
    slot: ClassVar[str]
    kind: str
    #: Former names of the kind, which configs may use for one more release.
    aliases: ClassVar[tuple[str, ...]] = ()
    #: Names of the worlds (``View.name``) that this node is made for; () for any.
    worlds: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def build(self, resources: Any) -> Any:
        """Return the slot's callable or object; heavy parts are made here, once."""

    @classmethod
    def hint(cls) -> str:
        """Return the one-line description: the first sentence of the docstring."""
        about = " ".join((cls.__doc__ or "").strip().split("\n\n")[0].split())
        first = re.split(r"(?<=\.)\s", about, maxsplit=1)[0].rstrip(".:")
        word, _, tail = first.replace("``", "").partition(" ")
        return f"{word.lower() if word.istitle() else word} {tail}"

    @classmethod
    def fits(cls, env: "EnvParams") -> bool:
        """Say whether this kind is worth offering in the world ``env``."""
        return not cls.worlds or env.view().name in cls.worlds

    def misfit(self, env: "EnvParams") -> str:
        """Say in one line why this node cannot work in the world ``env``, "" where it can."""
        if self.fits(env):
            return ""
        made_for = " or ".join(self.worlds) or "conversations"
        return f"{self.slot}.kind={self.kind} is made for {made_for}, not for {env.kind}"

    def checkpoints(self) -> tuple[str, ...]:
        """Name the checkpoints that this node loads, and those of the nodes inside it."""
        inner = (value for _, value in self if isinstance(value, Params))
        return tuple(name for params in inner for name in params.checkpoints())


class EnvParams(Params):
    """``build`` returns a :class:`envs.protocols.World`."""

    slot: ClassVar[str] = "env"
    #: Whether a new task on a thread goes on with its conversation: recent events are kept, and the
    #: newest human message is a task.
    conversational: ClassVar[bool] = False
    #: See :class:`WorldProfile`. If true, earlier steps are candidates for the prompt beside the page's
    #: chunks.
    partially_observed: ClassVar[bool] = False

    def view(self) -> View:
        """Return the reader of this world's pages: by default line by line."""
        return View()

    def experience(self) -> ExperienceAdapter:
        """Return the wording of this world's past steps in memories and banks: by default plain."""
        return ExperienceAdapter()

    def profile(self) -> WorldProfile:
        """Return this world as nodes know it without playing it."""
        return WorldProfile(self.view(), self.experience(), self.partially_observed)

    def source(self, observation: Observation, resources: Any) -> Source | None:
        """Return the candidate chunks, or None for those of the page."""
        return None


class LlmParams(Params):
    """``build`` returns a LangChain ``BaseChatModel``."""

    slot: ClassVar[str] = "llm"


class EmbedderParams(Params):
    """``build`` returns an :class:`Embedder`."""

    slot: ClassVar[str] = "embedder"


class UpdaterParams(Params):
    """``build`` returns an :class:`Updater`."""

    slot: ClassVar[str] = "updater"


class ContextParams(Params):
    """``build`` returns a :class:`ContextBuilder`."""

    slot: ClassVar[str] = "context"
    budget: int = Field(
        default=2000, ge=1, description="tokens (cl100k) the built context may have"
    )


class ActorParams(Params):
    """``build`` returns an :class:`Actor`."""

    slot: ClassVar[str] = "actor"
    #: Whether it asks the config's chat model.
    asks_model: ClassVar[bool] = False


class MemoryParams(Params):
    """``build`` returns a :class:`MemoryWriter`."""

    slot: ClassVar[str] = "memory"


def require(value: object, kind: type[T], params: Params, whose: str = "it returned") -> T:
    """Return a node's ``value``. Raises ``UserError`` naming the node if it is not a ``kind``."""
    if not isinstance(value, kind):
        raise _refusal(params, whose, value, f"a {kind.__name__}")
    return value


def require_page(value: object, params: EnvParams) -> tuple[Session, Observation]:
    """Return what ``reset`` or ``step`` returned. Raises ``UserError`` as :func:`require` does."""
    match value:
        case (Mapping() as session, Observation() as page):
            for text in (page.text, *page.actions):
                require(text, str, params, "its page holds")
            if not (isinstance(page.reward, SupportsFloat) and math.isfinite(page.reward)):
                raise _refusal(params, "its reward is", page.reward, "a finite number")
            return session, page
    raise _refusal(params, "it returned", value, "a session (a mapping) and an Observation")


def require_events(value: object, params: MemoryParams) -> tuple[Event, ...] | None:
    """Return what a memory writer returned. Raises ``UserError`` as :func:`require` does."""
    match value:
        case None:
            return None
        case [*events] if all(isinstance(event, Event) for event in events):
            return cast(tuple[Event, ...], tuple(events))
    raise _refusal(params, "it returned", value, "a list of Events, or None")


def _refusal(params: Params, whose: str, value: object, wanted: str) -> UserError:
    return UserError(f"{params.slot} {params.kind}: {whose} {value!r:.80}, not {wanted}")
