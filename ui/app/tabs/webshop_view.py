"""What the WebShop tab shows of a workspace: drawn parts by name, made of a session's own words."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

from envs.protocols import Observation
from nodes.protocols import BuiltContext
from ui.app.render.context import render_context
from ui.app.render.episode import Stop, render_action, render_reward, render_trail
from ui.app.render.frame import render_pipeline
from ui.app.render.html import el, empty, join
from ui.app.render.page import render_page
from ui.app.tabs.common import failed
from ui.app.workspace import Seen, Workspace


@dataclass
class View:
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
    problem: BaseException | None = None


def draw(workspace: Workspace) -> View:
    """Draw where the tab's episode stands, or the step that is looked at.

    While a move is being made there is nothing to draw but the steps before it (``busy``).
    """
    with workspace.quiet() as is_quiet:
        if not is_quiet:
            stops = [stop_of(seen, i) for i, seen in enumerate(workspace.trail)]
            trail = render_trail(stops, None, False)
            told = empty("A step is being taken", "Wait for it here, or stop it.")
            return View(
                render_pipeline(kinds_of(workspace)), trail, told,
                has_session=True, steps=len(stops), busy=True,
            )  # fmt: skip
        return _draw(workspace)


def _draw(workspace: Workspace) -> View:
    pipeline = render_pipeline(kinds_of(workspace))
    session = workspace.session
    if session is None:
        hint = "Pick a goal above, take a random one, or write what you want to buy."
        return View(pipeline, page=empty("No episode yet", hint))
    view = View(pipeline, has_session=True, over=session.done, steps=len(workspace.trail))
    stops = [stop_of(seen, i) for i, seen in enumerate(workspace.trail)]
    view.trail = render_trail(stops, workspace.looked_at, view.over)
    if workspace.looked_at is not None:
        view.looks_back = True
        _draw_past(view, workspace, workspace.stopped(workspace.looked_at), stops)
    elif view.over:
        _draw_end(view, workspace, stops)
    else:
        _draw_now(view, workspace, stops)
    return view


def _draw_now(view: View, workspace: Workspace, stops: list[Stop]) -> None:
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
    view.page = _page(
        workspace, observation, session.values["session"],
        hidden=context.dropped_actions if context is not None else (),
    )  # fmt: skip
    last = _action(workspace, stops, len(stops) - 1)
    view.side = join([last, side])


def _draw_past(view: View, workspace: Workspace, seen: Seen, stops: list[Stop]) -> None:
    result = seen.result
    view.page = _page(
        workspace, result.observation, workspace.running.values["session"],
        taken=result.decision.action, hidden=result.context.dropped_actions, live=False,
    )  # fmt: skip
    title = f"What the model read at step {result.step + 1}"
    view.side = join(
        [
            _action(workspace, stops, result.step),
            _reading(workspace, result.observation, result.context, title, seen.overrides),
        ]
    )


def _draw_end(view: View, workspace: Workspace, stops: list[Stop]) -> None:
    session = workspace.running
    values = session.values
    parts = (values.get("info") or {}).get("reward")
    reward = render_reward(values["reward"], parts, values["done"])
    totals = el(
        "div",
        f"{values['steps']} steps · {values['tokens']:,} tokens of context"
        + (f" · {values['model_tokens']:,} tokens by the model" if values["model_tokens"] else ""),
        cls="sg-muted",
    )
    page = _page(workspace, session.observation, values["session"], live=False)
    view.page = join([reward, receipt(workspace), page if not values["done"] else None])
    last = workspace.trail[-1] if workspace.trail else None
    read = None
    if last is not None:
        title = f"What the model read at step {len(stops)}"
        found = last.result
        read = _reading(workspace, found.observation, found.context, title, last.overrides)
    view.side = join([_action(workspace, stops, len(stops) - 1), totals, read])


def receipt(workspace: Workspace) -> Markup:
    """Draw what was bought beside what was asked for (facts of the world, after the end)."""
    session = workspace.running.values["session"]
    world = workspace.running.agent.bound(None).world
    products, goals = getattr(world, "products", {}), getattr(world, "goals", [])
    bought = products.get(session.get("asin"))
    wanted = goals[session["goal"]] if session.get("goal") is not None else None
    if bought is None:
        return Markup("")
    columns = [_bill("Bought", bought.name, bought.price_tag, session.get("options") or {}, ())]
    if wanted is not None:
        options = wanted["goal_options"]
        pairs = options if isinstance(options, Mapping) else dict(enumerate(options))
        limit = f"below ${wanted['price_upper']:.2f}" if wanted["price_upper"] > 0 else ""
        columns.append(_bill("Wanted", wanted["name"], limit, pairs, wanted["attributes"]))
    return el("div", columns, cls="sg-receipt")


def _bill(head: str, name: str, price: str, options: Mapping[Any, Any], words: Any) -> Markup:
    chips = [el("span", f"{key}: {value}", cls="sg-chip") for key, value in options.items()]
    chips += [el("span", word, cls="sg-chip sg-chip-soft") for word in words]
    return el(
        "div",
        el("div", head, cls="sg-panel-title"),
        el("div", name, cls="sg-card-title"),
        el("div", price, cls="sg-price"),
        el("div", chips, cls="sg-row"),
        cls="sg-bill",
    )


def _page(
    workspace: Workspace, observation: Observation, session: Mapping[str, Any], **how: Any
) -> Markup:
    config = workspace.config
    world = workspace.running.agent.bound(None).world
    kind = str(session.get("page") or "page") if how.get("live", True) else "page"
    return render_page(
        config.env.chunk(observation), world.instruction(session),
        address=f"{config.env.kind} / {kind}", **how,
    )  # fmt: skip


def _reading(
    workspace: Workspace,
    observation: Observation,
    context: BuiltContext,
    title: str,
    overrides: Mapping[str, Any] | None = None,
) -> Markup:
    config = workspace.config
    used = (overrides or {}).get("context") or config.context.model_dump()
    box = render_context(
        context, int(used.get("budget", config.context.budget)), config.env.chunk(observation),
        title=f"{title}: {used.get('kind')}",
    )  # fmt: skip
    prompt = el(
        "details", el("summary", "the prompt as text"), el("pre", context.text), cls="sg-prompt"
    )
    return join([box, prompt])


def _action(workspace: Workspace, stops: list[Stop], step: int) -> Markup:
    if not 0 <= step < len(stops):
        return Markup("")
    decision = workspace.trail[step].result.decision
    return render_action(stops[step], vars(decision))


def stop_of(seen: Seen, step: int) -> Stop:
    """Return a step as the trail shows it."""
    result = seen.result
    context = seen.overrides.get("context") or {}
    return Stop(
        step=step,
        action=result.decision.action,
        context=str(context.get("kind", "")) or "agent",
        tokens=result.tokens,
        seconds=result.seconds,
        reason=result.decision.reason,
        fallback=result.decision.fallback,
        reward=result.reward,
        by_hand=seen.by_hand,
    )


def kinds_of(workspace: Workspace) -> dict[str, str | list[str]]:
    """Return what fills each slot now."""
    config = workspace.config
    kinds: dict[str, str | list[str]] = {
        slot: getattr(config, slot).kind for slot in ("env", "updater", "context", "actor")
    }
    kinds["context"] = f"{config.context.kind} · {config.context.budget}"
    kinds["memory"] = [params.kind for params in config.memory]
    return kinds
