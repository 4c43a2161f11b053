"""The graph's five nodes: each takes the state and returns the channels that it changes.

``agent`` is bound to the call: its thread, and the nodes that the caller swapped. A resumed run starts
its node again, so every effect is idempotent by (episode, step). ``observation``, ``context`` and
``outcome``, which no checkpoint keeps, are then computed again.
"""

import asyncio
import uuid
from dataclasses import replace
from typing import Any

from stategate.graph.agent import Agent
from stategate.graph.state import (
    State,
    conversation_update,
    pending_question,
    read_events,
    to_plain,
)
from stategate.nodes.protocols import (
    AsyncActor,
    BuiltContext,
    Decision,
    StepRecord,
    require,
    require_events,
    require_page,
)
from stategate.nodes.retrieval.remember import owned_by
from stategate.nodes.update_state import packed, unpacked
from stategate.stores.traces import Event

NODES = ("observe", "update_state", "build_context", "act", "write_memory")
Update = dict[str, Any]


def observe_world(agent: Agent, state: State) -> Update:
    """Begin the task that was passed, or return the page that the last step led to."""
    is_conversation = agent.config.env.conversational
    task = state.get("task")
    if is_conversation:
        task = task or pending_question(state)
    if task is None and state.get("session") is not None:
        observation = state.get("outcome") or agent.world.observe(state["session"])
        return {"observation": observation}
    task, env = to_plain(agent.require_task(task)), agent.config.env
    fields = {k: v for k, v in task.items() if k != "env"}
    session, observation = require_page(agent.world.reset(fields), env)
    initial: State = {
        "task": None,
        "episode": {"env": env.kind, **task},
        "episodes": state.get("episodes", 0) + 1,
        # Not derived from the thread's: other processes may have a thread of the same name.
        "episode_id": agent.episode or uuid.uuid4().hex,
        "session": to_plain(session),
        "before": None,
        "recurrent": packed(agent.updater.initial()),
        "turns": state.get("turns", 0) + state.get("steps", 0) if is_conversation else 0,
        "events": state.get("events") or [] if is_conversation else [],
        "decision": None,
        "action": None,
        "steps": 0,
        "tokens": 0,
        "model_tokens": 0,
        "fallbacks": 0,
        "reward": 0.0,
        "cost": 0.0,
        "done": observation.done,
        "info": {},
        "observation": observation,
    }
    return dict(initial)


def update_state(agent: Agent, state: State) -> Update:
    """Return the recurrent state after the last action and this observation."""
    step, last = state["steps"], state.get("action")
    instruction = agent.instruction(state["session"])
    events = [] if last is None else [Event("ACT", last, step - 1, instruction)]
    events.append(Event("OBS", agent.observation(state).text, step, instruction))
    vector = agent.updater.update(unpacked(state.get("recurrent")), events)
    return {"recurrent": packed(vector)}


def build_context(agent: Agent, state: State) -> Update:
    """Return the context that the model reads."""
    return {"context": agent.context(state)}


def choose_action(agent: Agent, state: State) -> Update:
    """Let the actor choose an action from the built context, and take it."""
    context = state.get("context") or agent.context(state)
    return _act(agent, state, context, agent.actor(context, state["steps"]))


async def achoose_action(agent: Agent, state: State) -> Update:
    """Do as :func:`choose_action`, but an async actor keeps no thread while it waits for a server."""
    context = state.get("context")
    if context is None:
        context = await asyncio.to_thread(agent.context, state)
    actor = await asyncio.to_thread(lambda: agent.actor)
    if isinstance(actor, AsyncActor):
        decision = await actor.adecide(context, state["steps"])
    else:
        decision = await asyncio.to_thread(actor, context, state["steps"])
    return await asyncio.to_thread(_act, agent, state, context, decision)


def _act(agent: Agent, state: State, context: BuiltContext, decision: Decision) -> Update:
    decision = require(decision, Decision, agent.config.actor)
    require(decision.action, str, agent.config.actor, "its action is")
    observation, actions = agent.observation(state), agent.resources.profile.view.actions
    if refusal := actions.refuses(decision.action, observation, context.instruction):
        action = actions.safe(observation.actions, context.instruction)
        decision = replace(decision, action=action, fallback=f"refused: {refusal}")
    if decision.fallback is None and not actions.accepts(decision.action, observation):
        decision = replace(decision, fallback="illegal action: nothing happened")
    return apply_decision(agent, state, decision, context)


def apply_decision(agent: Agent, state: State, decision: Decision, context: BuiltContext) -> Update:
    """Take ``decision``'s action in the world; ``before`` keeps the session for the memory writers."""
    plain = to_plain(vars(decision))
    result = agent.world.step(state["session"], plain["action"])
    session, outcome = require_page(result, agent.config.env)
    reward_parts = outcome.info.get("reward")
    return {
        "before": state["session"],
        "session": to_plain(session),
        "outcome": outcome,
        "decision": plain,
        "action": plain["action"],
        "reward": float(outcome.reward),
        "done": bool(outcome.done),
        "tokens": state["tokens"] + context.tokens,
        "model_tokens": state["model_tokens"] + plain["tokens_in"] + plain["tokens_out"],
        "cost": state["cost"] + (plain["cost"] or 0.0),
        "fallbacks": state["fallbacks"] + (decision.fallback is not None),
        "info": {"reward": to_plain(reward_parts)}
        if outcome.done and reward_parts is not None
        else {},
    }


def write_memory(agent: Agent, state: State) -> Update:
    """Give the finished step to every memory writer, and count it."""
    record = step_record(agent, state)
    events = read_events(state)
    for params in agent.config.memory:
        with owned_by(agent.owner):
            written = require_events(agent.resources.get(params)(record), params)
        events = events if written is None else written
    messages = conversation_update(record, state) if agent.config.env.conversational else {}
    return {
        **messages,
        "events": [[event.kind, event.text, event.t] for event in events],
        "steps": state["steps"] + 1,
        "before": None,
    }


def step_record(agent: Agent, state: State) -> StepRecord:
    """Return the record of the step just taken; a resumed run computes missing parts again."""
    earlier: State = {**state, "session": state["before"] or state["session"]}
    return StepRecord(
        thread_id=agent.thread or state["episode_id"],
        episode_id=state["episode_id"],
        step=state["steps"],
        task=state["episode"],
        instruction=agent.world.instruction(earlier["session"]),
        observation=agent.observation(earlier),
        context=state.get("context") or agent.context(earlier),
        decision=Decision(**(state["decision"] or {"action": state["action"] or ""})),
        outcome=state.get("outcome") or agent.world.observe(state["session"]),
        events=read_events(state),
        turn=state.get("turns", 0) + state["steps"],
    )
