"""What the Episode tab shows of a workspace: drawn parts by name, made of a session's own words."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

from stategate.envs.protocols import Observation, fill, takes_text, verb_of
from stategate.graph.session import Session, StepResult
from stategate.graph.state import read_events
from stategate.nodes.protocols import BuiltContext, ContextParams
from stategate.nodes.retrieval.align import Pairing, pairings
from stategate.ui.actions import costs_of, outcome_cards, reward_parts, split_action, unscored
from stategate.ui.app.agents import Busy
from stategate.ui.app.context import in_words, render_context
from stategate.ui.app.html import brief, empty, join, macros, plural, short
from stategate.ui.app.page import render_page
from stategate.ui.app.tabs.common import failed
from stategate.ui.app.workspace import Seen, Workspace

#: Stretches of a text, each with the name of what it is about (None: of nothing).
Highlights = list[tuple[str, str | None]]


@dataclass(frozen=True)
class Stop:
    """One step as the trail shows it; ``step`` counts from 0, ``facts`` stand under the action."""

    step: int
    action: str
    facts: str = ""
    reason: str = ""
    fallback: str | None = None


@dataclass
class Drawn:
    """The tab's drawn parts, and what can be done next."""

    trail: Markup = field(default_factory=Markup)
    page: Markup = field(default_factory=Markup)
    side: Markup = field(default_factory=Markup)
    asked: Highlights = field(default_factory=list)
    is_open: bool = False  # there is a next step
    busy: bool = False
    problem: BaseException | None = None


def draw(workspace: Workspace) -> Drawn:
    """Draw where the tab's episode stands, or the step that is looked at.

    While a move is being made there is nothing to draw but the steps before it (``busy``).
    """
    stops, session, view = stops_of(workspace), workspace.session, Drawn()
    if session is None:
        hint = "Choose a task above, take a random one, or write what you want done."
        view.page = empty("No episode yet", hint)
        return view
    try:
        with workspace.taking_turn("busy"):
            _draw(view, workspace, session, stops)
    except Busy:
        view.busy = True
        view.trail = render_trail(stops, None, over=False)
        view.page = empty("A step is being taken", "Wait for it here, or stop it.")
    return view


def _draw(view: Drawn, workspace: Workspace, session: Session, stops: Sequence[Stop]) -> None:
    at, is_over = workspace.looked_at, session.done
    view.is_open = not is_over
    view.trail = render_trail(stops, at, is_over)
    if at is not None:
        _draw_past(view, workspace, workspace.trail[at])
    elif is_over:
        _draw_end(view, workspace, session)
    else:
        _draw_now(view, workspace, session)
    if stops:
        step = len(stops) - 1 if at is None else at
        action = _render_action(stops[step], workspace.trail[step].result)
        view.side = join(action, view.side)


def _draw_now(view: Drawn, workspace: Workspace, session: Session) -> None:
    hidden: Sequence[str] = ()
    try:
        seen = session.look(act=False)
        observation, hidden = seen.observation, seen.context.dropped_actions
        _read(view, workspace, observation, seen.context, "What the model reads now")
    except Exception as error:  # the page can be shown, and acted on, without a context
        observation = session.observation
        view.problem, view.side = error, failed(error)
    earlier = [a for s in workspace.trail for a in s.result.observation.actions if takes_text(a)]
    accepts = workspace.view.actions.accepts
    forms = [a for a in dict.fromkeys(earlier) if accepts(fill(a, "words"), observation)]
    page = _page(workspace, observation, hidden=hidden, forms=forms)
    experience = workspace.agent.resources.experience
    facts = experience.facts(read_events(session.values), observation)
    rows = [(fact.subject, fact.value) for fact in facts]
    view.page = join(page, macros("page").known(rows)) if rows else page


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
    _read_at(view, workspace, seen)


def _draw_end(view: Drawn, workspace: Workspace, session: Session) -> None:
    values, last_page = session.values, session.observation
    cards = outcome_cards(last_page)
    what = next((str(card.get("title", "")) for card in cards), "")
    if why := unscored(last_page):
        reward = macros("episode").unscored(what, why)
    elif values["done"]:
        reward = macros("episode").reward(values["reward"], reward_parts(last_page))
    else:
        reward = macros("episode").unfinished()
    totals = [f"{values['steps']} steps", f"{values['tokens']:,} tokens of context"]
    if values["model_tokens"]:
        totals.append(f"{values['model_tokens']:,} tokens by the model")
    cards_or_page = (
        macros("page").outcome(cards) if cards else _page(workspace, last_page, live=False)
    )
    view.page = join(reward, cards_or_page)
    if workspace.trail:
        _read_at(view, workspace, workspace.trail[-1])
    view.side = join(macros("parts").muted(" · ".join(totals)), view.side)


def _read_at(view: Drawn, workspace: Workspace, seen: Seen) -> None:
    result = seen.result
    title = f"What the model read at step {result.step + 1}"
    _read(view, workspace, result.observation, result.context, title, seen.context)


def _read(
    view: Drawn,
    workspace: Workspace,
    observation: Observation,
    context: BuiltContext,
    title: str,
    params: ContextParams | None = None,
) -> None:
    """Draw what a context shows, and which words of the task ask for which part of the page."""
    chunks, used = workspace.view.chunks(observation), params or workspace.config.context
    whole = in_words(workspace.view, chunks)
    view.side = render_context(context, used.budget, whole, title=f"{title}: {used.kind}")
    asked = workspace.instruction
    view.asked = highlighted(asked, pairings(workspace.view, asked, chunks))


def highlighted(text: str, found: Sequence[Pairing]) -> Highlights:
    """Cut ``text`` into stretches, each with the verdict on it and the part of the page it asks for."""
    cuts = {0, len(text), *(place for one in found for pair in one.places for place in pair)}
    parts: Highlights = []
    for start, end in itertools.pairwise(sorted(cuts)):
        names = [
            f"{one.verdict} {short(one.part, 44)}".strip()
            for one in found
            if any(first <= start and end <= last for first, last in one.places)
        ]
        name, said = names[0] if names else None, text[start:end]
        if name and len(parts) > 1 and parts[-1][0].isspace() and parts[-2][1] == name:
            said = parts.pop(-2)[0] + parts.pop()[0] + said
        parts.append((said, name))
    return parts if found else []


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
    values = workspace.running.values
    number = (values["steps"] if step is None else step) + 1
    task = {"env": workspace.config.env.kind, **(values.get("episode") or {})}
    address = address_of(task, number)
    return render_page(workspace.view, observation, workspace.instruction, address=address, **how)


def address_of(task: Mapping[str, Any], step: int) -> str:
    """Return where a page is: the world, the task, the step (counted from 1)."""
    parts = [f"{key} {short(value, 40)}" for key, value in task.items() if key != "env"]
    return " / ".join([str(task.get("env", "")), *parts, f"step {step}"])


def stops_of(workspace: Workspace) -> list[Stop]:
    """Return the steps as the trail shows them: who acted, on how many tokens, for how long."""
    stops = []
    for step, seen in enumerate(workspace.trail):
        result, decision = seen.result, seen.result.decision
        who = "you" if decision.reason == "a person's own action" else seen.context.kind
        took = f" · {brief(result.seconds)}" if result.seconds else ""
        facts = f"{who} · {result.tokens:,} tokens{took}"
        stops.append(Stop(step, decision.action, facts, decision.reason, decision.fallback))
    return stops


def render_trail(stops: Sequence[Stop], looked_at: int | None, over: bool) -> Markup:
    """Draw the steps taken as a strip of buttons; ``looked_at`` is the one shown (None: now)."""
    return macros("episode").trail(stops, looked_at, over) if stops else Markup("")


def _render_action(stop: Stop, result: StepResult) -> Markup:
    """Draw the action of a step: what was done, why, how sure, what it cost."""
    costs = [brief(result.seconds)] if result.seconds else []
    costs += [plural(result.tokens, "token") + " read", *costs_of(result.decision)]
    return macros("episode").action(stop, costs)


def render_pipeline(workspace: Workspace) -> Markup:
    """Draw the agent's nodes in order, each with its kind."""
    config = workspace.config
    kinds = {
        "observe": config.env.kind,
        "update_state": config.updater.kind,
        "build_context": f"{config.context.kind} · {config.context.budget}",
        "act": config.actor.kind,
        "write_memory": ", ".join(params.kind for params in config.memory) or "none",
    }
    return macros("frame").pipeline(kinds.items())
