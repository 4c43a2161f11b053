"""``search_heuristic`` finds things in rooms by fixed rules.

It makes context builders comparable over hundreds of games: what a builder drops of the past, this
actor does not know. It reads the instruction, the lines of earlier steps, the page and the commands,
and decides as the expert does (``envs.alfworld.expert``). A place marked as done counts as one that was
looked at, where nothing asked for was seen.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import ClassVar, Literal

from stategate.envs.alfworld.expert import (
    Goal,
    Knowledge,
    decide,
    goal_here,
    knowledge_of,
)
from stategate.envs.alfworld.reading import command_of, kind_of
from stategate.envs.alfworld.view import AlfWorldActions
from stategate.nodes.protocols import Actor, ActorParams, BuiltContext, Decision
from stategate.nodes.resources import Resources


class SearchHeuristic(ActorParams):
    """Search, take, change and put by rule (see the module's docstring)."""

    hint: ClassVar[str] = "no model: searches rooms by fixed rules over what it can read"
    kind: Literal["search_heuristic"] = "search_heuristic"
    worlds: ClassVar[tuple[str, ...]] = ("alfworld",)

    def build(self, resources: Resources) -> Actor:
        """Return the actor; nothing is loaded."""
        return seek


def seek(context: BuiltContext, step: int) -> Decision:
    """Choose among the readable commands."""
    instruction = context.instruction
    knowledge = _knowledge(context, context.actions)
    for place in _marked(context):
        knowledge.seen.setdefault(place, [])
        knowledge.tried.setdefault(f"go to {place}", 1)
    knowledge.hand = context.status.get("in hand", knowledge.hand)
    goal = goal_here(instruction, knowledge, context.actions)
    usual = _remembered(context, goal) | _usual(context, goal.thing)
    action, reason = decide(instruction, knowledge, context.actions, usual)
    if action:
        return Decision(action, reason=reason)
    return Decision(
        AlfWorldActions().safe(context.actions, instruction), fallback=reason or "nothing to do"
    )


def _usual(context: BuiltContext, goal_thing: str) -> dict[str, float]:
    """Return how often experience saw the goal's thing, by kind of place; a past step counts once."""
    usual: defaultdict[str, float] = defaultdict(float)
    pieces = context.visible("experience")
    for lesson in (f for piece in pieces for f in piece.fragments if f.role == "lesson"):
        if lesson.amount is None:
            command = command_of(lesson.name)
            if command.verb in ("go", "open", "take"):
                usual[command.place] += 1.0
        else:
            thing, _, place = lesson.name.partition(" at ")
            usual[place] += lesson.amount if thing == goal_thing else 0.0
    return {place: count for place, count in usual.items() if count}


def _remembered(context: BuiltContext, goal: Goal) -> dict[str, float]:
    """Return the likelihood of each place to hold the goal's thing, by memories of earlier episodes.

    The place where it was last seen comes first, then earlier places, then places of the same kind.
    """
    likely: dict[str, float] = {}
    for piece in context.visible("fact"):
        place, _, things = (piece.says("said") or piece.says("fact")).partition(" holds ")
        kinds = {kind_of(thing) for thing in things.split(", ")}
        if kinds & {goal.thing, goal.target if goal.is_light else goal.thing}:
            weight = 0.8 if piece.says("until") else 1.0
            for name, worth in ((place, weight), (kind_of(place), weight / 2)):
                likely[name] = max(likely.get(name, 0.0), worth)
    return likely


def _knowledge(context: BuiltContext, actions: Sequence[str]) -> Knowledge:
    """Return the knowledge of the rooms that the visible steps and page give."""
    page = " ".join(piece.text.strip() for piece in context.visible("said"))
    return knowledge_of([(step.action, step.outcome) for step in context.steps], page, actions)


def _marked(context: BuiltContext) -> set[str]:
    """Return the places that are marked as visited."""
    done = (action for piece in context.pieces for action in piece.done_actions)
    return {command_of(action).place for action in done} - {""}
