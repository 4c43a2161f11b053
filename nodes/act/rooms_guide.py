"""What to put before a small language model in ALFWorld's rooms: a planner, for ``guided_chat``."""

from collections import Counter
from collections.abc import Collection, Sequence

from stategate.envs.alfworld.expert import Knowledge, delivered, knowledge_of
from stategate.envs.alfworld.reading import Command, Goal, command_of, goal_of, kind_of
from stategate.nodes.act.replies import Offer
from stategate.nodes.protocols import BuiltContext


def guide(context: BuiltContext, actions: Sequence[str]) -> Offer:
    """Withhold what the prompt itself shows to be pointless, and say what comes next.

    Small models look around for ever, walk past what they look for, take what nobody asked for and
    carry it back. Where something can be opened, taken, changed or put that serves what is asked, that
    is offered. Else places: those where it was seen; or one of each kind that was searched least, none
    that was searched (with full hands: where one has been with it).
    """
    goal = goal_of(context.instruction)
    if not goal.thing:
        return Offer(tuple(actions))
    steps = [(step.action, step.outcome) for step in context.steps]
    page = " ".join(piece.text.strip() for piece in context.shown("said"))
    known = knowledge_of(steps, page, actions)
    marked = {command_of(a).place for piece in context.pieces for a in piece.done_actions} - {""}
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
    searched = {*known.seen, *marked} - wanted if free else known.been
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
