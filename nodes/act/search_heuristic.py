"""``search_heuristic`` finds things in rooms by fixed rules; ``guide`` plans for a language model.

It makes context builders comparable over hundreds of games: what a builder drops of the past, this
actor does not know. It reads the instruction, the lines of earlier steps, the page and the commands,
and decides as the expert does (``envs.alfworld.expert``). A place marked as done counts as one that was
looked at, where nothing asked for was seen.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from typing import ClassVar, Literal

from stategate.envs.alfworld.expert import Knowledge, decide, delivered, goal_here, knowledge_of
from stategate.envs.alfworld.goals import Goal
from stategate.envs.alfworld.reading import Command, command_of, kind_of
from stategate.envs.alfworld.view import AlfWorldActions
from stategate.nodes.act.replies import Offer
from stategate.nodes.protocols import Actor, ActorParams, BuiltContext, Decision
from stategate.nodes.resources import Resources


class SearchHeuristic(ActorParams):
    """Search, take, change and put by rule (see the module's docstring)."""

    hint: ClassVar[str] = "no model: searches rooms by fixed rules over what it can read"
    kind: Literal["search_heuristic"] = "search_heuristic"
    aliases: ClassVar[tuple[str, ...]] = ("seeker",)
    worlds: ClassVar[tuple[str, ...]] = ("alfworld",)

    def build(self, resources: Resources) -> Actor:
        """Return the actor; nothing is loaded."""
        return seek


def seek(context: BuiltContext, step: int) -> Decision:
    """Choose among the readable commands."""
    instruction = context.instruction
    known = _known(context, context.actions)
    for place in _marked(context):
        known.seen.setdefault(place, [])
        known.tried.setdefault(f"go to {place}", 1)
    known.hand = context.status.get("in hand", known.hand)
    goal = goal_here(instruction, known, context.actions)
    usual = _remembered(context, goal) | _usual(context, goal.thing)
    action, reason = decide(instruction, known, context.actions, usual)
    if action:
        return Decision(action, reason=reason)
    return Decision(
        AlfWorldActions().safe(context.actions, instruction), fallback=reason or "nothing to do"
    )


def _usual(context: BuiltContext, asked: str) -> dict[str, float]:
    """Return how often experience saw what is asked, by kind of place; a past step counts once."""
    usual: defaultdict[str, float] = defaultdict(float)
    pieces = context.shown("experience")
    for lesson in (f for piece in pieces for f in piece.fragments if f.role == "lesson"):
        if lesson.amount is None:
            command = command_of(lesson.name)
            if command.verb in ("go", "open", "take"):
                usual[command.place] += 1.0
        else:
            thing, _, place = lesson.name.partition(" at ")
            usual[place] += lesson.amount if thing == asked else 0.0
    return {place: count for place, count in usual.items() if count}


def _remembered(context: BuiltContext, goal: Goal) -> dict[str, float]:
    """Return how likely what is asked is at places, by what memory shows of earlier episodes.

    Where it was seen last comes first, then where it was seen before, then places of the same kind.
    """
    likely: dict[str, float] = {}
    for piece in context.shown("fact"):
        place, _, things = (piece.says("said") or piece.says("fact")).partition(" holds ")
        kinds = {kind_of(thing) for thing in things.split(", ")}
        if kinds & {goal.thing, goal.target if goal.is_light else goal.thing}:
            weight = 0.8 if piece.says("until") else 1.0
            for name, worth in ((place, weight), (kind_of(place), weight / 2)):
                likely[name] = max(likely.get(name, 0.0), worth)
    return likely


def _known(context: BuiltContext, actions: Sequence[str]) -> Knowledge:
    """Return what the steps and the page that are shown tell of the rooms."""
    page = " ".join(piece.text.strip() for piece in context.shown("said"))
    return knowledge_of([(step.action, step.outcome) for step in context.steps], page, actions)


def _marked(context: BuiltContext) -> set[str]:
    """Return the places that are marked as those where one has been."""
    done = (action for piece in context.pieces for action in piece.done_actions)
    return {command_of(action).place for action in done} - {""}


# A planner for guided_chat ---------------------------------------------------------------------------


def guide(context: BuiltContext, actions: Sequence[str]) -> Offer:
    """Withhold what the prompt itself shows to be pointless, and say what comes next.

    Small models look around for ever, walk past what they look for, take what nobody asked for and
    carry it back. Where something can be opened, taken, changed or put that serves what is asked, that
    is offered. Else places: those where it was seen; or one of each kind that was searched least, none
    that was searched (with full hands: where one has been with it).
    """
    known = _known(context, actions)
    goal = goal_here(context.instruction, known, actions)
    if not goal.thing:
        return Offer(tuple(actions))
    done = delivered(goal, known)
    free = not known.hand
    wanted = {p for thing, p in known.where(goal.thing) if free and thing not in done}

    def serves(command: Command) -> bool:
        if command.verb == "take":
            return kind_of(command.thing) == goal.thing and command.thing not in done
        if command.verb == "put":
            is_there = kind_of(command.place) == goal.target and _is_ready(goal, known)
            return is_there or kind_of(command.thing) != goal.thing
        if command.verb == "open":
            return command.place not in known.seen
        if command.verb == "use":
            return kind_of(known.hand) == goal.thing and kind_of(command.thing) == goal.target
        return command.verb == goal.state

    here = tuple(a for a in actions if serves(command_of(a)))
    searched = ({*known.seen} | _marked(context)) - wanted if free else known.been
    ways = {command_of(a).place: a for a in actions if command_of(a).verb == "go"}
    looked = Counter(kind_of(place) for place in searched)
    open_ = [place for place in ways if place not in searched]
    least = min((looked[kind_of(place)] for place in open_), default=0)
    near = {kind_of(p): p for p in reversed(open_) if looked[kind_of(p)] == least}
    places = wanted.intersection(open_) or near.values()
    left = here or tuple(ways[place] for place in sorted(places)) or tuple(actions)
    return Offer(left, asks=_next(goal, known, done))


def _is_ready(goal: Goal, known: Knowledge) -> bool:
    """Say whether what is in hand is in the state that is asked for."""
    return goal.state in ("", *known.states.get(known.hand, ()))


def _next(goal: Goal, known: Knowledge, done: Collection[str]) -> str:
    """Say in a line what comes next, and where what that takes was seen."""
    if not known.hand:
        seen, what = known.where(goal.thing), f"Take a {goal.thing}"
        seen = [(thing, place) for thing, place in seen if thing not in done]
    elif not _is_ready(goal, known):
        seen, what = [], f"{goal.state.capitalize()} {known.hand}"
    else:
        seen = known.where(goal.target)
        what = f"{'Use' if goal.is_light else f'Put {known.hand} in or on'} a {goal.target}"
    where = "; ".join(f"{thing} is at {place}" for thing, place in seen)
    return f"Next: {what}. {where or 'Where is one likely?'}\n"
