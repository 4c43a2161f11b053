"""An agent: a config and the resources built for it."""

import copy
import json
from collections.abc import Mapping
from typing import Any

from stategate.envs.protocols import Observation, Session, World, complete
from stategate.graph.config import Config
from stategate.graph.state import State, memory_owner, read_events
from stategate.nodes.models.reader import read_by_model
from stategate.nodes.protocols import Actor, BuiltContext, ContextRequest, Updater, require
from stategate.nodes.registry import registry
from stategate.nodes.resources import Resources
from stategate.nodes.retrieval.page import PageSource
from stategate.nodes.retrieval.remember import owned_by
from stategate.nodes.update_state import unpacked
from stategate.stores.assets.weights import find_weights
from stategate.stores.errors import MissingExtra, UserError, warn_once


class Agent:
    """A config and its resources, bound to the thread of one call.

    Raises ``UserError`` with the fix if a node does not fit the world, or its weights are missing.

    The compiled graph's agent is bound to none; :meth:`for_call` returns the one of a call, with the
    nodes that the caller swapped.
    """

    def __init__(self, config: Config, resources: Resources | None = None) -> None:
        for params in (config.updater, config.context, config.actor, *config.memory):
            for name in params.checkpoints():
                find_weights(name)
            if problem := params.misfit(config.env):
                fits = registry().fitting(params.slot, config.env)
                others = ", ".join(kind for kind in fits if kind != params.kind)
                raise UserError(f"{problem}: set {params.slot}.kind to one of {others}")
        self.config = config
        self.resources = resources or Resources(*config.models)
        #: The thread's id, the episode's id if the caller chose it, and the owner of its memory.
        self.thread: str | None = None
        self.episode: str | None = None
        self.owner = ""

    def for_call(self, overrides: Mapping[str, Any], configurable: Mapping[str, Any]) -> "Agent":
        """Return the agent of one call: ``overrides`` are params by slot; built nodes are shared."""
        agent = copy.copy(self)
        changes = {slot: params for slot, params in overrides.items() if params is not None}
        if changes:
            config = self.config.model_copy(update=changes)
            agent = Agent(config, self.resources.with_models(*config.models))
        thread, episode = configurable.get("thread_id"), configurable.get("episode_id")
        agent.thread = None if thread is None else str(thread)
        agent.episode = None if episode is None else str(episode)
        agent.owner = memory_owner(configurable)
        return agent

    @property
    def world(self) -> World:
        """The configured world. Raises ``UserError`` if it lacks a member of ``World``."""
        return complete(self.resources.get(self.config.env))

    @property
    def actor(self) -> Actor:
        """The configured actor."""
        actor: Actor = self.resources.get(self.config.actor)
        return actor

    @property
    def updater(self) -> Updater:
        """The configured updater, or ``none`` (with a warning) if its packages are missing.

        A kind that needs a state (``context.kind=retrieve``) raises when it is built.
        """
        try:
            updater: Updater = self.resources.get(self.config.updater)
        except MissingExtra as missing:
            warn_once(f"no recurrent state: {missing}")
            updater = self.resources.get(registry().parse("updater", "none"))
        return updater

    @property
    def example_task(self) -> str:
        """The world's first task as JSON, for messages that ask for one."""
        first = next(iter(self.world.tasks()), {})
        return json.dumps({"question": "..."} if self.config.env.conversational else dict(first))

    def require_task(self, task: object) -> dict[str, Any]:
        """Return ``task``. Raises ``UserError`` naming the form, or the world that it is for."""
        if not isinstance(task, dict):
            raise UserError(f'give a task: {{"task": {self.example_task}}}')
        env = self.config.env.kind
        if (kind := task.get("env", env)) != env:
            raise UserError(f"the task is for env '{kind}', but this agent's env is '{env}'")
        return task

    def instruction(self, session: Session) -> str:
        """Return the instruction, parsed by the chat model first with ``reader: model``."""
        text = require(self.world.instruction(session), str, self.config.env, "its instruction is")
        if self.config.reader == "model":
            read_by_model(self.resources, text)
        return text

    def observation(self, state: State) -> Observation:
        """Return this step's observation, rendered again from the session if the run was resumed."""
        return state.get("observation") or self.world.observe(state["session"])

    def context(self, state: State) -> BuiltContext:
        """Build the context of this step from state alone (builders are pure)."""
        observation, resources = self.observation(state), self.resources
        source = self.config.env.source(observation, resources)
        if source is None:
            source = PageSource(
                resources.profile, observation, lambda: resources.embedder, read_events(state)
            )
        request = ContextRequest(
            self.instruction(state["session"]),
            observation,
            source,
            read_events(state),
            self.config.context.budget,
            unpacked(state.get("recurrent")),
            resources.profile,
        )
        with owned_by(self.owner):
            context = resources.get(self.config.context)(request)
        return require(context, BuiltContext, self.config.context)
