"""The vocabulary of worlds: what a step shows, what a world offers, and how an agent reads it.

A world is its rules (:class:`World`) and its :class:`View`, the one place where anything is said of
what its pages, actions and instructions mean.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias, cast, get_args

from stategate.stores.errors import UserError
from stategate.stores.text import one_line, overlap, words_of
from stategate.stores.traces import Event

#: A world's whole situation as a small JSON-serialisable mapping. Worlds never change one in place.
Session = Mapping[str, Any]

#: The affordance that stands for "answer with any text"; a concrete action is ``answer[In 1911.]``.
ANSWER = "answer[<text>]"
#: What is said where nothing is known: better than a guess.
UNKNOWN = "I do not know."
#: Leads, in a prompt, what a step's page met of what is asked, on a line of its own under the step.
NOTE = " - "
_SLOT = re.compile(r"([\w-]+)\[<[^<>\[\]]+>\]")
_BRACKETS = re.compile(r"([\w-]+)\[(.*)\]", re.DOTALL)
_MAX_CLAUSES = 6
_SUMMARY_WORDS = 120
_CUT = re.compile(r"(?<=[,;.!?])\s+|\s+(?=(?:and|with|then|but)\s)")


@dataclass(frozen=True)
class Observation:
    """What the agent sees after a step.

    ``actions`` are the affordances on the page in page order, as an agent writes them; one that takes
    free text holds a slot in its brackets (:data:`ANSWER`). ``reward`` is the reward of the step that
    led here. ``info`` holds facts of the world that agents must not read and harnesses may.
    """

    text: str
    actions: tuple[str, ...]
    reward: float = 0.0
    done: bool = False
    info: Mapping[str, Any] = field(default_factory=dict)


class World(Protocol):
    """A world is pure functions over sessions, so that a checkpoint can resume, undo and fork a task.

    The first members are a world's own. Those from ``fingerprint`` on have a default: inherit it,
    or let :func:`complete` add it.
    """

    name: str

    def reset(self, task: Mapping[str, Any]) -> tuple[Session, Observation]:
        """Start ``task``, such as ``{"goal": 3}``. Raises ``UserError`` for an unknown task."""
        ...

    def step(self, session: Session, action: str) -> tuple[Session, Observation]:
        """Return the next session and observation; ``session`` itself stays as it was."""
        ...

    def observe(self, session: Session) -> Observation:
        """Draw the observation of ``session`` again, equal to the one that came with it."""
        ...

    def instruction(self, session: Session) -> str:
        """Return what the user asked for in this session."""
        ...

    @property
    def fingerprint(self) -> str:
        """A hash of the data that the world was loaded from, "" where it has none."""
        return ""

    def tasks(self) -> Sequence[Mapping[str, Any]]:
        """Return the world's tasks in order; by default one task without parameters."""
        return ({},)

    def group_of(self, number: int) -> str | None:
        """Return the cluster of task ``number`` for statistics, None where tasks are independent."""
        return None


_OWN = ("reset", "step", "observe", "instruction")


def complete(world: Any) -> World:
    """Return ``world`` with the defaults of the members that it lacks, if it does not inherit them.

    Raises ``UserError`` for one without ``reset``, ``step``, ``observe`` or ``instruction``.
    """
    own = type(world)
    if World in own.__mro__:
        return cast(World, world)
    missing = [name for name in _OWN if not callable(getattr(world, name, None))]
    if missing:
        raise UserError(f"the world {own.__name__} lacks {', '.join(missing)}: write them")
    filled: Any = object.__new__(type(own.__name__, (own, World), {}))
    filled.__dict__ = world.__dict__  # one state
    return cast(World, filled)


def task_sentence(task: Mapping[str, Any]) -> str | None:
    """Return the sentence under ``say`` that is shown for a task, None where the world's own is.

    Raises ``UserError`` for one that is empty or no text.
    """
    if "say" not in task:
        return None
    words = one_line(task["say"]) if isinstance(task["say"], str) else ""
    if not words:
        raise UserError('"say" is empty: put the task into words, or leave it out')
    return words


def numbered(number: Any, count: int, noun: str) -> int:
    """Return ``number``, if it is that of one of ``count`` things. Raises ``UserError`` else."""
    if isinstance(number, bool) or not isinstance(number, int):
        raise UserError(f"a {noun} is a number, not {number!r}")
    if not 0 <= number < count:
        raise UserError(f"no {noun} {number}: there are {noun}s 0 to {count - 1}")
    return number


# How an agent reads a world ---------------------------------------------------------------------

#: What kind of part a chunk is, whatever its world calls it: shown by the frame of every prompt
#: ("frame"), text ("text"), what the page is about ("subject"), one of several things that compete
#: ("entry"), values of which one is chosen ("choice"), commands ("commands"), commands without which
#: nothing can be done, which no builder may drop ("pinned"), an earlier step with what came of it
#: ("past").
Role = Literal["frame", "text", "subject", "entry", "choice", "commands", "pinned", "past"]


@dataclass(frozen=True)
class Choice:
    """An option: its values, and the chosen one (None where none is marked)."""

    name: str
    values: tuple[str, ...]
    chosen: str | None = None


@dataclass(frozen=True)
class Chunk:
    """A part of a page that is kept or dropped as one.

    ``text`` is the page's own text (all chunks joined make the page again), ``actions`` the
    affordances that the chunk carries, in the order of ``choice.values`` where it is a choice.
    ``kind`` is the world's own word, ``role`` everybody's. ``data`` holds parsed facts for the
    world's own actors and pictures. ``is_visited`` marks an entry that was opened before.
    ``fragments`` are its prompt lines in parts that can be left out (commands cannot), () where the
    frame of the prompt shows it, None for plain ones (:func:`fragments_of`).
    """

    id: str
    kind: str
    text: str
    actions: tuple[str, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict, hash=False)
    role: Role = "text"
    choice: Choice | None = None
    is_visited: bool = False
    fragments: "tuple[Fragment, ...] | None" = field(default=None, hash=False)


#: What a fragment says. On a page: running "text" (shortened by clauses), words of a "title", a
#: "quantity" (``amount`` is its number), another "fact" (shown whole or not at all), a "lead", which
#: tells what follows and hardly ever goes. In a prompt's frame: what the user asks ("instruction"),
#: what a follow-up refers to ("about"), an earlier step's "action", "outcome" and "note", a status
#: "value", a "move" that advice suggests, a "lesson" of past tasks, and of a conversation or a memory
#: its "day", the day "until" which it held, "speaker", "said", "question" and "answer".
FragmentRole: TypeAlias = "_PageRole | _FrameRole | _TalkRole"
_PageRole = Literal["text", "title", "quantity", "fact", "lead"]
_FrameRole = Literal["instruction", "about", "action", "outcome", "note", "value", "move", "lesson"]
_TalkRole = Literal["day", "until", "speaker", "said"]


@dataclass(frozen=True)
class Fragment:
    """A stretch of a prompt line, and the affordance that it spells out, if any.

    One with an affordance is shown whole or not at all. ``label`` is the beginning of ``text`` that
    names the value after it ("Price: "); ``name`` says of what a status "value" is, and what a
    "lesson" tells. ``is_done`` marks an affordance that was taken before.
    """

    text: str
    action: str | None = None
    role: FragmentRole = "text"
    amount: float | None = None
    label: str = ""
    name: str = ""
    is_done: bool = False

    @property
    def value(self) -> str:
        """The text without its label."""
        return self.text.removeprefix(self.label)


#: What a clause asks for.
ClauseRole = Literal["thing", "property", "value", "limit"]


@dataclass(frozen=True)
class Clause:
    """A part of what is asked: ``instruction[start:end]`` with the words that join it.

    ``text`` is what it asks for: a "thing", a "property" of it, a "value" (of the choice ``name``, ""
    where the instruction does not say of which), or a "limit" that amounts must not exceed.
    ``probability`` is that of this reading, ``others`` are what else may be meant.
    """

    text: str
    start: int
    end: int
    role: ClauseRole = "property"
    name: str = ""
    limit: float | None = None
    probability: float = 1.0
    others: tuple[str, ...] = ()


@dataclass(frozen=True)
class StatusLine:
    """A line about what the page itself marks; ``is_settled`` if nothing is left to do there.

    A line that ends in a value says of what it is: "Chosen: color = red" is ``red``, of ``color``.
    """

    text: str
    is_settled: bool = True
    name: str = ""
    value: str = ""


#: Kinds of inputs of a state model, in the order of its type embedding. Only append: checkpoints
#: hold it. A fact is what a page says about a part of what is asked.
InputKind = Literal["GOAL", "CLAUSE", "OBS", "ACT", "REWARD", "DONE", "ERROR", "WISH", "FACT"]
INPUT_KINDS: tuple[InputKind, ...] = get_args(InputKind)


@dataclass(frozen=True)
class StateInput:
    """One short text that a state model reads; ``match`` is how much of it was asked for (0 to 1)."""

    kind: InputKind
    text: str
    match: float = 0.0


class ActionVocabulary:
    """A world's actions. By default the verb is the class, and what the page lists is legal."""

    #: Classes of actions, in the order of a state model's head; () where they are not counted.
    classes: tuple[str, ...] = ()

    def class_of(self, page: str, action: str) -> str:
        """Return the class of ``action`` taken on the page with the text ``page``: its verb."""
        return verb_of(action).lower()

    def accepts(self, action: str, observation: Observation) -> bool:
        """Say whether the world takes ``action`` on this page: here, what the page lists."""
        return is_legal(action, observation.actions)

    def safe(self, actions: Sequence[str], instruction: str) -> str:
        """Return an action that does no harm, of those that an actor can read (perhaps none).

        That is an answer that claims nothing, else the first command, else text for a slot.
        """
        if ANSWER in actions:
            return answer(UNKNOWN)
        commands = [action for action in actions if not takes_text(action)]
        if commands:
            return commands[0]
        return fill(actions[0], one_line(instruction) or "help") if actions else "look"

    def refuses(self, action: str, observation: Observation, instruction: str) -> str:
        """Return why ``action`` would break a limit that ``instruction`` states, "" where none is.

        What is refused is not taken, whoever chose it: :meth:`safe` is, in its place.
        """
        return ""


class View:
    """What a world means to an agent; all methods are pure.

    As it stands it reads any text world that lists its legal actions: line by line, commands by verb,
    what is asked matching what shares its words. Override what your world says better
    (``docs/writing-a-world.md``).
    """

    name = "plain"
    actions: ActionVocabulary = ActionVocabulary()
    #: How the world is played, as a language model's system message.
    brief = (
        "You act in a world that you see as text, one page at a time, to do what the instruction "
        "asks. Answer with one JSON action."
    )

    def clauses(self, instruction: str) -> Sequence[Clause]:
        """Return the parts of what is asked, in order: here cut at punctuation and joining words."""
        clauses: list[Clause] = []
        start = 0
        for end in (*(cut.end() for cut in _CUT.finditer(instruction)), len(instruction)):
            text = instruction[start:end].strip(" ,;.!?")
            if text and len(clauses) < _MAX_CLAUSES:
                clauses.append(Clause(text, start, end))
                start = end
        return clauses

    def clauses_here(
        self,
        instruction: str,
        steps: Sequence[tuple[str, str]],
        page: str,
        actions: Sequence[str],
    ) -> Sequence[Clause]:
        """Return the parts of what is asked, given past (action, answer) and the page shown.

        Here they are the same on every page.
        """
        return self.clauses(instruction)

    def chunks(self, observation: Observation) -> Sequence[Chunk]:
        """Split a page into chunks whose texts, joined, are the page: lines, and commands by verb."""
        lines: list[str] = []
        for line in observation.text.splitlines(keepends=True):
            if line.strip() or not lines:
                lines.append(line)
            else:
                lines[-1] += line
        texts = [Chunk(f"line:{i + 1}", "line", line) for i, line in enumerate(lines)]
        verbs: dict[str, list[str]] = {}
        for action in observation.actions:
            verbs.setdefault(verb_of(action), []).append(action)
        commands = [
            Chunk(
                *(f"commands:{verb}", "commands", "", tuple(actions)),
                role="pinned" if ANSWER in actions else "commands",
            )
            for verb, actions in verbs.items()
        ]
        return [*texts, *commands]

    def status(self, observation: Observation, visible: Sequence[Chunk]) -> Sequence[StatusLine]:
        """Return the status lines of the ``visible`` chunks: here, the choices made."""
        choices = [chunk.choice for chunk in visible if chunk.choice is not None]
        pairs = [(one_line(c.name), one_line(c.chosen)) for c in choices if c.chosen is not None]
        return [StatusLine(f"Chosen: {name} = {v}", name=name, value=v) for name, v in pairs]

    def inputs(self, event: Event) -> Sequence[StateInput]:
        """Return what a state model reads of an event; O(1) an event.

        Here that is the instruction and its clauses at the start, then each page's first words.
        """
        rows: list[StateInput] = []
        if event.kind == "NOTE":
            return rows  # the page itself was read
        if event.kind == "OBS" and event.t == 0 and event.instruction:
            rows.append(StateInput("GOAL", event.instruction))
            texts = (clause.text for clause in self.clauses(event.instruction))
            rows += [StateInput("CLAUSE", text) for text in texts if text]
        if event.kind in ("OBS", "ACT"):
            text = " ".join(event.text.split()[:_SUMMARY_WORDS])
            return [*rows, StateInput(event.kind, text, self._shared(event))]
        return [StateInput(event.kind, event.text or event.kind.lower())]

    def _shared(self, event: Event) -> float:
        """Return the share of the goal's words in an observation, or of an action's in the goal."""
        query = words_of(event.instruction)
        if event.kind == "OBS":
            return overlap(query, event.text) if query else 0.0
        words = words_of(event.text)
        return overlap(words, event.instruction) if words and query else 0.0


def fragments_of(chunk: Chunk) -> tuple[Fragment, ...]:
    """Return the prompt lines of ``chunk``: its view's, else its text on one line and its commands."""
    if chunk.fragments is not None:
        return chunk.fragments
    text = one_line(chunk.text)
    fragments = [Fragment(text + "\n" * bool(chunk.actions))] if text else []
    if chunk.actions:
        lead = "To answer:" if chunk.role == "pinned" else "Commands:"
        fragments += listed(lead, chunk.actions, chunk.actions)
    return tuple(fragments)


def listed(
    lead: str, actions: Sequence[str], labels: Sequence[str], separator: str = " | "
) -> list[Fragment]:
    """Return the line of some commands: ``lead``, then their labels with ``separator`` between."""
    fragments = [Fragment(lead, role="lead")] if lead else []
    for i, (action, label) in enumerate(zip(actions, labels, strict=True)):
        joint = separator if i else " " if lead else ""
        fragments.append(Fragment(joint + one_line(label), action, label=joint))
    return fragments


# Actions as text -----------------------------------------------------------------------------------


def takes_text(affordance: str) -> bool:
    """Say whether an affordance takes free text: ``verb[<what>]``."""
    return _SLOT.fullmatch(affordance) is not None


def verb_of(action: str) -> str:
    """Return the verb of ``verb[target]``, the first word of any other command."""
    match = _BRACKETS.fullmatch(action)
    return match[1] if match else action.partition(" ")[0]


def target_of(action: str) -> str:
    """Return the target of ``verb[target]``, the whole of any other command."""
    match = _BRACKETS.fullmatch(action)
    return match[2] if match else action


def split_action(action: str) -> tuple[str, str]:
    """Return (verb, target) of ``verb[target]``, ("", action) of any other command."""
    target = target_of(action)
    return ("", action) if target == action else (verb_of(action), target)


def fill(affordance: str, text: str) -> str:
    """Return the action that gives ``text`` to an affordance that takes text."""
    return f"{verb_of(affordance)}[{text}]"


def is_legal(action: str, affordances: Sequence[str]) -> bool:
    """Say whether ``action`` is one of ``affordances``, or text where one of them takes text."""
    if action in affordances:
        return not takes_text(action)
    match = _BRACKETS.fullmatch(action)
    if match is None or not match[2].strip():
        return False
    return any(
        takes_text(affordance) and verb_of(affordance) == match[1] for affordance in affordances
    )


def answer(text: str) -> str:
    """Return the action that answers with ``text`` (with "(nothing)" where there is none)."""
    return f"answer[{text.strip() or '(nothing)'}]"


def answered(action: str) -> str | None:
    """Return the text of an ``answer[...]`` action, None for any other action."""
    is_answer = action.startswith("answer[") and action.endswith("]")
    return action[len("answer[") : -1].strip() if is_answer else None
