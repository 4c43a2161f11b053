"""An episode at a glance: its steps as a trail, the last action, and the reward with its parts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from ui.app.render.actions import action_chip
from ui.app.render.html import brief, el, percent, plural

#: The reward's parts in the paper's terms (Yao et al. 2022, section 3.1): part, weight, name.
_PARTS = (
    ("r_att", "w_att", "attributes"),
    ("r_option", "w_option", "options"),
    ("r_price", "w_price", "price"),
)


@dataclass(frozen=True)
class Stop:
    """One step as the trail shows it; ``step`` counts from 0."""

    step: int
    action: str
    context: str
    tokens: int
    seconds: float
    reason: str = ""
    fallback: str | None = None
    reward: float = 0.0
    by_hand: bool = False


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
    who = "you" if stop.by_hand else stop.context
    return f"{who} · {stop.tokens:,} tokens" + (f" · {brief(stop.seconds)}" if stop.seconds else "")


def render_action(stop: Stop | None, usage: Mapping[str, Any] | None = None) -> Markup:
    """Draw the action of a step: what was done, why, how sure, what it cost."""
    if stop is None:
        return Markup("")
    usage = usage or {}
    told = [brief(stop.seconds)] if stop.seconds else []
    told.append(plural(stop.tokens, "token") + " read")
    if usage.get("tokens_in") or usage.get("tokens_out"):
        told.append(f"model {usage['tokens_in']:,} in, {usage['tokens_out']:,} out")
    if usage.get("cost"):
        told.append(f"${usage['cost']:.4f}")
    if usage.get("attempts", 1) > 1:
        told.append(f"{usage['attempts']} attempts")
    return el(
        "div",
        el(
            "div",
            el("span", f"Step {stop.step + 1}", cls="sg-panel-title"),
            action_chip(stop.action),
            el("span", " · ".join(told), cls="sg-muted"),
            cls="sg-row",
        ),
        el("div", stop.reason, cls="sg-reason") if stop.reason else None,
        el("div", stop.fallback, cls="sg-fallback") if stop.fallback else None,
        cls="sg-action-card",
    )


def render_reward(reward: float, parts: Mapping[str, Any] | None, done: bool = True) -> Markup:
    """Draw the reward of an episode and how it came about: type × weighted parts."""
    tone = "good" if reward >= 1.0 else "warn" if reward > 0 else "bad"
    if not done:
        return el(
            "div", el("b", "Not bought"), " the step limit ended the episode: reward 0",
            cls="sg-reward sg-reward-bad", role="status",
        )  # fmt: skip
    bars = []
    parts = parts or {}
    for part, weight, name in _PARTS:
        if part not in parts:
            continue
        share, room = float(parts[part] or 0.0), float(parts.get(weight) or 0.0)
        bars.append(
            el(
                "div",
                el("span", name, cls="sg-part-name"),
                el(
                    "span", el("i", style=f"width:{percent(share)}"), cls="sg-part-bar",
                    style=f"flex-grow:{max(room, 0.05):.3f}", title=f"weight {room:.2f}",
                ),
                el("span", _told(parts[part], room), cls="sg-part-value"),
                cls="sg-part",
            )
        )  # fmt: skip
    kind = None
    if "r_type" in parts:
        kind = el("div", el("span", "type", cls="sg-part-name"), f"× {parts['r_type']:.2f}",
                  cls="sg-part", title="how far the product is of the wanted type")  # fmt: skip
    return el(
        "div",
        el("div", el("b", f"{reward:.2f}"), el("span", "reward"), cls="sg-reward-figure"),
        el("div", bars, kind, cls="sg-parts"),
        cls=f"sg-reward sg-reward-{tone}", role="status",
    )  # fmt: skip


def _told(value: Any, weight: float) -> str:
    if isinstance(value, bool):
        return f"{'yes' if value else 'no'} · weight {weight:.2f}"
    return f"{value:.2f} · weight {weight:.2f}"
