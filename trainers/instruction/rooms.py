"""Sentences that people wrote for tasks in rooms, with gold plans, as labelled instructions.

``people.tsv.gz`` (ALFRED, as published with "Visually-Grounded Planning without Vision") holds rows
``split, sentence, plan``. A plan gives the goal's kind, thing and place; the words that name them are
found by association (``_aliases``). Recombined, any thing stands with any place, and some are any
words of English.
"""

import gzip
import random
import re
import tarfile
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from stategate.language.instruction.goals import TaskKind
from stategate.stores.tokens import encoding
from stategate.trainers.instruction.marked import mark
from stategate.trainers.instruction.written import PARTS
from stategate.trainers.settings import reads_data

_STEP = re.compile(r"([A-Z]\w+(?: up| to)?) *(?:<ARG1>([^<]*))?(?:<ARG2>([^<]*))?</s>")
_ARTICLES = re.compile(r"^(?:(?:the|in|on) )+")
_KINDS: Mapping[str, TaskKind] = {"Clean": "clean", "Heat": "heat", "Cool": "cool"}
#: Names of the plans, and what the games call the same.
_RENAMED = {"papershaker": "peppershaker", "chair": "armchair", "bathtub": "bathtubbasin"}
_LAMPS = ("desklamp", "floorlamp")
_ROLES = ("thing", "place")
_WORD = re.compile(r"[a-z0-9]+")
_STOP = frozenset(
    "the a an in on to into onto and with of it then from at under by is for inside two put".split()
)
_MIN_COUNT, _PRECISION, _LIFT = 3, 0.7, 4  # what makes words an alias of a name (``_aliases``)
_LENGTH_PRIOR = 5  # an alias scores count × (5 + words): of two about as frequent the longer wins
_SWAPPED, _STRANGE = 0.6, 0.25  # share of names that another one, or any words, stand for


@dataclass(frozen=True)
class TaskGoal:
    """The goal of a plan: the kind of task, the thing, and the place or lamp."""

    kind: TaskKind
    thing: str
    place: str


@dataclass(frozen=True)
class Sentence:
    """A sentence whose names are marked (``trainers.instruction.marked``), and its goal."""

    text: str
    goal: TaskGoal


#: A sentence with {slots} for the names, the words in each slot, and the goal.
ParsedSentence = tuple[str, dict[str, str], TaskGoal]


def read_people(path: Path, split: str, without: Collection[TaskGoal] = ()) -> list[Sentence]:
    """Return the sentences of ``split`` whose plans are tasks of ALFWorld, ``without`` some goals."""
    sentences = []
    with reads_data("people", path), gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            of_split, text, plan = line.rstrip("\n").split("\t")
            goal = goal_of_plan(plan) if of_split == split else None
            if goal is not None and goal not in without:
                sentences.append(Sentence(text, goal))
    return sentences


def goal_of_plan(plan: str) -> TaskGoal | None:
    """Return the goal of a gold plan, None for a task that ALFWorld has not."""
    steps = [(m[1], _name(m[2] or ""), _name(m[3] or "")) for m in _STEP.finditer(plan)]
    verbs = {verb for verb, _, _ in steps}
    puts, picks, lamps = (
        [(thing, place) for verb, thing, place in steps if verb == kind]
        for kind in ("Put", "Pick up", "Toggle")
    )
    changes = verbs & _KINDS.keys()
    if "Slice" in verbs or len(changes) > 1:
        return None
    if lamps:
        return TaskGoal("light", picks[0][0], lamps[-1][0]) if picks and not puts else None
    if len(puts) == len(picks) == 2 and len({*puts}) == 1 and len({*picks}) == 1:
        return TaskGoal("two", *puts[0])
    if len(puts) != 1 or len(picks) != 1:
        return None
    return TaskGoal(_KINDS[changes.pop()] if changes else "put", *puts[0])


def _name(argument: str) -> str:
    joined = _ARTICLES.sub("", argument.strip()).replace(" ", "")
    return _RENAMED.get(joined, joined)


def goals_of_games(archive: Path, split: str) -> set[TaskGoal]:
    """Return the goals of an archive's games of ``split``, as their folders' names say them."""
    with reads_data("games", archive), tarfile.open(archive) as file:
        names = [name.split("/") for name in file.getnames() if f"/{split}/" in name]
    tasks = {part for parts in names for part in parts if "-None-" in part}
    kinds: dict[str, TaskKind] = {"look": "light", "pick_two": "two"}
    kinds |= {f"pick_{kind}": kind for kind in _KINDS.values()}
    goals = set()
    for task in tasks:
        task_type, thing, _, place, _ = task.split("-")
        named = (kinds[prefix] for prefix in kinds if task_type.startswith(prefix))
        place = _RENAMED.get(place.lower(), place.lower())
        goals.add(TaskGoal(next(named, "put"), thing.lower(), place))
    return goals


class Recombined:
    """People's sentences with names marked, and others recombined of their parts."""

    def __init__(self, sentences: Sequence[Sentence]) -> None:
        #: Role: name: how often each wording stands for it.
        self._wordings = {role: defaultdict[str, Counter[str]](Counter) for role in _ROLES}
        aliases = {role: _aliases(sentences, role) for role in _ROLES}
        self._parsed = [self._parse(sentence, aliases) for sentence in sentences]

    def _parse(
        self, sentence: Sentence, aliases: Mapping[str, Mapping[str, Mapping[str, int]]]
    ) -> ParsedSentence:
        """Find the words for the thing and the place, and count them as wordings of their names."""
        words = _WORD.findall(sentence.text.lower())
        spans: dict[str, tuple[int, int]] = {}
        for role in _ROLES:
            name: str = getattr(sentence.goal, role)
            counts = aliases[role][name]
            candidates = [
                (
                    gram.replace(" ", "") == name,
                    counts[gram] * (_LENGTH_PRIOR + end - start),
                    start,
                    end,
                )
                for start, end, gram in _grams(words)
                if gram in counts
            ]
            if candidates:
                *_, start, end = max(candidates)
                self._wordings[role][name][" ".join(words[start:end])] += 1
                if all(end <= first or last <= start for first, last in spans.values()):
                    spans[role] = start, end
        wordings = {}
        # From the end on: the indices of what comes before stay right.
        for role, (start, end) in sorted(spans.items(), key=lambda item: item[1], reverse=True):
            wordings[role] = " ".join(words[start:end])
            words[start:end] = [f"{{{role}}}"]
        return " ".join(words), wordings, sentence.goal

    def originals(self) -> Iterator[Sentence]:
        """Yield the people's sentences, names marked."""
        for parsed in self._parsed:
            yield _filled(*parsed)

    def generated(self, count: int, rng: random.Random) -> Iterator[Sentence]:
        """Yield ``count`` sentences: people's with other names, every sixth of the games' templates."""
        for number in range(count):
            if number % 6 == 0:
                kind, template = rng.choice(PARTS["rooms"])
                parts = {role: self._draw(role, kind, rng, is_plain=True) for role in _ROLES}
            else:
                template, wordings, goal = rng.choice(self._parsed)
                kind = goal.kind
                parts = {role: (wordings.get(role, ""), getattr(goal, role)) for role in _ROLES}
                swapped = [role for role in wordings if rng.random() < _SWAPPED]
                parts |= {role: self._draw(role, kind, rng) for role in swapped}
            names = {role: name for role, (_, name) in parts.items()}
            wordings = {role: wording for role, (wording, _) in parts.items()}
            yield _filled(template, wordings, TaskGoal(kind, **names))

    def _draw(
        self, role: str, kind: TaskKind, rng: random.Random, is_plain: bool = False
    ) -> tuple[str, str]:
        """Draw (wording, name) of a thing, or of a place that fits this ``kind`` of task."""
        if rng.random() < _STRANGE:
            strange = "".join(rng.choice(english_words()) for _ in range(rng.randint(1, 2)))
            return strange, strange
        names = sorted(self._wordings[role])
        if role == "place":
            names = [name for name in names if (name in _LAMPS) == (kind == "light")]
        name = rng.choice(names)
        wordings = self._wordings[role][name]
        weights = [count**0.5 for count in wordings.values()]
        return (name if is_plain else rng.choices([*wordings], weights)[0]), name


@cache
def english_words() -> tuple[str, ...]:
    """Return the words that a byte-pair vocabulary has whole, the commonest left out."""
    texts = (encoding().decode([i]) for i in range(1000, 50_000))
    return tuple(text[1:] for text in texts if re.fullmatch(r" [a-z]{3,12}", text))


def _filled(template: str, wordings: Mapping[str, str], goal: TaskGoal) -> Sentence:
    marked = {role: mark(role, wording) for role, wording in wordings.items()}
    return Sentence(template.format(**marked), goal)


def _grams(words: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    """Yield (start, end, text) of each n-gram of up to three words that no stop word bounds."""
    for size in (3, 2, 1):
        for i in range(len(words) - size + 1):
            if words[i] not in _STOP and words[i + size - 1] not in _STOP:
                yield i, i + size, " ".join(words[i : i + size])


def _aliases(sentences: Sequence[Sentence], role: str) -> dict[str, dict[str, int]]:
    """Return each name's aliases, n-grams of a minimal count, precision and lift, with their counts."""
    counts: Counter[str] = Counter()
    together: Counter[tuple[str, str]] = Counter()
    names: Counter[str] = Counter()
    for sentence in sentences:
        name = str(getattr(sentence.goal, role))
        names[name] += 1
        for gram in {gram for _, _, gram in _grams(_WORD.findall(sentence.text.lower()))}:
            counts[gram] += 1
            together[gram, name] += 1
    aliases: dict[str, dict[str, int]] = {name: {} for name in names}
    for (gram, name), count in together.items():
        precision, prior = count / counts[gram], names[name] / len(sentences)
        if count >= _MIN_COUNT and precision >= _PRECISION and precision > _LIFT * prior:
            aliases[name][gram] = count
    return aliases
