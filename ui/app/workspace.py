"""One browser tab's episode: its session, the steps it has seen, and the episodes it can go back to.

Every move is a method of ``graph.Session``; a workspace adds turns.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from stategate.envs.protocols import View, World
from stategate.graph.agent import Agent
from stategate.graph.config import Config
from stategate.graph.session import Preview, Session, StepResult
from stategate.graph.state import overrides_of
from stategate.nodes.protocols import ContextParams
from stategate.stores.errors import UserError
from stategate.ui.actions import titles_of
from stategate.ui.app.agents import Agents, Turns, new_thread
from stategate.ui.app.conversation import Conversation
from stategate.ui.app.html import brief

_BUSY = "a step is being taken: wait for it, or stop it"
#: Episodes and forks that a tab can go back to.
_BRANCHES = 12
#: Actors that ask a person or a script: they do not act before somebody asks for it.
_ASKED_FIRST = ("human", "scripted")


@dataclass(frozen=True)
class Seen:
    """A step as this tab saw it, and the context builder that it was read with."""

    result: StepResult
    context: ContextParams
    #: The title of what the action opened, "" where it has none.
    title: str = ""

    @property
    def facts(self) -> str:
        """Who acted, on how many tokens, for how long."""
        is_own = self.result.decision.reason == "a person's own action"
        took = f" · {brief(self.result.seconds)}" if self.result.seconds else ""
        return f"{'you' if is_own else self.context.kind} · {self.result.tokens:,} tokens{took}"


@dataclass(frozen=True)
class Branch:
    """An episode or a fork of this tab, to go back to; ``at`` is the step where a fork began."""

    session: Session
    trail: tuple[Seen, ...]
    task: str
    kind: str
    reward: float | None = None
    at: int | None = None

    @property
    def thread(self) -> str:
        """The name of its thread."""
        return self.session.thread_id


@dataclass(frozen=True)
class Ending:
    """How an episode went that was played on from a moment. ``lost`` counts unreadable commands."""

    reward: float
    done: bool
    steps: int
    tokens: int
    lost: int


class Workspace(Turns):
    """One tab's agent, episode and conversation. A second move at once is refused."""

    def __init__(self, tab: str, agents: Agents) -> None:
        super().__init__()
        self.tab, self.agents = tab, agents
        self.is_new = True  # nothing was ever started here
        self.conversation = Conversation(agents, lambda: self.config)
        self._take_agent(agents.config)

    def _take_agent(self, config: Config) -> None:
        self.graph = self.agents(config)
        self.session: Session | None = None
        self.trail: list[Seen] = []
        self.looked_at: int | None = None
        self.branches: dict[str, Branch] = {}
        self.overrides: dict[str, Any] = {}

    @property
    def agent(self) -> Agent:
        """The agent that plays, without what this tab swapped."""
        return self.graph.agent

    @property
    def config(self) -> Config:
        """The agent's config, with what this tab swapped for the running episode."""
        return self.agent.config.model_copy(update=self.overrides)

    @property
    def view(self) -> View:
        """How the tab's world is read."""
        return self.agent.resources.view

    @property
    def world(self) -> World:
        """The tab's world."""
        return self.agent.world

    @property
    def stands_at(self) -> tuple[str, int] | None:
        """The thread and how many steps of it were taken."""
        return (self.session.thread_id, len(self.trail)) if self.session is not None else None

    @property
    def acts_at_once(self) -> bool:
        """Whether the actor takes milliseconds, needs nobody, and so may act without being told to."""
        actor = self.config.actor
        return not actor.asks_model and actor.kind not in _ASKED_FIRST

    @property
    def running(self) -> Session:
        """The session. Raises ``UserError`` before there is one."""
        if self.session is None:
            raise UserError("no episode yet: choose a task")
        return self.session

    @property
    def instruction(self) -> str:
        """What the running episode asks for."""
        return self.world.instruction(self.running.values["session"])

    def start(self, task: Mapping[str, object]) -> None:
        """Begin an episode on a thread of its own."""
        with self._move():
            session = Session(self.graph, new_thread("ui"))
            session.overrides = dict(self.overrides)
            session.start(task)
            _ = session.observation  # an unknown task fails here, before the old episode is left
            self.session, self.trail, self.looked_at = session, [], None
            self.is_new = False

    def step(self) -> StepResult:
        """Let the actor take a step."""
        return self._take(lambda session: session.step())

    def act(self, action: str) -> StepResult:
        """Take a person's own action."""
        return self._take(lambda session: session.act(action))

    def back(self, n: int = 1) -> None:
        """Undo ``n`` steps."""
        with self._move():
            self.running.back(n)
            self._cut(len(self.trail) - n)

    def look(self, context: Mapping[str, object], step: int | None) -> Preview:
        """Say what a builder makes of this moment, or of where ``step`` began."""
        with self._move():
            asks = self.config.actor.kind != "human"
            return self.running.look({"context": context}, step, act=asks)

    def swap(self, slots: Mapping[str, object]) -> None:
        """Go on with other nodes in the slots of context and actor (``{"context": {...}}``)."""
        with self._move():
            self.overrides = {**self.overrides, **overrides_of(slots)}
            if self.session is not None:
                self.session.use(slots)

    def fork(self, context: Mapping[str, object] | None = None, step: int | None = None) -> None:
        """Go on from this moment (or where ``step`` began) on a copy, perhaps with other nodes."""
        with self._move():
            at = len(self.trail) if step is None else step
            self.session = self._forked(context, at)
            self.overrides = dict(self.session.overrides)
            self._cut(at)
            self._note(self.session, self.trail, at)

    def _forked(self, context: Mapping[str, object] | None, at: int) -> Session:
        now = at == len(self.trail)
        return self.running.fork(context, new_thread("ui"), None if now else at)

    def play_out(self, context: Mapping[str, object], step: int | None) -> Ending:
        """Play a copy on from this moment (or where ``step`` began) to its end, with a builder."""
        with self._move() as is_mine:
            at = len(self.trail) if step is None else step
            copy = self._forked({"context": context}, at)
            results = []
            while is_mine() and not copy.done:  # once it is left, nobody waits for it
                results.append(copy.step())
            values = copy.values
            if is_mine():
                read_with = copy.overrides["context"]
                trail = [*self.trail[:at], *(self._seen(result, read_with) for result in results)]
                self._note(copy, trail, at)
            return Ending(
                float(values["reward"]),
                bool(values["done"]),
                int(values["steps"]),
                sum(result.tokens for result in results),
                sum(len(result.context.dropped_actions) for result in results),
            )

    def go_to(self, thread: str) -> None:
        """Go back to an episode or fork of this tab. Raises ``UserError`` for an unknown one."""
        with self._move():
            if thread not in self.branches:
                raise UserError("this episode is not kept: start another one")
            branch = self.branches[thread]
            self.session, self.trail, self.looked_at = branch.session, [*branch.trail], None
            self.overrides = dict(branch.session.overrides)

    def abandon(self) -> None:
        """Leave a step that does not end: go on from before it, on a copy.

        The call that was left may still end by itself, on a thread that nobody looks at any more.
        """
        self.leave_turn()
        if self.session is not None:
            steps = len(self.trail)
            at = steps if self.session.values.get("steps", 0) > steps else None
            self.session = self.session.fork(None, new_thread("ui"), at)
            self._note(self.session, self.trail)

    def configure(self, config: Config) -> None:
        """Take another agent; the running episode, which was the old agent's, ends."""
        with self._move():
            self._take_agent(config)

    def _take(self, move: Callable[[Session], StepResult]) -> StepResult:
        with self._move() as is_mine:
            read_with = self.config.context
            result = move(self.running)
            if is_mine():
                self.trail.append(self._seen(result, read_with))
                self.looked_at = None
            return result

    def _seen(self, result: StepResult, context: ContextParams) -> Seen:
        titles = titles_of(self.view.chunks(result.observation))
        return Seen(result, context, titles.get(result.decision.action, ""))

    def _cut(self, steps: int) -> None:
        self.trail = self.trail[: max(steps, 0)]
        self.looked_at = None

    @contextmanager
    def _move(self) -> Iterator[Callable[[], bool]]:
        """Hold this tab's turn; where the episode stands is noted when the move is over."""
        with self.taking_turn(_BUSY) as is_mine:
            yield is_mine
            if is_mine() and self.session is not None:
                self._note(self.session, self.trail)

    def _note(self, session: Session, trail: Sequence[Seen], at: int | None = None) -> None:
        """Note where a session stands, so that one can go back to it; the oldest goes."""
        values = session.values
        if "session" not in values:
            return
        before = self.branches.pop(session.thread_id, None)
        context = self.agent.config.model_copy(update=session.overrides).context
        self.branches[session.thread_id] = Branch(
            session,
            tuple(trail),
            self.world.instruction(values["session"]),
            f"{context.kind} · {context.budget}",
            float(values["reward"]) if trail and session.done else None,
            at if before is None else before.at,
        )
        while len(self.branches) > _BRANCHES:
            del self.branches[next(iter(self.branches))]
