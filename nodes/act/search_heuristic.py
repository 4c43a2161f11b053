"""``search_heuristic`` finds things in rooms by fixed rules; ``guide`` plans for a language model.

It makes context builders comparable over hundreds of games: what a builder drops of the past, this
actor does not know. It reads the instruction, the lines of earlier steps, the page and the commands,
and decides as the expert does (``envs.alfworld.expert``). A place marked as done counts as one that was
looked at, where nothing asked for was seen.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from typing import ClassVar, Literal

from stategate.envs.alfworld.expert import (
    Goal,
    Knowledge,
    decide,
    delivered,
    goal_here,
    knowledge_of,
    likeliest_goal,
)
from stategate.envs.alfworld.reading import Command, command_of, kind_of
from stategate.envs.alfworld.view import AlfWorldActions
from stategate.nodes.act.replies import Offer
from stategate.nodes.protocols import Actor, ActorParams, BuiltContext, Decision
from stategate.nodes.resources import Resources


class SearchHeuristic(ActorParams):
    """No model: searches rooms by fixed rules over what it can read."""

    kind: Literal["search_heuristic"] = "search_heuristic"
    aliases: ClassVar[tuple[str, ...]] = ("seeker",)
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
    goal = goal_here(instruction, knowledge)
    action, reason = decide(goal, knowledge, _usual(context, goal.thing))
    if (thing := likeliest_goal(instruction).thing) != goal.thing:
        reason = f'"{thing}" taken for {goal.thing}; {reason}'
    if action:
        return Decision(action, reason=reason)
    return Decision(
        AlfWorldActions().safe(context.actions, instruction), fallback=reason or "nothing to do"
    )


def _usual(context: BuiltContext, goal_thing: str) -> dict[str, float]:
    """Return how often experience saw the goal's thing, by kind of place."""
    usual: defaultdict[str, float] = defaultdict(float)
    pieces = context.visible("experience")
    for lesson in (f for piece in pieces for f in piece.fragments if f.role == "lesson"):
        thing, _, place = lesson.name.partition(" at ")
        if thing == goal_thing:
            usual[place] += lesson.amount or 0.0
    return usual


def _knowledge(context: BuiltContext, actions: Sequence[str]) -> Knowledge:
    """Return the knowledge of the rooms that the visible steps and page give."""
    page = " ".join(piece.text.strip() for piece in context.visible("said"))
    return knowledge_of([(step.action, step.outcome) for step in context.steps], page, actions)


def _marked(context: BuiltContext) -> set[str]:
    """Return the places that are marked as visited."""
    done = (action for piece in context.pieces for action in piece.done_actions)
    return {command_of(action).place for action in done} - {""}


# A planner for guided_chat ---------------------------------------------------------------------------


def guide(context: BuiltContext, actions: Sequence[str]) -> Offer:
    """Return the actions that serve the goal, and a line that names the next one.

    Small models look around for ever, walk past the goal's thing, take other things and carry them
    back. Actions that open, take, change or put a thing of the goal are offered first. Otherwise
    places: those where the thing was seen; else one place of each kind that was searched least, and
    none that was already searched (with full hands: already visited with the thing).
    """
    knowledge = _knowledge(context, actions)
    goal = goal_here(context.instruction, knowledge)
    if not goal.thing:
        return Offer(tuple(actions))
    done = delivered(goal, knowledge)
    free = not knowledge.hand
    targets = {p for thing, p in knowledge.where(goal.thing) if free and thing not in done}

    def is_useful(command: Command) -> bool:
        if command.verb == "take":
            return kind_of(command.thing) == goal.thing and command.thing not in done
        if command.verb == "put":
            is_there = kind_of(command.place) == goal.target and _is_ready(goal, knowledge)
            return is_there or kind_of(command.thing) != goal.thing
        if command.verb == "open":
            return command.place not in knowledge.seen
        if command.verb == "use":
            return kind_of(knowledge.hand) == goal.thing and kind_of(command.thing) == goal.target
        return command.verb == goal.state

    here = tuple(a for a in actions if is_useful(command_of(a)))
    searched = ({*knowledge.seen} | _marked(context)) - targets if free else knowledge.been
    go_commands = {command_of(a).place: a for a in actions if command_of(a).verb == "go"}
    looked = Counter(kind_of(place) for place in searched)
    open_ = [place for place in go_commands if place not in searched]
    fewest = min((looked[kind_of(place)] for place in open_), default=0)
    nearest_kinds = {kind_of(p): p for p in reversed(open_) if looked[kind_of(p)] == fewest}
    places = targets.intersection(open_) or nearest_kinds.values()
    remaining = here or tuple(go_commands[place] for place in sorted(places)) or tuple(actions)
    return Offer(remaining, asks=_next(goal, knowledge, done))


def _is_ready(goal: Goal, knowledge: Knowledge) -> bool:
    """Say whether what is in hand is in the state that is asked for."""
    return goal.state in ("", *knowledge.states.get(knowledge.hand, ()))


def _next(goal: Goal, knowledge: Knowledge, done: Collection[str]) -> str:
    """Return a line that names the next step and the places where its thing was seen."""
    if not knowledge.hand:
        seen, what = knowledge.where(goal.thing), f"Take a {goal.thing}"
        seen = [(thing, place) for thing, place in seen if thing not in done]
    elif not _is_ready(goal, knowledge):
        seen, what = [], f"{goal.state.capitalize()} {knowledge.hand}"
    else:
        seen = knowledge.where(goal.target)
        what = f"{'Use' if goal.is_light else f'Put {knowledge.hand} in or on'} a {goal.target}"
    where = "; ".join(f"{thing} is at {place}" for thing, place in seen)
    return f"Next: {what}. {where or 'Where is one likely?'}\n"
