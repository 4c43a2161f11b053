"""Recorded episodes for training: split into sides, read decision by decision as an agent would.

A :class:`Walk` builds the same contexts as ``graph.agent`` does from the same config (tested).
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stategate.envs.protocols import View, World
from stategate.nodes.protocols import (
    BuiltContext,
    ContextRequest,
    Decision,
    Embedder,
    EnvParams,
    Params,
    StepRecord,
)
from stategate.nodes.registry import registry
from stategate.nodes.resources import Resources
from stategate.nodes.retrieval.page import PageSource
from stategate.nodes.write_memory.short_term import ShortTerm
from stategate.nodes.write_memory.trace import events_of
from stategate.stores.errors import UserError
from stategate.stores.files import read_yaml
from stategate.stores.traces import Event, Trajectory, read_trajectories
from stategate.trainers.settings import RecordedSettings

#: Says which commands are good where an episode stands; none where there is no good one.
Teacher = Callable[["Walk"], Sequence[str]]


@dataclass(frozen=True)
class Course:
    """What to play in a world to learn from.

    ``worlds`` are the same world in its modes, by name; ``exams`` are tasks held out; ``teacher`` says
    which commands are good. Episodes are recorded of ``actors`` (KIND or KIND:FIELD=VALUE,…); tasks of
    one ``group`` are never on both sides of a split.
    """

    env: EnvParams
    worlds: Mapping[str, World]
    training: Sequence[Mapping[str, Any]]
    exams: Sequence[Mapping[str, Any]]
    teacher: Teacher
    actors: Sequence[str]
    group: Callable[[Mapping[str, Any]], str]


#: Episodes to fit, to choose by, and to report on (perhaps none).
Sides = tuple[list[Trajectory], list[Trajectory], list[Trajectory]]


def read_sides(settings: RecordedSettings) -> Sides:
    """Read the trajectories and split them. Raises ``UserError`` where there are too few groups."""
    recorded = read_trajectories(settings.data)
    fitted, validation = split_by_group(recorded, settings.validation, settings.seed)
    if not fitted or not validation:
        raise UserError(f"'{settings.data}' is too small to split: record more episodes")
    return fitted, validation, read_trajectories(settings.heldout) if settings.heldout else []


def split_by_group(
    trajectories: Sequence[Trajectory], share: float, seed: int
) -> tuple[list[Trajectory], list[Trajectory]]:
    """Split into (training, validation): about ``share`` of the groups validate."""
    groups = sorted(set(map(group_of, trajectories)))
    random.Random(seed).shuffle(groups)
    count = max(1, round(share * len(groups))) if len(groups) > 1 else 0
    validation = set(groups[:count])
    return (
        [t for t in trajectories if group_of(t) not in validation],
        [t for t in trajectories if group_of(t) in validation],
    )


def group_of(trajectory: Trajectory) -> str:
    """Return what an episode hangs together with: the group that its agent names, else itself."""
    return str(trajectory.agent.get("group") or trajectory.episode_id)


def view_of(settings: RecordedSettings, sides: Sides) -> View:
    """Return how the episodes' world is read. Raises ``UserError`` unless they all name one world."""
    worlds = sorted({str(t.task.get("env", "")) for side in sides for t in side})
    if len(worlds) != 1 or not worlds[0]:
        raise UserError(f"'{settings.data}': give episodes of one world, not of {worlds}")
    params = registry().parse("env", worlds[0])
    assert isinstance(params, EnvParams)  # noqa: S101 - the slot's kinds are
    return params.view()


def embedder_of(settings: RecordedSettings) -> Embedder:
    """Return the embedder, which depends on no world."""
    return Resources(None, registry().parse("embedder", settings.embedder)).embedder  # type: ignore[arg-type]


def make_resources(env: EnvParams) -> Resources:
    """Return resources without a model: words are hashed, no state is kept."""
    kinds = registry()
    behind: Any = kinds.parse("embedder", "hashing"), kinds.parse("updater", "none"), env
    return Resources(None, *behind)


@dataclass(frozen=True)
class Reader:
    """How an episode is read: by which context builder, and at what budget in tokens."""

    context: Params
    budget: int


class Readers:
    """Draws readers: a builder by the weights of ``builders``, at a budget even on a log scale.

    A builder is written ``KIND`` or ``KIND:FIELD=VALUE,…``.
    """

    def __init__(
        self,
        builders: Mapping[str, float],
        resources: Resources,
        low: int = 80,
        high: int = 2000,
        memory: Mapping[str, Any] | None = None,
    ) -> None:
        self.resources = resources
        #: What is kept of earlier steps, as the preset of the world keeps it.
        self.remember = ShortTerm(**(memory or {})).build(resources)
        self._low, self._high = low, high
        self._weights = list(builders.values())
        parse = registry().parse
        self._kinds = [parse("context", parse_kind(text)) for text in builders]

    def draw(self, rng: random.Random) -> Reader:
        """Return a reader."""
        (params,) = rng.choices(self._kinds, self._weights)
        return Reader(params, round(self._low * (self._high / self._low) ** rng.random()))


def parse_kind(text: str) -> dict[str, Any]:
    """Read "compress:ratio=0.4,budget=900" as params; values are YAML."""
    kind, _, fields = text.partition(":")
    pairs = (item.partition("=") for item in fields.split(",") if item)
    return {"kind": kind, **{key: read_yaml(value) for key, _, value in pairs}}


class Walk:
    """One episode as it is played, from its reset on: look at the page, take an action, look again."""

    def __init__(
        self, readers: Readers, reader: Reader, world: World, task: Mapping[str, Any]
    ) -> None:
        self.reader, self.world, self._readers = reader, world, readers
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

    def look(self, reader: Reader | None = None) -> BuiltContext:
        """Return what the actor (or another ``reader``) reads of the page."""
        reader, resources = reader or self.reader, self._readers.resources
        source = PageSource(resources.profile, self.page, lambda: resources.embedder, self.memory)
        request = ContextRequest(
            instruction=self.instruction,
            observation=self.page,
            source=source,
            events=self.memory,
            budget=reader.budget,
            state=None,
            profile=resources.profile,
        )
        context: BuiltContext = resources.get(reader.context)(request)
        return context

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
            context=None,
            decision=Decision(action),
            outcome=self.page,
            events=self.memory,
        )
        self.memory = tuple(self._readers.remember(record) or ())
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
