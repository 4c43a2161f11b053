"""One browser tab's episode: its session, the steps it has seen, and the episodes it can go back to.

Every move is a method of ``graph.Session``; a workspace adds turns, and writes down what leads back to
the episode after a reload or the server's restart.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import Any

from stategate.envs.protocols import View, World
from stategate.graph.agent import Agent
from stategate.graph.build import Graph
from stategate.graph.config import Config, load_config
from stategate.graph.session import Preview, Session, StepResult
from stategate.graph.state import overrides_of
from stategate.stores.errors import UserError
from stategate.ui.app.sessions import OpenTabs, TabSessions, Turns, new_thread

_BUSY = "a step is being taken: wait for it, or stop it"
#: Episodes and forks that a tab can go back to.
_BRANCHES = 12
#: Actors that ask a person or a script: they do not act before somebody asks for it.
_ASKED_FIRST = ("human", "scripted")
#: Values of swapped slots, as plain values.
Overrides = Mapping[str, Any]


@dataclass(frozen=True)
class Seen:
    """A step as this tab saw it, and the overrides that it was taken with."""

    result: StepResult
    overrides: Overrides


@dataclass(frozen=True)
class Branch:
    """An episode or a fork of this tab: its thread, and what one has to know to go back to it.

    ``read_with`` holds the overrides of each step, ``at`` the step where a fork left another branch.
    """

    thread: str
    task: str
    kind: str
    overrides: Overrides
    read_with: Sequence[Overrides] = ()
    reward: float | None = None
    at: int | None = None


@dataclass(frozen=True)
class Ending:
    """How an episode went that was played on from a moment. ``lost`` counts unreadable commands."""

    reward: float
    done: bool
    steps: int
    tokens: int
    lost: int


class Workspace(Turns):
    """One tab's agent and episode. Moves take turns; a second one at once is refused."""

    def __init__(self, tab: str, graph: Graph, tabs: TabSessions | None = None) -> None:
        super().__init__()
        self.tab, self._tabs = tab, tabs
        self.is_new = True  # nothing was ever started here
        self._take_agent(graph)

    def _take_agent(self, graph: Graph) -> None:
        self.graph = graph
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

    def start(self, task: Mapping[str, Any]) -> None:
        """Begin an episode on a thread of its own."""
        with self._move():
            session = Session(self.graph, new_thread("ui"), context=_plain(self.overrides))
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

    def look(self, context: Mapping[str, Any], step: int | None) -> Preview:
        """Say what a builder makes of this moment, or of where ``step`` began."""
        with self._move():
            asks = self.config.actor.kind != "human"
            return self.running.look({"context": context}, step, act=asks)

    def swap(self, slots: Mapping[str, Any]) -> None:
        """Go on with other nodes in the slots of context and actor (``{"context": {...}}``)."""
        with self._move():
            self.overrides = {**self.overrides, **overrides_of(slots)}
            if self.session is not None:
                self.session.use(slots)

    def fork(self, context: Mapping[str, Any] | None = None, step: int | None = None) -> None:
        """Go on from this moment (or where ``step`` began) on a copy, perhaps with other nodes."""
        with self._move():
            at = len(self.trail) if step is None else step
            self.session = self._forked(context, at)
            self.overrides = dict(self.session.overrides)
            self._cut(at)
            self._note(self.session, [seen.overrides for seen in self.trail], None, at)

    def _forked(self, context: Mapping[str, Any] | None, at: int) -> Session:
        now = at == len(self.trail)
        return self.running.fork(context, new_thread("ui"), None if now else at)

    def play_out(self, context: Mapping[str, Any], step: int | None) -> Ending:
        """Play a copy on from this moment (or where ``step`` began) to its end, with a builder."""
        with self._move() as is_mine:
            at = len(self.trail) if step is None else step
            copy = self._forked({"context": context}, at)
            results = []
            for result in copy.iterate():
                results.append(result)
                if not is_mine():  # left: nobody waits for it
                    break
            values = copy.values
            if is_mine():
                read_with = [seen.overrides for seen in self.trail[:at]]
                read_with += [_plain(copy.overrides)] * len(results)
                self._note(copy, read_with, float(values["reward"]), at)
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
            self._resume(thread)

    def _resume(self, thread: str) -> None:
        branch = self.branches.get(thread)
        if branch is None:
            raise UserError("this episode is not kept: start another one")
        session = Session(self.graph, thread, context=branch.overrides)
        if "session" not in session.values:
            raise UserError("the checkpoints of this episode are gone: start another one")
        known = dict(enumerate(branch.read_with))
        self.trail = [Seen(r, known.get(r.step, {})) for r in session.replay(known)]
        self.session, self.looked_at = session, None
        self.overrides = dict(session.overrides)

    def abandon(self) -> None:
        """Leave a step that does not end: go on from before it, on a copy.

        The call that was left may still end by itself, on a thread that nobody looks at any more.
        """
        self.leave_turn()
        if self.session is not None:
            steps = len(self.trail)
            at = steps if self.session.values.get("steps", 0) > steps else None
            self.session = self.session.fork(None, new_thread("ui"), at)
            self._keep()

    def configure(self, graph: Graph) -> None:
        """Take another agent; the running episode, which was the old agent's, ends."""
        with self._move():
            self._take_agent(graph)

    def restore(self, kept: Mapping[str, Any]) -> None:
        """Find the episode again that :meth:`_keep` wrote down, through the checkpointer."""
        self.is_new = False
        self.overrides = overrides_of(kept["overrides"])
        self.branches = {row["thread"]: Branch(**row) for row in kept["branches"]}
        if kept["thread"] in self.branches:
            with suppress(UserError):  # its checkpoints are gone
                self._resume(kept["thread"])

    def _take(self, move: Callable[[Session], StepResult]) -> StepResult:
        with self._move() as is_mine:
            overrides = {"context": self.config.context.model_dump(mode="json")}
            overrides |= _plain(self.overrides)
            result = move(self.running)
            if is_mine():
                self.trail.append(Seen(result, overrides))
                self.looked_at = None
            return result

    def _cut(self, steps: int) -> None:
        self.trail = self.trail[: max(steps, 0)]
        self.looked_at = None

    @contextmanager
    def _move(self) -> Iterator[Callable[[], bool]]:
        """Hold this tab's turn; the episode is kept when the move is over."""
        with self.taking_turn(_BUSY) as is_mine:
            yield is_mine
            if is_mine():
                self._keep()

    def _note(
        self,
        session: Session,
        read_with: Sequence[Overrides],
        reward: float | None,
        at: int | None = None,
    ) -> None:
        """Write down where a session stands, so that one can go back to it; the oldest goes."""
        before = self.branches.pop(session.thread_id, None)
        context = self.agent.config.model_copy(update=session.overrides).context
        self.branches[session.thread_id] = Branch(
            session.thread_id,
            self.world.instruction(session.values["session"]),
            f"{context.kind} · {context.budget}",
            _plain(session.overrides),
            [dict(overrides) for overrides in read_with],
            reward,
            at if before is None else before.at,
        )
        while len(self.branches) > _BRANCHES:
            del self.branches[next(iter(self.branches))]

    def _keep(self) -> None:
        """Note where the episode stands, and write down what leads back to it."""
        session = self.session
        if session is not None and "session" in session.values:
            is_over = bool(self.trail) and session.done
            reward = float(session.values["reward"]) if is_over else None
            self._note(session, [seen.overrides for seen in self.trail], reward)
        if self._tabs is not None:
            values = {
                "config": self.agent.config.model_dump(mode="json"),
                "thread": session.thread_id if session is not None else None,
                "overrides": _plain(self.overrides),
                "branches": [asdict(branch) for branch in self.branches.values()],
            }
            self._tabs.write(self.tab, values)


class Workspaces(OpenTabs[Workspace]):
    """All tabs of one server. ``graphs`` builds (or remembers) the graph of a config."""

    def __init__(
        self, config: Config, graphs: Callable[[Config], Graph], tabs: TabSessions | None = None
    ) -> None:
        super().__init__(self._found)
        self.config, self.graphs, self._tabs = config, graphs, tabs

    def _found(self, tab: str) -> Workspace:
        saved = self._tabs.read(tab) if self._tabs is not None else {}
        if saved:
            # Where its plug-in, data or checkpoints are gone, the tab begins again.
            with suppress(UserError, KeyError, TypeError):
                workspace = Workspace(tab, self.graphs(load_config(saved["config"])), self._tabs)
                workspace.restore(saved)
                return workspace
        return Workspace(tab, self.graphs(self.config), self._tabs)


def _plain(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return overrides of context and actor as plain values."""
    return {slot: params.model_dump(mode="json") for slot, params in overrides.items()}
