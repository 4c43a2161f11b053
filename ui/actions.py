"""Actions, tasks, costs and outcomes in people's words, for any world."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from stategate.envs.protocols import (
    Chunk,
    Observation,
    fragments_of,
    takes_text,
    target_of,
    verb_of,
)
from stategate.nodes.protocols import ActorParams, Decision


def label(action: str) -> str:
    """Return what a button for ``action`` says: its target, or its verb where it takes text."""
    return f"{verb_of(action)} …" if takes_text(action) else target_of(action)


def short(text: object, width: int = 80) -> str:
    """Fold white space and cut to ``width`` characters."""
    line = " ".join(str(text).split())
    return line if len(line) <= width else line[: width - 1].rstrip() + "…"


def who_plays(actor: ActorParams) -> str:
    """Return an actor in words, and that it is no language model where it asks none."""
    about = actor.hint()
    is_said = "model" in about or actor.asks_model
    return f"{actor.kind} ({about if is_said else f'no model: {about}'})"


def costs_of(decision: Decision) -> list[str]:
    """Return what a decision cost, but for time: the model's tokens, money, attempts."""
    costs = []
    if decision.tokens_in or decision.tokens_out:
        costs.append(f"model: {decision.tokens_in:,} tokens in, {decision.tokens_out:,} out")
    if decision.cost:
        costs.append(f"${decision.cost:.4f}")
    if decision.attempts > 1:
        costs.append(f"{decision.attempts} attempts")
    return costs


def figure(value: Any) -> str:
    """Return a part of a reward in words: a number with two digits, yes, no, or a dash for None."""
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "–"}[value]
    return f"{value:.2f}" if isinstance(value, int | float) else str(value)


def outcome_of(observation: Observation) -> dict[str, Any]:
    """Return what a finished page ended in, for people's eyes.

    ``parts`` are those of the reward: name, value, weight (or None). ``cards`` are what the world lays
    side by side: name, title, amount, facts, tags. ``unscored`` says why there is no reward, "" else.
    A world names them in ``info["outcome"]``; otherwise the parts are the values of ``info["reward"]``.
    """
    values = observation.info.get("reward")
    pairs = values.items() if isinstance(values, Mapping) else ()
    parts = [{"name": name, "value": value, "weight": None} for name, value in pairs]
    named = observation.info.get("outcome") or {}
    return {"parts": parts, "cards": (), "unscored": "", **named}


def texts_of(chunk: Chunk) -> dict[str, list[str]]:
    """Return the texts of a chunk's fragments that are no commands, by role."""
    texts: dict[str, list[str]] = {}
    for fragment in fragments_of(chunk):
        text = fragment.text.strip(" |\n")
        if fragment.action is None and text:
            texts.setdefault(fragment.role, []).append(text)
    return texts


def titles_of(chunks: Iterable[Chunk]) -> dict[str, str]:
    """Return the titles of the entries that actions open, by action: an id alone says nothing."""
    titles: dict[str, str] = {}
    for chunk in chunks:
        title = " ".join(texts_of(chunk).get("title", ())) or str(chunk.data.get("title") or "")
        if chunk.role == "entry" and title:
            titles |= dict.fromkeys(chunk.actions, title)
    return titles


def lead_of(chunk: Chunk) -> str:
    """Return what a chunk says before its commands, without its closing ``Commands:``."""
    leads = [fragment.text for fragment in fragments_of(chunk) if fragment.role == "lead"]
    return re.sub(r"(?:^[\w ]+|\s*[\w ]+:)\s*$", "", leads[0]).strip(" .") if leads else ""
