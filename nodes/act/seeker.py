"""``seeker``: looks for things in rooms by fixed rules, and knows only what the prompt shows.

It makes context builders comparable over hundreds of games: what a builder drops of the past, this
actor does not know. It reads the instruction, the lines of earlier steps, the page and the commands,
and decides as the expert does (``envs.alfworld.expert``). A place marked as done counts as one that was
looked at, where nothing asked for was seen.
"""

import re
from collections.abc import Iterator
from typing import ClassVar, Literal

from stategate.envs.alfworld.expert import decide, knowledge_of
from stategate.envs.alfworld.reading import command_of, goal_of, kind_of
from stategate.envs.alfworld.view import AlfWorldActions
from stategate.nodes.protocols import Actor, ActorParams, BuiltContext, Decision
from stategate.nodes.resources import Resources

#: What experience says: "cup at shelf (3)", or a step of a like task: "Go to shelf."
_TAUGHT = re.compile(r"([a-z -]+?) at ([a-z -]+) \((\d+)\)")
_STEPPED = re.compile(r"\b(?:Go to|Open|Take [a-z -]+ from) ([a-z-]+)\b")
_HOLDS = re.compile(r'"(?P<place>[a-z -]+ \d+) holds (?P<things>[^"]+)"')


class Seeker(ActorParams):
    """Search, take, change and put by rule (see the module's docstring)."""

    hint: ClassVar[str] = "no model: searches rooms by fixed rules over what it can read"
    kind: Literal["seeker"] = "seeker"
    worlds: ClassVar[tuple[str, ...]] = ("alfworld",)

    def build(self, resources: Resources) -> Actor:
        """Return the actor; nothing is loaded."""
        return seek


def seek(context: BuiltContext, step: int) -> Decision:
    """Choose among the readable commands."""
    instruction = context.instruction
    page = " ".join(piece.text.strip() for piece in context.pieces if piece.kind == "said")
    steps = [(step.action, step.outcome) for step in context.steps]
    known = knowledge_of(steps, page, context.actions)
    for place in _marked(context):
        known.seen.setdefault(place, [])
        known.tried.setdefault(f"go to {place}", 1)
    known.hand = context.status.get("in hand", known.hand)
    advice = "".join(piece.text for piece in context.shown("experience"))
    usual = _remembered(context, instruction) | _usual(instruction, advice)
    action, reason = decide(instruction, known, context.actions, usual)
    if action:
        return Decision(action, reason=reason)
    return Decision(
        AlfWorldActions().safe(context.actions, instruction), fallback=reason or "nothing to do"
    )


def _usual(instruction: str, advice: str) -> dict[str, float]:
    """Return how often experience saw what is asked, by kind of place; a hint counts once."""
    usual: dict[str, float] = {}
    asked = goal_of(instruction).thing
    for thing, place, count in _TAUGHT.findall(advice):
        if thing.strip().endswith(asked):
            usual[place] = usual.get(place, 0.0) + float(count)
    for place in _STEPPED.findall(advice):
        usual[place] = usual.get(place, 0.0) + 1.0
    return usual


def _remembered(context: BuiltContext, instruction: str) -> dict[str, float]:
    """Return how likely what is asked is at places, by what memory shows of earlier episodes.

    Where it was seen last comes first, then where it was seen before, then places of the same kind.
    """
    goal, likely = goal_of(instruction), dict[str, float]()
    for piece in context.pieces:
        found = _HOLDS.search(piece.text) if piece.kind == "fact" else None
        if found is None:
            continue
        kinds = {kind_of(thing) for thing in found["things"].split(", ")}
        if kinds & {goal.thing, goal.target if goal.is_light else goal.thing}:
            weight = 0.8 if "(until" in piece.text else 1.0
            for name, worth in ((found["place"], weight), (kind_of(found["place"]), weight / 2)):
                likely[name] = max(likely.get(name, 0.0), worth)
    return likely


def _marked(context: BuiltContext) -> Iterator[str]:
    """Yield the places that are marked as those where one has been."""
    for piece in context.pieces:
        if piece.kind == "places":
            yield from (command_of(action).place for action in piece.done_actions)
