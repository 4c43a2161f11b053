"""What one browser tab works with: its agent, its session, and the steps it has seen.

A workspace only keeps things together: every move is a method of ``graph.Session``. It belongs to the
tab that named it, is found again after a reload, and is found again after the server's restart through
the checkpointer.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, cast

from envs.protocols import Observation, View, World, fill, takes_text
from graph.agent import Agent
from graph.build import Graph
from graph.config import Config, load_config
from graph.session import Preview, Session, StepResult
from nodes.resources import Resources
from stores.errors import UserError
from ui.app.tab_sessions import OpenTabs, TabSessions, Turns, new_thread

#: Slots that one may change in the middle of an episode (a session's overrides).
SWAPPABLE = ("context", "actor")
_BUSY = "a step is being taken: wait for it, or stop it"


@dataclass(frozen=True)
class Seen:
    """A step as this tab saw it, and the overrides that it was taken with."""

    result: StepResult
    overrides: Mapping[str, Any]

    @property
    def by_hand(self) -> bool:
        """Whether a person took the step."""
        return self.result.decision.reason == "a person's own action"


class Workspace(Turns):
    """One tab's agent and episode. Moves take turns; a second one at once is refused."""

    def __init__(self, tab: str, graph: Graph, tabs: TabSessions | None = None) -> None:
        super().__init__()
        self.tab = tab
        self.graph = graph
        self.session: Session | None = None
        self.trail: list[Seen] = []
        self.looked_at: int | None = None
        self.pausing = False
        self.lanes: list[Any] = []
        self.compared_at: int | None = None
        self.compared_page: Observation | None = None
        self.compared_label = ""
        self._tabs = tabs
        self._overrides: dict[str, Any] = {}
        self.is_new = True  # nothing was ever started here

    @property
    def config(self) -> Config:
        """The agent's config, with what this tab swapped for the running episode."""
        return self._agent.config.model_copy(update=self.overrides)

    @property
    def _agent(self) -> Agent:
        return cast(Agent, self.graph.agent)  # type: ignore[attr-defined]

    @property
    def view(self) -> View:
        """How the tab's world is read."""
        return self.resources.view

    @property
    def resources(self) -> Resources:
        """What the tab's agent has built, and its models."""
        return self._agent.resources

    @property
    def world(self) -> World:
        """The tab's world."""
        return self._agent.bound(None).world

    @property
    def slots(self) -> list[str]:
        """Affordances that take words, of earlier pages, that the world takes on this one, too."""
        here = self.running.observation
        seen = [a for step in self.trail for a in step.result.observation.actions if takes_text(a)]
        actions = self.view.actions
        return [a for a in dict.fromkeys(seen) if actions.accepts(fill(a, "words"), here)]

    @property
    def moment(self) -> int | None:
        """The step that is compared at (None: now)."""
        at = self.compared_at
        return at if at is not None and at < len(self.trail) else None

    @property
    def overrides(self) -> dict[str, Any]:
        """The slots that this tab swapped, by name."""
        return dict(self.session.overrides if self.session is not None else self._overrides)

    @property
    def running(self) -> Session:
        """The session. Raises ``UserError`` before there is one."""
        if self.session is None:
            raise UserError("no episode yet: choose a task")
        return self.session

    def start(self, task: Mapping[str, Any]) -> None:
        """Begin an episode on a thread of its own."""
        with self._move(optional=True):
            session = Session(self.graph, new_thread("ui"), context=_dumped(self._overrides))
            session.start(task)
            _ = session.observation  # an unknown task fails here, before the old episode is left
            self.session, self.trail, self.looked_at = session, [], None
            self.lanes, self.compared_at = [], None
            self.is_new = False

    def step(self) -> StepResult:
        """Let the actor take a step."""
        return self._take(lambda session: session.step())

    def act(self, action: str) -> StepResult:
        """Take a person's own action."""
        return self._take(lambda session: session.act(action))

    def back(self, n: int = 1) -> None:
        """Undo ``n`` steps."""
        with self._move() as session:
            session.back(n)
            self._cut(len(self.trail) - n)

    def look(self, context: Mapping[str, Any], step: int | None) -> Preview:
        """Say what a builder makes of this moment, or of where ``step`` began."""
        with self._move() as session:
            asks = self.config.actor.kind != "human"
            preview: Preview = session.look({"context": context}, step, act=asks)
            return preview

    def swap(self, slots: Mapping[str, Any]) -> None:
        """Go on with other nodes in :data:`SWAPPABLE` slots (``{"context": {...}}``)."""
        if self.session is None:
            self._overrides.update(Session(self.graph, "unused", context=slots).overrides)
            return
        with self._move() as session:
            session.use(slots)
            self._overrides.update(session.overrides)

    def fork(self, context: Mapping[str, Any] | None = None, step: int | None = None) -> None:
        """Go on from this moment (or where ``step`` began) on a copy, perhaps with other nodes."""
        with self._move() as session:
            at = len(self.trail) if step is None else step
            now = at == len(self.trail)
            self.session = session.fork(context, new_thread("ui"), None if now else at)
            self._overrides.update(self.session.overrides)
            self._cut(at)

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
        with self._move(optional=True):
            self.graph, self.session, self.trail = graph, None, []
            self.looked_at, self._overrides = None, {}

    def restore(self, kept: Mapping[str, Any]) -> None:
        """Find the episode again that :meth:`_keep` wrote down, through the checkpointer."""
        self.is_new = False
        overrides = kept.get("overrides") or {}
        self._overrides = Session(self.graph, "unused", context=overrides).overrides
        if not kept.get("thread"):
            return
        session = Session(self.graph, str(kept["thread"]), context=overrides)
        if "session" in session.values:
            read_with = {i: step["overrides"] for i, step in enumerate(kept.get("steps") or ())}
            steps = session.replay(read_with)
            self.session = session
            self.trail = [Seen(result, read_with.get(result.step, {})) for result in steps]

    def _take(self, move: Any) -> StepResult:
        with self._move() as session:
            turn = self._turn
            overrides = {"context": self.config.context.model_dump(mode="json")}
            overrides |= _dumped(session.overrides)
            result: StepResult = move(session)
            if self._turn is turn:  # not left in the meantime
                self.trail.append(Seen(result, overrides))
                self.looked_at = None
            return result

    def _cut(self, steps: int) -> None:
        self.trail = self.trail[: max(steps, 0)]
        self.looked_at = None

    @contextmanager
    def _move(self, optional: bool = False) -> Iterator[Any]:
        """Hold this tab's turn; the episode is kept when the move is over."""
        with self.taking_turn(_BUSY) as is_mine:
            try:
                yield self.session if optional else self.running
            finally:
                if is_mine():
                    self._keep()

    def _keep(self) -> None:
        if self._tabs is None:
            return
        values = {
            "config": self._agent.config.model_dump(mode="json"),
            "thread": self.session.thread_id if self.session is not None else None,
            "overrides": _dumped(self.overrides),
            "steps": [{"overrides": dict(seen.overrides)} for seen in self.trail],
        }
        self._tabs.write(self.tab, values)


class Workspaces(OpenTabs[Workspace]):
    """All tabs of one server. ``graphs`` builds (or remembers) the graph of a config."""

    def __init__(self, config: Config, graphs: Any, tabs: TabSessions | None = None) -> None:
        super().__init__(self._found)
        self.config, self.graphs, self._tabs = config, graphs, tabs

    def _found(self, tab: str) -> Workspace:
        saved = self._tabs.read(tab) if self._tabs is not None else None
        if saved is not None:
            # Where its plug-in, data or checkpoints are gone, the tab begins again.
            with suppress(UserError, KeyError, TypeError):
                workspace = Workspace(tab, self.graphs(load_config(saved["config"])), self._tabs)
                workspace.restore(saved)
                return workspace
        return Workspace(tab, self.graphs(self.config), self._tabs)


def _dumped(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return overrides as plain values."""
    return {
        slot: [item.model_dump(mode="json") for item in value]
        if isinstance(value, list | tuple)
        else value.model_dump(mode="json")
        for slot, value in overrides.items()
    }
