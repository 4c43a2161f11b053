"""What the Episode tab shows of a workspace: drawn parts by name, made of a session's own words."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

from envs.protocols import Observation, takes_text, verb_of
from nodes.protocols import BuiltContext
from ui.actions import outcome_cards, reward_parts, split_action
from ui.app.render.context import in_words, render_context
from ui.app.render.episode import (
    Stop,
    render_action,
    render_pipeline,
    render_reward,
    render_trail,
)
from ui.app.render.html import empty, join, macros, short
from ui.app.render.page import render_outcome, render_page
from ui.app.tabs.common import failed
from ui.app.workspace import Seen, Workspace


@dataclass
class Drawn:
    """The tab's drawn parts, and what can be done next."""

    pipeline: Markup
    trail: Markup = field(default_factory=Markup)
    page: Markup = field(default_factory=Markup)
    side: Markup = field(default_factory=Markup)
    has_session: bool = False
    over: bool = False
    steps: int = 0
    looks_back: bool = False
    busy: bool = False
    by_hand: bool = False
    problem: BaseException | None = None


def draw(workspace: Workspace) -> Drawn:
    """Draw where the tab's episode stands, or the step that is looked at.

    While a move is being made there is nothing to draw but the steps before it (``busy``).
    """
    with workspace.quiet() as is_quiet:
        if not is_quiet:
            stops = stops_of(workspace)
            trail = render_trail(stops, None, False)
            waiting = empty("A step is being taken", "Wait for it here, or stop it.")
            return Drawn(
                render_pipeline(kinds_of(workspace)), trail, waiting,
                has_session=True, steps=len(stops), busy=True,
            )  # fmt: skip
        return _draw(workspace)


def _draw(workspace: Workspace) -> Drawn:
    pipeline = render_pipeline(kinds_of(workspace))
    session = workspace.session
    if session is None:
        hint = "Browse the tasks above, find one by its words, or take a random one."
        return Drawn(pipeline, page=empty("No episode yet", hint))
    view = Drawn(pipeline, has_session=True, over=session.done, steps=len(workspace.trail))
    view.by_hand = workspace.config.actor.kind == "human"
    stops = stops_of(workspace)
    view.trail = render_trail(stops, workspace.looked_at, view.over)
    if workspace.looked_at is not None:
        view.looks_back = True
        _draw_past(view, workspace, workspace.trail[workspace.looked_at], stops)
    elif view.over:
        _draw_end(view, workspace, stops)
    else:
        _draw_now(view, workspace, stops)
    return view


def _draw_now(view: Drawn, workspace: Workspace, stops: list[Stop]) -> None:
    session = workspace.running
    context: BuiltContext | None = None
    try:
        seen = session.look(act=False)
        observation, context = seen.observation, seen.context
        side = _reading(workspace, observation, context, "What the model reads now")
    except Exception as error:  # the page can be shown, and acted on, without a context
        observation = session.observation
        view.problem = error
        side = failed(error)
    hidden = context.dropped_actions if context is not None else ()
    view.page = _page(workspace, observation, hidden=hidden, forms=workspace.slots)
    view.side = join(_action(workspace, stops, len(stops) - 1), side)


def _draw_past(view: Drawn, workspace: Workspace, seen: Seen, stops: list[Stop]) -> None:
    result = seen.result
    action = result.decision.action
    view.page = _page(
        workspace, result.observation, result.step, taken=action, live=False,
        hidden=result.context.dropped_actions, forms=taken_slot(action, result.observation),
    )  # fmt: skip
    view.side = join(_action(workspace, stops, result.step), _read_at(workspace, seen))


def _read_at(workspace: Workspace, seen: Seen) -> Markup:
    result = seen.result
    title = f"What the model read at step {result.step + 1}"
    return _reading(workspace, result.observation, result.context, title, seen.overrides)


def _draw_end(view: Drawn, workspace: Workspace, stops: list[Stop]) -> None:
    session = workspace.running
    values = session.values
    last_page = session.observation
    reward = render_reward(values["reward"], reward_parts(last_page), values["done"])
    totals = [f"{values['steps']} steps", f"{values['tokens']:,} tokens of context"]
    if values["model_tokens"]:
        totals.append(f"{values['model_tokens']:,} tokens by the model")
    cards = outcome_cards(last_page)
    page = None if cards else _page(workspace, last_page, live=False)
    view.page = join(reward, render_outcome(cards), page)
    read = _read_at(workspace, workspace.trail[-1]) if workspace.trail else None
    sums = macros("parts").muted(" · ".join(totals))
    view.side = join(_action(workspace, stops, len(stops) - 1), sums, read)


def taken_slot(action: str, observation: Observation) -> list[str]:
    """Return the affordance of an action in words that the page did not list, if it was one."""
    verb, text = split_action(action)
    is_listed = action in observation.actions or any(
        takes_text(known) and verb_of(known) == verb for known in observation.actions
    )
    return [] if is_listed or not verb or not text else [f"{verb}[<words>]"]


def _page(
    workspace: Workspace, observation: Observation, step: int | None = None, **how: Any
) -> Markup:
    session = workspace.running
    number = (session.values["steps"] if step is None else step) + 1
    task = session.values.get("episode") or {}
    return render_page(
        workspace.view, observation, workspace.world.instruction(session.values["session"]),
        address=address_of({"env": workspace.config.env.kind, **task}, number), **how,
    )  # fmt: skip


def address_of(task: Mapping[str, Any], step: int) -> str:
    """Return where a page is: the world, the task, the step (counted from 1)."""
    parts = [f"{key} {short(value, 40)}" for key, value in task.items() if key != "env"]
    return " / ".join([str(task.get("env", "")), *parts, f"step {step}"])


def _reading(
    workspace: Workspace,
    observation: Observation,
    context: BuiltContext,
    title: str,
    overrides: Mapping[str, Any] | None = None,
) -> Markup:
    config = workspace.config
    used = (overrides or {}).get("context") or config.context.model_dump()
    whole = in_words(workspace.view, workspace.view.chunks(observation))
    budget = int(used.get("budget", config.context.budget))
    box = render_context(context, budget, whole, title=f"{title}: {used.get('kind')}")
    return join(box, macros("parts").prompt(context.text))


def _action(workspace: Workspace, stops: list[Stop], step: int) -> Markup:
    if not 0 <= step < len(stops):
        return Markup("")
    return render_action(stops[step], workspace.trail[step].result.decision)


def stops_of(workspace: Workspace) -> list[Stop]:
    """Return the steps as the trail shows them."""
    return [
        Stop(
            step=step,
            action=seen.result.decision.action,
            context=(seen.overrides.get("context") or {}).get("kind") or "agent",
            tokens=seen.result.tokens,
            seconds=seen.result.seconds,
            reason=seen.result.decision.reason,
            fallback=seen.result.decision.fallback,
            by_hand=seen.by_hand,
        )
        for step, seen in enumerate(workspace.trail)
    ]


def kinds_of(workspace: Workspace) -> dict[str, str | list[str]]:
    """Return what fills each slot now."""
    config = workspace.config
    return {
        "env": config.env.kind,
        "updater": config.updater.kind,
        "context": f"{config.context.kind} · {config.context.budget}",
        "actor": config.actor.kind,
        "memory": [params.kind for params in config.memory],
    }
