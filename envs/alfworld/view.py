"""How an agent reads ALFWorld: what stands here, where one can go, what is in hand, what is asked."""

import re
from collections.abc import Sequence
from functools import lru_cache

from envs.alfworld.actions import AlfWorldActions
from envs.alfworld.expert import knowledge_of
from envs.alfworld.reading import (
    STATES,
    command_of,
    goal_of,
    held_by,
    kind_of,
    sentences,
    things_in,
)
from envs.protocols import (
    ActionVocabulary,
    Chunk,
    Clause,
    Fragment,
    Observation,
    StateInput,
    StatusLine,
    View,
    listed,
)
from stores.text import one_line
from stores.traces import Event

_BANNER = re.compile(r"\A\s*-=.*?=-\s*", re.DOTALL)
_TASK = re.compile(r"\s*Your task is to: [^\n]*\s*\Z")
_SEEN = 8  # things of a page that a state model reads one by one
_BRIEF = """You are in a room and see it in text. Do what the instruction asks: find the thing (go \
to places, open what is closed), take it, clean, heat or cool it if that is asked, and put it where it \
is to go; under a lamp, hold the thing where the lamp is and use the lamp. You carry one thing at a \
time. Answer with one JSON action, one of the commands that are listed, word for word."""


class AlfWorldView(View):
    """ALFWorld's pages in either wording."""

    name = "alfworld"
    actions: ActionVocabulary = AlfWorldActions()
    brief = _BRIEF
    #: A page tells what is here and now; what was seen before is nowhere but in memory.
    recalls = True

    def clauses(self, instruction: str) -> Sequence[Clause]:
        """Return the thing, the state that it is to reach, and where it is to go."""
        return _clauses(instruction)

    def chunks(self, observation: Observation) -> Sequence[Chunk]:
        """Return what the page says, sentence by sentence, and its commands by what they are about.

        Commands: what can be done here, what with the thing in hand, places to go to by kind, the rest.
        """
        text = observation.text
        banner = _BANNER.match(text)
        task = _TASK.search(text, banner.end() if banner else 0)
        start, end = banner.end() if banner else 0, task.start() if task else len(text)
        chunks = [Chunk("banner", "banner", text[:start], role="frame")] if start else []
        for i, sentence in enumerate(sentences(text[start:end])):
            listed = things_in(sentence)
            data = {"things": tuple(listed)} if listed else {}
            chunks.append(Chunk(f"said:{i}", "said", sentence, (), data))
        if task:
            chunks.append(Chunk("task", "task", text[end:], role="frame"))
        groups: dict[tuple[str, str], list[str]] = {}
        held = held_by(observation.actions, text)
        for action in observation.actions:
            groups.setdefault(_group(action, held), []).append(action)
        order = sorted(groups, key=lambda group: _ORDER.index(group[0]))
        return [
            *chunks,
            *(
                Chunk(f"{kind}:{name}" if name else kind, kind, "", tuple(groups[kind, name]),
                      {"of": name}, "commands")
                for kind, name in order
            ),
        ]  # fmt: skip

    def fragments(self, chunk: Chunk) -> Sequence[Fragment]:
        """Return a line for each sentence and each group of commands."""
        if chunk.role == "frame":
            return []
        if not chunk.actions:
            return [Fragment(one_line(chunk.text))] if chunk.text.strip() else []
        if chunk.kind == "places":
            return _places(chunk)
        return listed(_LEADS.get(chunk.kind, ""), chunk.actions, chunk.actions)

    def status(self, observation: Observation, shown: Sequence[Chunk]) -> Sequence[StatusLine]:
        """Return what is in hand, as far as the page's commands tell."""
        held = held_by(observation.actions, observation.text)
        return [StatusLine(f"In hand: {held}")] if held else []

    def inputs(self, event: Event) -> Sequence[StateInput]:
        """Return the goal and its parts at the start; of a page its words, and asked things in it."""
        rows: list[StateInput] = []
        goal = goal_of(event.instruction)
        if event.kind == "OBS":
            if event.t == 0 and event.instruction:
                rows.append(StateInput("GOAL", event.instruction))
                rows += [StateInput("CLAUSE", c.text) for c in self.clauses(event.instruction)]
            page = self.gist(event.text, event.instruction)
            things = things_in(page)
            asked = [t for t in things if kind_of(t) in (goal.thing, goal.target)]
            rows.append(
                StateInput("OBS", page, float(any(kind_of(t) == goal.thing for t in asked)))
            )
            rows += [
                StateInput("FACT", f"{thing} is here", float(kind_of(thing) == goal.thing))
                for thing in asked[:_SEEN]
            ]
            return rows
        return super().inputs(event)

    def known(self, events: Sequence[Event], observation: Observation) -> Sequence[tuple[str, str]]:
        """Return what is in hand, and of every place what was seen there last."""
        pages = {event.t: event.text for event in events if event.kind == "OBS"}
        pairs = [
            (event.text, pages.get(event.t + 1, "")) for event in events if event.kind == "ACT"
        ]
        known = knowledge_of(pairs, observation.text, observation.actions)
        places = {command_of(action).place for action in observation.actions} - {""}
        places |= {known.at, *known.seen, *known.closed} - {""}
        rows = [("in hand", known.hand or "nothing")]
        for place in sorted(places, key=lambda p: (kind_of(p), len(p), p)):
            if place in known.seen:
                rows.append((place, ", ".join(known.seen[place]) or "nothing"))
            else:
                rows.append((place, "closed" if place in known.closed else "not seen"))
        return rows

    def learned(
        self, events: Sequence[Event], observation: Observation
    ) -> Sequence[tuple[str, str, str]]:
        """Return what was seen last at each place that is not empty."""
        rows = [(place, what) for place, what in self.known(events, observation)[1:]]
        empty = ("nothing", "closed", "not seen")
        return [(place, "holds", what) for place, what in rows if what not in empty]

    def gist(self, page: str, instruction: str = "", *, bare: bool = False) -> str:
        """Return the page on one line, without banner and task."""
        return one_line(_TASK.sub("", _BANNER.sub("", page)))


_ORDER = ("here", "hand", "places", "self", "other")
_LEADS = {
    "here": "Here:",
    "hand": "With it:",
    "places": "Go to",
    "self": "Also:",
    "other": "Also:",
}


def _places(chunk: Chunk) -> list[Fragment]:
    """Return "Go to cabinet 1 | 2 | 3": the first says the kind, so that it is never lost."""
    first, *others = [command_of(action).place for action in chunk.actions]
    return listed("Go to", chunk.actions, [first, *(p.rpartition(" ")[2] for p in others)])


def _group(action: str, held: str) -> tuple[str, str]:
    """Return the chunk that a command belongs to."""
    command = command_of(action)
    if command.verb == "go":
        return "places", kind_of(command.place)
    if command.verb in ("put", "slice", *STATES) or (held and command.thing == held):
        return "hand", ""
    if command.verb == "look":
        return "self", ""
    return ("other", "") if command.verb == "other" else ("here", "")


@lru_cache(maxsize=1024)
def _clauses(instruction: str) -> tuple[Clause, ...]:
    goal = goal_of(instruction)
    clauses = []
    for role, start, end in goal.spans:
        if role == "thing":
            clauses.append(Clause(goal.thing, start, end, "thing"))
        elif role == "target":
            clauses.append(Clause(goal.target, start, end, "value", "place"))
        else:
            clauses.append(Clause(instruction[start:end], start, end, "property"))
    return tuple(clauses)
