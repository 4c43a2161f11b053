"""Episodes to train on: a world's course of tasks, and a walk that plays one without the graph.

A :class:`Walk` builds the same contexts as ``graph.agent`` does from the same config (tested).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stategate.envs.protocols import World
from stategate.nodes.protocols import (
    BuiltContext,
    ContextParams,
    ContextRequest,
    Decision,
    EnvParams,
    StepRecord,
)
from stategate.nodes.resources import Resources
from stategate.nodes.retrieval.page import PageSource
from stategate.nodes.write_memory.short_term import ShortTerm
from stategate.nodes.write_memory.trace import events_of
from stategate.stores.files import read_yaml
from stategate.stores.traces import Event, Trajectory

#: Returns the optimal commands where an episode stands, none where it knows none.
Teacher = Callable[["Walk"], Sequence[str]]


@dataclass(frozen=True)
class Course:
    """A world's tasks, ``training`` and ``heldout``, with a teacher.

    ``worlds`` are the same world in its modes, by name. Episodes are recorded of ``actors`` (KIND or
    KIND:FIELD=VALUE,…); tasks of one ``group`` are never on both sides of a split.
    """

    env: EnvParams
    worlds: Mapping[str, World]
    training: Sequence[Mapping[str, Any]]
    heldout: Sequence[Mapping[str, Any]]
    teacher: Teacher
    actors: Sequence[str]
    group: Callable[[Mapping[str, Any]], str]


def parse_kind(text: str) -> dict[str, Any]:
    """Read "compress:ratio=0.4,budget=900" as params; values are YAML."""
    kind, _, fields = text.partition(":")
    pairs = (item.partition("=") for item in fields.split(",") if item)
    return {"kind": kind, **{key: read_yaml(value) for key, _, value in pairs}}


class Walk:
    """One episode being played: ``look`` builds the actor's context, ``take`` steps the world.

    ``context`` builds what the actor reads; ``memory`` keeps earlier steps as the world's preset does.
    """

    def __init__(
        self,
        resources: Resources,
        world: World,
        task: Mapping[str, Any],
        context: ContextParams,
        memory: ShortTerm | None = None,
    ) -> None:
        self.world, self._resources, self._context = world, resources, context
        self._remember = (memory or ShortTerm()).build(resources)
        self.session, self.page = world.reset(task)
        self.instruction = world.instruction(self.session)
        #: What short-term memory keeps of earlier steps.
        self.memory: tuple[Event, ...] = ()
        #: Every action so far with the page that it led to, the first page with "".
        self.past: list[tuple[str, str]] = [("", self.page.text)]
        self.step = 0
        self._events: list[Event] = []
        self._actions = [self.page.actions]

    def goes_on(self, max_steps: int) -> bool:
        """Say whether there is another step to take."""
        return not self.page.done and self.step < max_steps

    def look(self, context: ContextParams | None = None) -> BuiltContext:
        """Return what the actor reads of the page, or what another ``context`` shows."""
        context, resources = context or self._context, self._resources
        source = PageSource(resources.profile, self.page, lambda: resources.embedder, self.memory)
        request = ContextRequest(
            instruction=self.instruction,
            observation=self.page,
            source=source,
            events=self.memory,
            budget=context.budget,
            state=None,
            profile=resources.profile,
        )
        built: BuiltContext = resources.get(context)(request)
        return built

    def take(self, action: str) -> None:
        """Take ``action``, and remember it with the page that it leads to."""
        before = self.page
        self.session, self.page = self.world.step(self.session, action)
        record = StepRecord(
            thread_id="walk",
            episode_id="walk",
            step=self.step,
            task={},
            instruction=self.instruction,
            observation=before,
            context=BuiltContext((), (), 0),
            decision=Decision(action),
            outcome=self.page,
            events=self.memory,
        )
        self.memory = tuple(self._remember(record) or ())
        self.past.append((action, self.page.text))
        self._events += events_of(record)
        self._actions.append(self.page.actions)
        self.step += 1

    def trajectory(
        self, name: str, task: Mapping[str, Any], agent: Mapping[str, Any]
    ) -> Trajectory:
        """Return the episode ``name`` of ``task`` as ``agent`` played it."""
        events, actions = tuple(self._events), tuple(self._actions)
        return Trajectory(name, events, self.page.reward, self.instruction, task, agent, actions)
