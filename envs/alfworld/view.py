"""How an agent reads ALFWorld: what stands here, where one can go, what is in hand, what is asked."""

import re
from collections import Counter
from collections.abc import Collection, Sequence
from functools import lru_cache

from stategate.envs.alfworld.actions import AlfWorldActions
from stategate.envs.alfworld.expert import Knowledge, delivered, knowledge_of
from stategate.envs.alfworld.reading import (
    STATES,
    Command,
    Goal,
    command_of,
    goal_of,
    held_by,
    kind_of,
    sentences,
    things_in,
)
from stategate.envs.protocols import (
    ActionVocabulary,
    Chunk,
    Clause,
    Fragment,
    Observation,
    Offer,
    StateInput,
    StatusLine,
    View,
    listed,
)
from stategate.stores.text import one_line
from stategate.stores.traces import Event

_BANNER = re.compile(r"\A\s*-=.*?=-\s*", re.DOTALL)
_TASK = re.compile(r"\s*Your task is to: [^\n]*\s*\Z")
#: In a built context: earlier steps with their answers, places by kind and those marked as done.
_STEP = re.compile(r"^\d+\. (.+?)(?: => (.*))?$", re.MULTILINE)
_ROW = re.compile(r"^Go to ([a-z -]+?) (\d+.*)$", re.MULTILINE)
_MARKED = re.compile(r"(\d+)\*")
_ASKED = re.compile(r"^Instruction: (.+)$", re.MULTILINE)
_SEEN = 8  # things of a page that a state model reads one by one
_BRIEF = """You are in a room and see it in text. Do what the instruction asks, step by step:
1. Find the thing: go to places where you have not been, and open what is closed.
2. Take it. You carry one thing at a time.
3. If it is to be clean, hot or cool: go to a sinkbasin, microwave or fridge, and do that there.
4. Go to where it is to end up, open that if it is closed, and put it there. If it is to be looked at \
under a lamp: go to the lamp and use it. For two things, fetch the second after the first.
Doing again what was done before brings nothing. Answer with one JSON action, one of the commands that \
are listed, word for word: {"action": "go to shelf 2"}"""


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
                Chunk(
                    f"{kind}:{name}" if name else kind,
                    kind,
                    "",
                    tuple(groups[kind, name]),
                    {"of": name},
                    "commands",
                )
                for kind, name in order
            ),
        ]

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
        return [StatusLine(f"In hand: {held}", name="in hand", value=held)] if held else []

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

    def offer(self, prompt: str, actions: Sequence[str]) -> Offer:
        """Withhold what the prompt itself shows to be pointless, and say what comes next.

        Small models look around for ever, walk past what they look for, take what nobody asked for and
        carry it back. Where something can be opened, taken, changed or put that serves what is asked,
        that is offered. Else places: those where it was seen; or one of each kind that was searched
        least, none that was searched (with full hands: where one has been with it).
        """
        asked = _ASKED.search(prompt)
        goal = goal_of(asked[1] if asked else "")
        if not goal.thing:
            return super().offer(prompt, actions)
        steps = _STEP.findall(prompt)
        page = prompt[prompt.rfind(steps[-1][0]) :] if steps else prompt
        known = knowledge_of(steps, page.partition("\nHere:")[0], actions)
        marked = {f"{kind} {n}" for kind, row in _ROW.findall(prompt) for n in _MARKED.findall(row)}
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
