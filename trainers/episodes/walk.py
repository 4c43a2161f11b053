"""An episode as the graph plays it, without the graph: for training, where thousands are needed.

A :class:`Walk` builds the same contexts as ``graph.agent`` does from the same config (tested): the
updater sees the events up to this page, the short-term memory those before it.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from envs.protocols import Observation
from nodes.build_context.render import describe
from nodes.observe.webshop import chunk_page
from nodes.protocols import BuiltContext, Chunk, ContextRequest, Decision, Params, StepRecord
from nodes.registry import registry
from nodes.resources import Resources
from nodes.retrieval.page import PageSource
from nodes.write_memory.short_term import ShortTerm
from stores.traces import Event


@dataclass(frozen=True)
class Reader:
    """How an episode is read: by which context builder, and at what budget in tokens."""

    name: str
    context: Params
    budget: int
    is_stateful: bool


class Readers:
    """Draws readers: a builder by the weights of ``builders``, at a budget even on a log scale.

    A builder is written ``KIND`` or ``KIND:FIELD=VALUE,…``.
    """

    def __init__(
        self, builders: Mapping[str, float], updater: str, low: int = 80, high: int = 2000,
        embedder: str = "minilm",
    ) -> None:  # fmt: skip
        kinds = registry()
        behind: Any = [
            kinds.parse(*slot) for slot in (("embedder", embedder), ("updater", updater))
        ]
        self.resources = Resources(None, *behind)
        self._updater = updater
        self._low, self._high = low, high
        self._weights = list(builders.values())
        self._kinds = [(text, kinds.parse("context", parse_builder(text))) for text in builders]

    def draw(self, rng: random.Random) -> Reader:
        """Return a reader."""
        (name, params), *_ = rng.choices(self._kinds, self._weights)
        budget = round(self._low * (self._high / self._low) ** rng.random())
        return self.reader(name, params, budget)

    def reader(self, name: str, params: Params, budget: int) -> Reader:
        """Return the reader with these params."""
        is_stateful = self._updater != "none" and bool(params.checkpoints(self._updater))
        return Reader(name, params, budget, is_stateful)

    def start(self, reader: Reader, instruction: str) -> "Walk":
        """Return an episode that nothing has happened in yet."""
        return Walk(self.resources, reader, instruction)


def parse_builder(text: str) -> dict[str, Any]:
    """Read "compress:allocator=uniform,query=zero_shot" as params; values are YAML."""
    import yaml

    kind, _, rest = text.partition(":")
    pairs = (item.partition("=") for item in rest.split(",") if item)
    return {"kind": kind, **{key: yaml.safe_load(value) for key, _, value in pairs}}


class Walk:
    """One episode's memory: look at a page, tell what was done there, look at the next."""

    def __init__(self, resources: Resources, reader: Reader, instruction: str) -> None:
        self.reader, self.instruction = reader, instruction
        self._resources = resources
        self._build = resources.get(reader.context)
        self._remember = ShortTerm().build(resources)
        updater = resources.updater if reader.is_stateful else None
        self._updater = updater
        self._state = updater.initial() if updater is not None else None
        self.events: tuple[Event, ...] = ()
        self.step = 0
        self._last: str | None = None

    def look(self, observation: Observation) -> BuiltContext:
        """Return what the actor reads of ``observation``; call once a step."""
        if self._updater is not None:
            seen = [] if self._last is None else [Event("ACT", self._last, self.step - 1)]
            seen.append(Event("OBS", observation.text, self.step))
            self._state = self._updater.update(self._state, seen)
        request = ContextRequest(
            instruction=self.instruction, observation=observation,
            source=PageSource(_chunks(observation), lambda: self._resources.embedder, describe),
            events=self.events, budget=self.reader.budget, state=self._state,
        )  # fmt: skip
        context: BuiltContext = self._build(request)
        return context

    def took(self, observation: Observation, action: str, outcome: Observation) -> None:
        """Remember that ``action`` was taken on ``observation`` and led to ``outcome``."""
        record = StepRecord(
            "walk", "walk", self.step, {}, self.instruction, observation, None,
            Decision(action), outcome, self.events,
        )  # fmt: skip
        self.events = tuple(self._remember(record) or ())
        self._last = action
        self.step += 1


_KNOWN: dict[tuple[str, tuple[str, ...]], list[Chunk]] = {}


def _chunks(observation: Observation) -> list[Chunk]:
    """Cut a page into chunks, once for each of the latest few thousand pages."""
    key = observation.text, observation.actions
    if observation.done:
        return chunk_page(observation)
    if key not in _KNOWN:
        if len(_KNOWN) >= 4096:
            _KNOWN.clear()
        _KNOWN[key] = chunk_page(observation)
    return _KNOWN[key]
