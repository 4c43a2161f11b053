"""ALFWorld's view: how an agent reads its pages, commands and goals."""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from stategate.envs.alfworld.expert import Goal, goal_here, knowledge_of, likeliest_goal
from stategate.envs.alfworld.reading import (
    BANNER,
    SENTENCE,
    STATES,
    TASK,
    command_of,
    item_in_hand,
    kind_of,
    page_text,
    things_in,
)
from stategate.envs.protocols import (
    ActionVocabulary,
    Chunk,
    Clause,
    ClauseRole,
    Observation,
    StateInput,
    StatusLine,
    View,
    listed,
)
from stategate.language.instruction.goals import Candidates, rank_names, read_goal
from stategate.stores.traces import Event

_DOUBT = 0.1  # probability from which another name is one that may be meant
_SURE = 0.5  # probability of a kind of task below which it is in doubt
_SEEN = 8  # things of a page that a state model reads one by one


class AlfWorldActions(ActionVocabulary):
    """Going, opening, taking, putting, changing, looking."""

    classes: tuple[str, ...] = (
        *("go", "open", "close", "take", "put", "clean", "heat", "cool"),
        *("slice", "use", "examine", "look", "other"),
    )

    def class_of(self, page: str, action: str) -> str:
        """Return the command's verb."""
        return command_of(action.lower()).verb

    def safe(self, actions: Sequence[str], instruction: str) -> str:
        """Return "look" where it is possible, else an action that changes least."""
        for harmless in ("look", "inventory", "help"):
            if harmless in actions:
                return harmless
        gentle = [a for a in actions if command_of(a).verb in ("examine", "go")]
        return gentle[0] if gentle else super().safe(actions, instruction)


class AlfWorldView(View):
    """ALFWorld's pages in either wording."""

    name = "alfworld"
    actions: ActionVocabulary = AlfWorldActions()
    brief = Path(__file__).with_name("brief.txt").read_text("utf-8").strip()

    def clauses(self, instruction: str) -> Sequence[Clause]:
        """Return the goal's thing, its state, and its place."""
        return _clauses(instruction, likeliest_goal(instruction))

    def clauses_here(
        self,
        instruction: str,
        steps: Sequence[tuple[str, str]],
        page: str,
        actions: Sequence[str],
    ) -> Sequence[Clause]:
        """Return the clauses of the likeliest goal in this room."""
        knowledge = knowledge_of(steps, page, actions)
        return _clauses(instruction, goal_here(instruction, knowledge))

    def chunks(self, observation: Observation) -> Sequence[Chunk]:
        """Return the page's sentences, and its commands in groups.

        Groups: actions here, actions with the item in hand, places to go to by kind, the rest.
        """
        text = observation.text
        banner = BANNER.match(text)
        task = TASK.search(text, banner.end() if banner else 0)
        start, end = banner.end() if banner else 0, task.start() if task else len(text)
        chunks: list[Chunk] = []
        if start:
            chunks.append(Chunk("banner", "banner", text[:start], role="frame", fragments=()))
        for i, sentence in enumerate(SENTENCE.findall(text[start:end])):
            chunks.append(Chunk(f"said:{i}", "said", sentence))
        if task:
            chunks.append(Chunk("task", "task", text[end:], role="frame", fragments=()))
        groups: dict[tuple[str, str], list[str]] = {}
        item = item_in_hand(observation.actions, text)
        for action in observation.actions:
            groups.setdefault(_group(action, item), []).append(action)
        order = sorted(groups, key=lambda group: list(_LEADS).index(group[0]))
        return [*chunks, *(_commands(kind, name, groups[kind, name]) for kind, name in order)]

    def status(self, observation: Observation, visible: Sequence[Chunk]) -> Sequence[StatusLine]:
        """Return the item in hand, by the page's commands."""
        item = item_in_hand(observation.actions, observation.text)
        return [StatusLine(f"In hand: {item}", name="in hand", value=item)] if item else []

    def inputs(self, event: Event) -> Sequence[StateInput]:
        """Return the goal and its parts at the start; of a page its words, and the goal's things."""
        if event.kind != "OBS":
            return super().inputs(event)
        *rows, _ = super().inputs(event)
        goal, page = likeliest_goal(event.instruction), page_text(event.text)
        things = [t for t in things_in(page) if kind_of(t) in (goal.thing, goal.target)]
        is_there = float(any(kind_of(t) == goal.thing for t in things))
        facts = [
            StateInput("FACT", f"{thing} is here", float(kind_of(thing) == goal.thing))
            for thing in things[:_SEEN]
        ]
        return [*rows, StateInput("OBS", page, is_there), *facts]


#: The introduction of each chunk's commands, in the order of the chunks.
_LEADS = {"here": "Here:", "hand": "With it:", "places": "Go to", "self": "Also:", "other": "Also:"}


def _commands(kind: str, name: str, actions: Sequence[str]) -> Chunk:
    """Return a chunk of commands; places read "Go to cabinet 1,2,3": the first says the kind."""
    labels, separator = list(actions), " | "
    if kind == "places":
        first, *others = [command_of(action).place for action in actions]
        labels = [first, *(place.rpartition(" ")[2] for place in others)]
        separator = ","
    return Chunk(
        f"{kind}:{name}" if name else kind,
        kind,
        "",
        tuple(actions),
        role="commands",
        fragments=tuple(listed(_LEADS[kind], actions, labels, separator)),
    )


def _group(action: str, item: str) -> tuple[str, str]:
    """Return the chunk that a command belongs to."""
    command = command_of(action)
    if command.verb == "go":
        return "places", kind_of(command.place)
    if command.verb in ("put", "slice", *STATES) or (item and command.thing == item):
        return "hand", ""
    if command.verb == "look":
        return "self", ""
    return ("other", "") if command.verb == "other" else ("here", "")


@lru_cache(maxsize=1024)
def _clauses(instruction: str, goal: Goal) -> tuple[Clause, ...]:
    """Return the parts of ``goal`` as ``instruction`` says them, by place in it."""
    reading = read_goal(instruction)

    parts: list[tuple[str, str, ClauseRole, Candidates, str]] = [
        (goal.thing, "thing", "thing", rank_names(reading, "thing"), ""),
        (goal.target, "place", "value", rank_names(reading, "place"), "place"),
    ]
    property_text = goal.state or ("two" if goal.count > 1 else "")
    is_sure = reading.kind[0][1] >= _SURE
    if property_text or not is_sure:
        parts.append((property_text, "kind", "property", reading.kind[:1], "kind of task"))
    nowhere = len(instruction), len(instruction)
    clauses = []
    for text, part, role, names, of in parts:
        # No word tells a kind that is in doubt: the likeliest one may be "it".
        span = reading.spans.get(part, nowhere) if is_sure or part != "kind" else nowhere
        others = tuple(name for name, chance in names[1:] if chance >= _DOUBT)
        clauses.append(Clause(text, *span, role, of, probability=names[0][1], others=others))
    return tuple(sorted(clauses, key=lambda clause: clause.start))
