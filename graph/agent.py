"""The bodies of the graph's nodes: one agent's config bound to what it built."""

import asyncio
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from langchain_core.runnables import RunnableConfig, RunnableLambda
from langgraph.runtime import Runtime, get_runtime

from stategate.envs.protocols import Observation, World
from stategate.graph.config import Config
from stategate.graph.observed import observed
from stategate.graph.owners import caller_of, for_user, owner_of, require_no_places
from stategate.graph.state import (
    State,
    asked,
    pack_decision,
    read_events,
    require_task,
    spoken,
    turns_before,
)
from stategate.nodes.protocols import SLOTS, BuiltContext, ContextRequest, Decision, StepRecord
from stategate.nodes.registry import registry
from stategate.nodes.resources import Resources
from stategate.nodes.retrieval.memory import owned_by
from stategate.nodes.retrieval.page import PageSource
from stategate.nodes.retrieval.past import candidates
from stategate.nodes.update_state import packed, unpacked
from stategate.stores.assets.weights import find_weights
from stategate.stores.errors import MissingExtra, UserError, warn_once
from stategate.stores.text import storable
from stategate.stores.traces import Event


class Agent:
    """A config and the shared resources behind it; :meth:`bind` applies one call's overrides."""

    def __init__(self, config: Config, resources: Resources | None = None) -> None:
        self.config = config
        self.resources = resources or Resources(*config.models)
        require_fit(config)

    def node(self, name: str) -> "Callable[..., dict[str, Any]] | RunnableLambda[Any, Any]":
        """Return the graph's node ``name``: its body, on the agent that the call asks for."""

        def node(state: State, config: RunnableConfig) -> dict[str, Any]:
            agent = self._asked(config)
            with observed(name, agent.config, state, agent.thread) as note:
                update: dict[str, Any] = getattr(agent, name)(state)
                note(update)
            return update

        if name != "act":
            return node

        async def anode(state: State, config: RunnableConfig) -> dict[str, Any]:
            agent = self._asked(config)
            with observed(name, agent.config, state, agent.thread) as note:
                update = await agent.aact(state)
                note(update)
            return update

        return RunnableLambda(node, anode, name=name)

    def _asked(self, config: RunnableConfig) -> "BoundAgent":
        """Return the agent as the run of ``config`` asks for it."""
        # A caller who keeps the ledger of its episodes names them, beside the thread.
        named = config.get("configurable") or {}
        runtime: Runtime[Any] = get_runtime()
        caller = caller_of(named)
        if caller is not None:
            require_no_places(runtime.context, self.config)
        thread = named.get("thread_id")
        episode = named.get("episode_id") if caller is None else None  # or it may be another's
        return self.bound(runtime.context, runtime, thread, episode, caller, owner_of(named))

    def bound(
        self,
        overrides: Any = None,
        runtime: Runtime[Any] | None = None,
        thread: Any = None,
        episode: Any = None,
        caller: str | None = None,
        owner: str = "",
    ) -> "BoundAgent":
        """Return the agent with ``overrides`` (an ``AgentContext`` or None, as most have) applied.

        ``caller`` is the account whose long-term memory it is, where a server has accounts; ``owner``
        has those memories that name nobody (see ``graph.owners``).
        """
        changes = {slot: getattr(overrides, slot, None) for slot in SLOTS}
        changes = {slot: params for slot, params in changes.items() if params is not None}
        config, resources = self.config, self.resources
        if changes:
            config = config.model_copy(update=changes)
            require_fit(config)
            resources = resources.with_models(*config.models)
        if caller is not None:
            config = for_user(config, caller)
        return BoundAgent(config, resources, runtime, thread, episode, owner)


class BoundAgent:
    """Node bodies: state in, update out; everything heavy comes from ``resources``."""

    def __init__(
        self,
        config: Config,
        resources: Resources,
        runtime: Runtime[Any] | None,
        thread: Any,
        episode: Any,
        owner: str,
    ) -> None:
        self.config = config
        self.resources = resources
        self._runtime = runtime
        self.thread = thread
        self._episode = episode
        self._owner = owner

    @property
    def world(self) -> World:
        """The configured world."""
        world: World = self.resources.get(self.config.env)
        return world

    def observe(self, state: State) -> dict[str, Any]:
        """Start the task that was passed, or draw the current page again."""
        talks = self.config.env.conversational
        task = state.get("task") or (asked(state) if talks else None)
        if task is None and state.get("session") is not None:
            observation = self.world.observe(state["session"])
            self._tell("observe", state, page=observation.text[:200])
            return {"observation": observation}
        task = thaw(require_task(task, self.config.env))
        session, observation = self.world.reset({k: v for k, v in task.items() if k != "env"})
        episodes = state.get("episodes", 0) + 1
        # Of its own, not the thread's: a thread may be named twice, in other processes too.
        named = self._episode
        started: dict[str, Any] = {
            "task": None,
            "episode": {"env": self.config.env.kind, **task},
            "episodes": episodes,
            "episode_id": uuid.uuid4().hex if named is None else str(named),
            "session": thaw(session),
            "before": None,
            "recurrent": packed(self._updater.initial()),
            "turns": turns_before(state) if talks else 0,
            "events": state.get("events") or [] if talks else [],
            **dict.fromkeys(("decision", "action")),
            **dict.fromkeys(("steps", "tokens", "model_tokens", "fallbacks"), 0),
            **dict.fromkeys(("reward", "cost"), 0.0),
            "done": observation.done,
            "info": {},
            "observation": observation,
        }
        self._tell("observe", started, page=observation.text[:200])  # type: ignore[arg-type]
        return started

    def update_state(self, state: State) -> dict[str, Any]:
        """Fold the last action and this observation into the recurrent state."""
        step = state["steps"]
        last = state.get("action")
        asked = self.world.instruction(state["session"])
        events = [] if last is None else [Event("ACT", last, step - 1, asked)]
        events.append(Event("OBS", self.observation(state).text, step, asked))
        vector = self._updater.update(unpacked(state.get("recurrent")), events)
        self._tell("update_state", state, events=len(events))
        return {"recurrent": packed(vector)}

    def build_context(self, state: State) -> dict[str, Any]:
        """Build what the model gets to read."""
        context = self.context(state)
        facts = [p for p in context.pieces if p.kind == "fact"]
        told = [{"id": p.id, "score": p.score, "left_out": p.reason} for p in facts]
        recalled = {"recalled": told} if told else {}
        kind = self.config.context.kind
        self._tell("build_context", state, kind=kind, tokens=context.tokens, **recalled)
        return {"context": context}

    def act(self, state: State) -> dict[str, Any]:
        """Choose an action and take it; the session that it led from is kept for the memory."""
        context = state.get("context") or self.context(state)
        actor = self.resources.get(self.config.actor)
        return self._chosen(state, context, actor(context, state["steps"]))

    async def aact(self, state: State) -> dict[str, Any]:
        """Do as :meth:`act` does; an actor that waits for a server keeps no thread meanwhile."""
        context = state.get("context")
        if context is None:
            context = await asyncio.to_thread(self.context, state)
        actor = await asyncio.to_thread(self.resources.get, self.config.actor)
        if (decide := getattr(actor, "adecide", None)) is not None:
            decision = await decide(context, state["steps"])
        else:
            decision = await asyncio.to_thread(actor, context, state["steps"])
        return await asyncio.to_thread(self._chosen, state, context, decision)

    def _chosen(self, state: State, context: BuiltContext, decision: Decision) -> dict[str, Any]:
        if not isinstance(decision, Decision) or not isinstance(decision.action, str):
            kind = self.config.actor.kind
            raise UserError(
                f"actor {kind}: it returned {decision!r:.80}, not a Decision with an action (a text)"
            )
        legal = self.accepts(decision.action, self.observation(state))
        if decision.fallback is None and not legal:
            decision = replace(decision, fallback="illegal action: nothing happened")
        self._tell("act", state, action=decision.action, fallback=decision.fallback)
        return self.taken(state, decision, context)

    def taken(self, state: State, decision: Decision, context: BuiltContext) -> dict[str, Any]:
        """Return the update that ``decision`` makes (also used for a person's own action)."""
        decision = replace(
            decision, action=storable(decision.action), reason=storable(decision.reason)
        )
        session, outcome = self.world.step(state["session"], decision.action)
        parts = outcome.info.get("reward")
        return {
            "before": state["session"],
            "session": thaw(session),
            "decision": pack_decision(decision),
            "action": decision.action,
            "reward": float(outcome.reward),
            "done": bool(outcome.done),
            "tokens": state["tokens"] + context.tokens,
            "model_tokens": state["model_tokens"] + decision.tokens_in + decision.tokens_out,
            "cost": state["cost"] + (decision.cost or 0.0),
            "fallbacks": state["fallbacks"] + (decision.fallback is not None),
            "info": {"reward": thaw(parts)} if outcome.done and parts is not None else {},
        }

    def write_memory(self, state: State) -> dict[str, Any]:
        """Give the finished step to every writer; counts the step."""
        record = self.record(state)
        events = read_events(state)
        for params in self.config.memory:
            with owned_by(self._owner):
                recent = self.resources.get(params)(record)
            events = events if recent is None else tuple(recent)
        self._tell("write_memory", state, reward=state["reward"], done=state["done"])
        said = spoken(record, state) if self.config.env.conversational else {}
        return {
            **said,
            "events": [event.to_list() for event in events],
            "steps": state["steps"] + 1,
            "before": None,
        }

    def record(self, state: State) -> StepRecord:
        """Describe the step just taken, drawing again what a resumed run no longer has."""
        earlier: State = {**state, "session": state["before"] or state["session"]}
        earlier.pop("observation", None)
        earlier.pop("context", None)
        observation = state.get("observation") or self.observation(earlier)
        decision = Decision(**(state["decision"] or {"action": state["action"] or ""}))
        return StepRecord(
            thread_id=str(self.thread or state["episode_id"]),
            episode_id=state["episode_id"],
            step=state["steps"],
            task=state["episode"],
            instruction=self.world.instruction(earlier["session"]),
            observation=observation,
            context=state.get("context") or self.context(earlier),
            decision=decision,
            outcome=self.world.observe(state["session"]),
            events=read_events(state),
            turn=state.get("turns", 0) + state["steps"],
        )

    def observation(self, state: State) -> Observation:
        """Return this step's observation, drawn again if the run was resumed."""
        return state.get("observation") or self.world.observe(state["session"])

    def context(self, state: State) -> BuiltContext:
        """Build the context of this step from state alone (builders are pure)."""
        observation, resources = self.observation(state), self.resources
        source = self.config.env.source(observation, resources)
        if source is None:
            page = PageSource(resources.view, observation, lambda: resources.embedder)
            source = candidates(
                page,
                read_events(state),
                getattr(self.config.context, "past", "world"),
                resources.view,
                lambda: resources.embedder,
                resources.partially_observed,
            )
        request = ContextRequest(
            self.world.instruction(state["session"]),
            observation,
            source,
            read_events(state),
            self.config.context.budget,
            unpacked(state.get("recurrent")),
            resources.profile,
        )
        with owned_by(self._owner):
            context: BuiltContext = resources.get(self.config.context)(request)
        return context

    def accepts(self, action: str, observation: Observation) -> bool:
        """Say whether the world will take ``action``."""
        return self.resources.view.actions.accepts(action, observation)

    @property
    def _updater(self) -> Any:
        """The configured updater; where its packages are missing the agent plays without a state.

        What cannot do without one says so when it is built (``context.kind=retrieve``).
        """
        try:
            return self.resources.get(self.config.updater)
        except MissingExtra as missing:
            warn_once(f"no recurrent state: {missing}")
            return self.resources.get(registry().parse("updater", "none"))

    def _tell(self, node: str, state: State, **facts: Any) -> None:
        """Stream one line of progress to whoever listens with ``stream_mode="custom"``."""
        if self._runtime is not None:
            self._runtime.stream_writer({"node": node, "step": state.get("steps", 0), **facts})


def require_fit(config: Config) -> None:
    """Check that every node can work in the configured world, and that named weights are there.

    Raises ``UserError`` naming the fix.
    """
    kind = config.updater.kind
    for name in (*config.updater.checkpoints(kind), *config.actor.checkpoints(kind)):
        find_weights(name)
    for params in (config.updater, config.context, config.actor, *config.memory):
        if problem := params.misfit(config.env):
            name, kinds = config.env.view().name, registry().kinds(params.slot)
            fits = [kind for kind, k in kinds.items() if not k.cls.worlds or name in k.cls.worlds]
            raise UserError(
                f"{problem}: set {params.slot}.kind to one of {', '.join(sorted(fits))}"
            )


def thaw(value: Any) -> Any:
    """Return a session (or any JSON-like value) as plain dicts and lists, for checkpoints.

    Its texts are such that every store takes them (see ``stores.text.storable``).
    """
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, Mapping):
        return {storable(str(key)): thaw(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [thaw(item) for item in value]
    return value
