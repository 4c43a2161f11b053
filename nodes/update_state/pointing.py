"""What can be done now, as a state model's pointer reads it: commands by text and by facts."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from stategate.envs.protocols import Observation, View, takes_text, verb_of
from stategate.nodes.retrieval.page import describe
from stategate.stores.text import overlap, words_of

#: What is told of a command beside its text. Only append: checkpoints hold a weight for each.
FACTS = (
    "asked words",
    "all asked",
    "done before",
    "takes text",
    "of an entry",
    "place on the page",
)


@dataclass(frozen=True)
class Offered:
    """A command: ``text`` is what it is about, ``facts`` are those of :data:`FACTS`."""

    action: str
    text: str
    facts: tuple[float, ...]


def offered(
    view: View, instruction: str, observation: Observation, done: Collection[str]
) -> list[Offered]:
    """Return each command of the page once, in page order; ``done`` are earlier actions, lower case.

    An entry's command is told by the entry, any other by itself without names that mean nothing in
    another task.
    """
    found: dict[str, Offered] = {}
    asked = words_of(instruction)
    for chunk in view.chunks(observation):
        for action in chunk.actions:
            if action in found:
                continue
            is_entry = chunk.role == "entry"
            text = describe(view, chunk) if is_entry else view.actions.general(action)
            said = words_of(text)
            share = overlap(said, instruction) if said and asked else 0.0
            place = len(found) / max(len(observation.actions), 1)
            facts = (
                share,
                float(share >= 1.0),
                float(action.lower() in done),
                float(takes_text(action)),
                float(is_entry),
                place,
            )
            found[action] = Offered(action, text, facts)
    return list(found.values())


def stands_for(action: str, commands: Sequence[Offered]) -> int | None:
    """Return the place of the command that ``action`` is: itself, or the slot that it fills."""
    for place, command in enumerate(commands):
        if command.action == action:
            return place
    verb = verb_of(action)
    slots = (
        i for i, c in enumerate(commands) if takes_text(c.action) and verb_of(c.action) == verb
    )
    return next(slots, None)
