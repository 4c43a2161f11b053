"""What the Episode tab shows of a workspace: drawn parts by name, made of a session's own words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

from stategate.envs.protocols import Observation, takes_text, verb_of
from stategate.graph.session import Session
from stategate.graph.state import read_events
from stategate.nodes.protocols import BuiltContext
from stategate.ui.actions import outcome_cards, reward_parts, split_action, unscored
from stategate.ui.app.render.alignment import render_alignment
from stategate.ui.app.render.context import in_words, render_context
from stategate.ui.app.render.episode import (
    Stop,
    render_action,
    render_pipeline,
    render_reward,
    render_trail,
    render_unscored,
)
from stategate.ui.app.render.html import empty, join, macros, short
from stategate.ui.app.render.page import render_outcome, render_page
from stategate.ui.app.tabs.common import failed
from stategate.ui.app.workspace import Seen, Workspace


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
    stops, at = stops_of(workspace), workspace.looked_at
    view = Drawn(render_pipeline(_kinds_of(workspace)), steps=len(stops))
    with workspace.quiet() as is_quiet:
        if not is_quiet:
            view.has_session = view.busy = True
            view.trail = render_trail(stops, None, False)
            view.page = empty("A step is being taken", "Wait for it here, or stop it.")
        elif workspace.session is None:
            hint = "Browse the tasks above, find one by its words, or take a random one."
            view.page = empty("No episode yet", hint)
        else:
            view.has_session, view.over = True, workspace.session.done
            view.looks_back, view.by_hand = at is not None, workspace.config.actor.kind == "human"
            view.trail = render_trail(stops, at, view.over)
            if at is not None:
                _draw_past(view, workspace, workspace.trail[at])
            elif view.over:
                _draw_end(view, workspace, workspace.session)
            else:
                _draw_now(view, workspace, workspace.session)
            step = len(stops) - 1 if at is None else at
            if stops:
                decision = workspace.trail[step].result.decision
                view.side = join(render_action(stops[step], decision), view.side)
    return view


def _draw_now(view: Drawn, workspace: Workspace, session: Session) -> None:
    hidden: Sequence[str] = ()
    try:
        seen = session.look(act=False)
        observation, hidden = seen.observation, seen.context.dropped_actions
        view.side = _reading(workspace, observation, seen.context, "What the model reads now")
    except Exception as error:  # the page can be shown, and acted on, without a context
        observation = session.observation
        view.problem, view.side = error, failed(error)
    page = _page(workspace, observation, hidden=hidden, forms=workspace.slots)
    facts = workspace.resources.experience.facts(read_events(session.values), observation)
    known = [(fact.subject, fact.value) for fact in facts]
    view.page = join(page, macros("page").known(known)) if known else page


def _draw_past(view: Drawn, workspace: Workspace, seen: Seen) -> None:
    result, action = seen.result, seen.result.decision.action
    view.page = _page(
        workspace,
        result.observation,
        result.step,
        taken=action,
        live=False,
        hidden=result.context.dropped_actions,
        forms=taken_slot(action, result.observation),
    )
    view.side = _read_at(workspace, seen)


def _draw_end(view: Drawn, workspace: Workspace, session: Session) -> None:
    values, last_page = session.values, session.observation
    why = unscored(last_page)
    cards = outcome_cards(last_page)
    what = next((str(card.get("title", "")) for card in cards), "")
    reward = (
        render_unscored(what, why)
        if why
        else render_reward(values["reward"], reward_parts(last_page), values["done"])
    )
    totals = [f"{values['steps']} steps", f"{values['tokens']:,} tokens of context"]
    if values["model_tokens"]:
        totals.append(f"{values['model_tokens']:,} tokens by the model")
    page = None if cards else _page(workspace, last_page, live=False)
    view.page = join(reward, render_outcome(cards), page)
    read = _read_at(workspace, workspace.trail[-1]) if workspace.trail else None
    view.side = join(macros("parts").muted(" · ".join(totals)), read)


def _read_at(workspace: Workspace, seen: Seen) -> Markup:
    result = seen.result
    title = f"What the model read at step {result.step + 1}"
    return _reading(workspace, result.observation, result.context, title, seen.overrides)


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
        workspace.view,
        observation,
        workspace.world.instruction(session.values["session"]),
        address=address_of({"env": workspace.config.env.kind, **task}, number),
        **how,
    )


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
    asked = workspace.world.instruction(workspace.running.values["session"])
    aligned = render_alignment(workspace.view, asked, observation)
    return join(box, aligned, macros("parts").prompt(context.text))


def stops_of(workspace: Workspace) -> list[Stop]:
    """Return the steps as the trail shows them."""
    stops = []
    for step, seen in enumerate(workspace.trail):
        result, decision = seen.result, seen.result.decision
        kind = (seen.overrides.get("context") or {}).get("kind") or "agent"
        costs = (kind, result.tokens, result.seconds)
        stops.append(
            Stop(step, decision.action, *costs, decision.reason, decision.fallback, seen.by_hand)
        )
    return stops


def _kinds_of(workspace: Workspace) -> dict[str, str | list[str]]:
    config = workspace.config
    return {
        "env": config.env.kind,
        "updater": config.updater.kind,
        "context": f"{config.context.kind} · {config.context.budget}",
        "actor": config.actor.kind,
        "memory": [params.kind for params in config.memory],
    }
