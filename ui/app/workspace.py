"""One browser tab's episode: its session, and the steps that the tab has seen.

Every move is a method of ``graph.Session``; a workspace lets the moves of its tab take turns.
"""

import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from stategate.envs.protocols import Chunk, View, World
from stategate.graph.config import Config
from stategate.graph.session import Preview, Session
from stategate.graph.state import overrides_of, read_events
from stategate.nodes.protocols import ContextParams, StepRecord
from stategate.nodes.registry import registry
from stategate.nodes.retrieval.page import past_chunks
from stategate.stores.errors import UserError
from stategate.stores.home import new_thread
from stategate.ui.actions import titles_of
from stategate.ui.app.agents import Agents, Conversation
from stategate.ui.app.html import brief


@dataclass(frozen=True)
class Seen:
    """A step as this tab saw it, and the context builder that it was read with."""

    result: StepRecord
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
class Lane:
    """One builder at the moment: what it built and what the actor would do, or why not."""

    params: Mapping[str, Any]
    seen: Preview | None = None
    problem: str = ""
    waiting: bool = False
    ending: Mapping[str, Any] | None = None

    @property
    def hint(self) -> str:
        """What this kind of builder does, in one line."""
        return registry().parse("context", self.params).hint()


@dataclass
class Comparison:
    """What is compared: of a thread and its steps, at ``step`` (None: now)."""

    of: tuple[str, int] | None = None
    step: int | None = None
    lanes: list[Lane] = field(default_factory=list)


class Workspace:
    """One tab's agent, episode and conversation. Whoever holds ``turn`` makes a move."""

    def __init__(self, agents: Agents) -> None:
        self.agents, self._comparison = agents, Comparison()
        self.turn = threading.RLock()
        #: Set while a run of several steps shall end after the one that is being taken.
        self.is_stopping = False
        self.conversation = Conversation(agents)
        #: Whether the flow line and Settings show the conversation's agent, not the episode's.
        self.is_asking = False
        self._take_agent(agents.episodes)
        #: The world and the budget that Compare's boxes were last set for.
        self.boxes = (self.config.env.kind, self.config.context.budget)

    def _take_agent(self, config: Config) -> None:
        self.graph = self.agents(config)
        #: The agent that plays, without what this tab swapped.
        self.agent = self.graph.agent
        self.session: Session | None = None
        self.trail: list[Seen] = []
        self.looked_at: int | None = None
        self.overrides: dict[str, Any] = {}

    @property
    def config(self) -> Config:
        """The agent's config, with what this tab swapped for the running episode."""
        return self.agent.config.model_copy(update=self.overrides)

    @property
    def shown(self) -> Config:
        """The config that the flow line and Settings show."""
        return self.conversation.config if self.is_asking else self.config

    @property
    def view(self) -> View:
        """How the tab's world is read."""
        return self.agent.resources.profile.view

    @property
    def world(self) -> World:
        """The tab's world."""
        return self.agent.world

    @property
    def comparison(self) -> Comparison:
        """What is compared where the tab stands; where it stood before goes."""
        here = None if self.session is None else (self.session.thread_id, len(self.trail))
        if self._comparison.of != here:
            self._comparison = Comparison(here)
        return self._comparison

    @property
    def acts_at_once(self) -> bool:
        """Whether the actor takes milliseconds, needs nobody, and so may act without being told to."""
        actor = self.config.actor
        return not actor.asks_model and actor.kind not in ("human", "scripted")

    @property
    def running(self) -> Session:
        """The session. Raises ``UserError`` before there is one."""
        if self.session is None:
            raise UserError("no episode yet: choose a task")
        return self.session

    @property
    def instruction(self) -> str:
        """What the running episode asks for, "" before there is one."""
        session = self.session
        return "" if session is None else self.world.instruction(session.values["session"])

    @property
    def past(self) -> list[Chunk]:
        """The earlier steps as chunks, where a world shows only a part of itself."""
        is_partial = self.agent.resources.profile.partially_observed
        return past_chunks(read_events(self.running.values)) if is_partial else []

    def start(self, task: Mapping[str, object]) -> None:
        """Begin an episode on a thread of its own."""
        with self.turn:
            session = Session(self.graph, new_thread("ui"), context=self.overrides)
            session.start(task)
            _ = session.observation  # an unknown task fails here, before the old episode is left
            self.session, self.trail, self.looked_at = session, [], None

    def step(self, action: str | None = None) -> StepRecord:
        """Let the actor take a step, or take a person's own ``action``."""
        with self.turn:
            session = self.running
            result = session.step() if action is None else session.act(action)
            titles = titles_of(self.view.chunks(result.observation))
            seen = Seen(result, self.config.context, titles.get(result.decision.action, ""))
            self.trail.append(seen)
            self.looked_at = None
            return result

    def back(self) -> None:
        """Undo a step."""
        with self.turn:
            self.running.back()
            del self.trail[-1:]
            self.looked_at = None

    def look(self, context: Mapping[str, object], step: int | None) -> Preview:
        """Say what a builder makes of this moment, or of where ``step`` began."""
        with self.turn:
            asks = self.config.actor.kind != "human"
            return self.running.look({"context": context}, step, act=asks)

    def swap(self, slots: Mapping[str, object]) -> None:
        """Go on with other nodes in the slots of context and actor (``{"context": {...}}``)."""
        with self.turn:
            self.overrides = {**self.overrides, **overrides_of(slots)}
            if self.session is not None:
                self.session.use(slots)

    def fork(self, context: Mapping[str, object], step: int | None = None) -> None:
        """Go on from this moment (or where ``step`` began) on a copy with another builder."""
        with self.turn:
            self.session = self.running.fork({"context": context}, new_thread("ui"), step)
            self.overrides = dict(self.session.overrides)
            self.trail, self.looked_at = self.trail[:step], None

    def play_out(self, context: Mapping[str, object], step: int | None) -> dict[str, Any]:
        """Play a copy on from this moment (or where ``step`` began) to its end, with a builder.

        Returns reward, done, steps, the tokens that were read, and how many commands were lost.
        """
        with self.turn:
            copy, results = self.running.fork({"context": context}, new_thread("ui"), step), []
            while not (self.is_stopping or copy.done):
                results.append(copy.step())
            values = copy.values
            return {
                "reward": float(values["reward"]),
                "done": bool(values["done"]),
                "steps": int(values["steps"]),
                "tokens": sum(result.tokens for result in results),
                "lost": sum(len(result.context.dropped_actions) for result in results),
            }

    def configure(self, config: Config) -> None:
        """Take another agent, and begin the episode again; in another world its first task.

        A world that cannot be opened is told before the old one is left.
        """
        with self.turn:
            _ = self.agents(config).agent.world
            task = dict(self.session.values.get("episode") or {}) if self.session else {}
            self._take_agent(config)
            if task.pop("env", None) == config.env.kind and task:
                self.start(task)
            else:
                self.open_first()

    def open_first(self) -> None:
        """Begin the first task, one step in: memories then have something to choose from."""
        # A world that must be asked is left alone: one starts by hand.
        with self.turn, suppress(UserError):
            tasks = self.world.tasks()
            if self.session is None and tasks:
                self.start(tasks[min(3, len(tasks) - 1)])
                if self.acts_at_once:
                    self.step()
