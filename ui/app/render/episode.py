"""An episode at a glance: its steps as a trail, the last action, and the reward with its parts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from nodes.protocols import Decision
from ui.actions import costs_of, figure
from ui.app.render.actions import action_chip
from ui.app.render.html import brief, el, percent, plural


@dataclass(frozen=True)
class Stop:
    """One step as the trail shows it; ``step`` counts from 0."""

    step: int
    action: str
    context: str = ""
    tokens: int = 0
    seconds: float = 0.0
    reason: str = ""
    fallback: str | None = None
    by_hand: bool = False
    #: What stands under the action, where it is not who acted, on how many tokens, for how long.
    facts: str = ""


def render_trail(stops: Sequence[Stop], looked_at: int | None, over: bool) -> Markup:
    """Draw the steps taken as a strip of buttons; ``looked_at`` is the one shown (None: now)."""
    if not stops:
        return Markup("")
    marks = []
    for stop in stops:
        here = stop.step == looked_at
        marks.append(
            el(
                "button",
                el("span", str(stop.step + 1), cls="sg-stop-number"),
                action_chip(stop.action),
                el("span", _facts(stop), cls="sg-stop-facts"),
                type="button", data_look=str(stop.step),
                cls="sg-stop" + (" sg-here" if here else "")
                + (" sg-stop-bad" if stop.fallback else ""),
                aria_pressed=str(here).lower(),
                title=stop.fallback or stop.reason or None,
            )
        )  # fmt: skip
    label = "the end" if over else "now"
    marks.append(
        el(
            "button", label, type="button", data_look="now",
            cls="sg-stop sg-now" + (" sg-here" if looked_at is None else ""),
            aria_pressed=str(looked_at is None).lower(),
        )
    )  # fmt: skip
    return el("div", marks, cls="sg-trail", role="group", aria_label="steps of this episode")


def _facts(stop: Stop) -> str:
    if stop.facts:
        return stop.facts
    who = "you" if stop.by_hand else stop.context
    return f"{who} · {stop.tokens:,} tokens" + (f" · {brief(stop.seconds)}" if stop.seconds else "")


def render_action(stop: Stop, decision: Decision) -> Markup:
    """Draw the action of a step: what was done, why, how sure, what it cost."""
    costs = [brief(stop.seconds)] if stop.seconds else []
    costs += [plural(stop.tokens, "token") + " read", *costs_of(decision)]
    return el(
        "div",
        el(
            "div",
            el("span", f"Step {stop.step + 1}", cls="sg-panel-title"),
            action_chip(stop.action),
            el("span", " · ".join(costs), cls="sg-muted"),
            cls="sg-row",
        ),
        el("div", stop.reason, cls="sg-reason") if stop.reason else None,
        el("div", stop.fallback, cls="sg-fallback") if stop.fallback else None,
        cls="sg-action-card",
    )


def render_reward(
    reward: float, parts: Sequence[Mapping[str, Any]] = (), done: bool = True
) -> Markup:
    """Draw the reward of an episode and its parts (name, value, weight): weighted ones as bars."""
    tone = "good" if reward >= 1.0 else "warn" if reward > 0 else "bad"
    if not done:
        return el(
            "div", el("b", "Not finished"), " the step limit ended the episode: reward 0",
            cls="sg-reward sg-reward-bad", role="status",
        )  # fmt: skip
    lines = [_part(p["name"], p["value"], p.get("weight")) for p in parts]
    return el(
        "div",
        el("div", el("b", f"{reward:.2f}"), el("span", "reward"), cls="sg-reward-figure"),
        el("div", lines, cls="sg-parts"),
        cls=f"sg-reward sg-reward-{tone}", role="status",
    )  # fmt: skip


def _part(name: str, value: Any, weight: float | None) -> Markup:
    title = el("span", name, cls="sg-part-name")
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if weight is None:
        return el("div", title, "× " if is_number else "", figure(value), cls="sg-part")
    bar = el(
        "span", el("i", style=f"width:{percent(float(value or 0.0))}"), cls="sg-part-bar",
        style=f"flex-grow:{max(weight, 0.05):.3f}", title=f"weight {weight:.2f}",
    )  # fmt: skip
    shown = el("span", f"{figure(value)} · weight {weight:.2f}", cls="sg-part-value")
    return el("div", title, bar, shown, cls="sg-part")
