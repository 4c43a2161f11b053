"""Sentences that people wrote for tasks in rooms, with gold plans, as labelled instructions.

``people.tsv.gz`` (ALFRED, as published with "Visually-Grounded Planning without Vision") holds rows
``split, sentence, plan``. A plan says what is moved where, and what is done to it; which words of the
sentence name the thing and the place is found by association: words that are said of one name
alone. Recombined, any thing stands with any place, and some are any words of English.
"""

import gzip
import random
import re
import tarfile
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stategate.language.instruction.goals import TaskKind
from stategate.trainers.instruction.marked import mark
from stategate.trainers.instruction.recombined import PARTS, english_words
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
_TIMES, _PRECISION, _LIFT = 3, 0.7, 4  # of an alias: said so often, so surely, so much oftener
_SWAPPED, _STRANGE = 0.6, 0.25  # share of names that another one, or any words, stand for


@dataclass(frozen=True)
class Goal:
    """What a plan comes to: the kind of task, the thing, and the place or lamp."""

    kind: TaskKind
    thing: str
    place: str


@dataclass(frozen=True)
class Sentence:
    """A sentence whose names are marked (``trainers.instruction.marked``), and its goal."""

    text: str
    goal: Goal


@reads_data
def read_people(path: Path, split: str, without: Collection[Goal] = ()) -> list[Sentence]:
    """Return the sentences of ``split`` whose plans are tasks of ALFWorld, ``without`` some goals."""
    sentences = []
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            own, text, plan = line.rstrip("\n").split("\t")
            goal = goal_of_plan(plan) if own == split else None
            if goal is not None and goal not in without:
                sentences.append(Sentence(text, goal))
    return sentences


def goal_of_plan(plan: str) -> Goal | None:
    """Return what a gold plan comes to, None for a task that ALFWorld has not."""
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
        return Goal("light", picks[0][0], lamps[-1][0]) if picks and not puts else None
    if len(puts) == len(picks) == 2 and len({*puts}) == 1 and len({*picks}) == 1:
        return Goal("two", *puts[0])
    if len(puts) != 1 or len(picks) != 1:
        return None
    return Goal(_KINDS[changes.pop()] if changes else "put", *puts[0])


def _name(argument: str) -> str:
    joined = _ARTICLES.sub("", argument.strip()).replace(" ", "")
    return _RENAMED.get(joined, joined)


@reads_data
def goals_of_games(archive: Path, split: str) -> set[Goal]:
    """Return the goals of an archive's games of ``split``, as their folders' names say them."""
    with tarfile.open(archive) as file:
        names = [name.split("/") for name in file.getnames() if f"/{split}/" in name]
    tasks = {part for parts in names for part in parts if "-None-" in part}
    kinds: dict[str, TaskKind] = {"look": "light", "pick_two": "two"}
    kinds |= {f"pick_{kind}": kind for kind in _KINDS.values()}
    goals = set()
    for task in tasks:
        sort, thing, _, place, _ = task.split("-")
        ours = [own for lead, own in kinds.items() if sort.startswith(lead)]
        kind: TaskKind = ours[0] if ours else "put"
        goals.add(Goal(kind, thing.lower(), _RENAMED.get(place.lower(), place.lower())))
    return goals


class Recombined:
    """Sentences of people with names marked, and others made of their parts."""

    def __init__(self, sentences: Sequence[Sentence]) -> None:
        #: By role and name: how often each wording stands for it.
        self._wordings = {role: defaultdict[str, Counter[str]](Counter) for role in _ROLES}
        aliases = {role: _aliases(sentences, role) for role in _ROLES}
        self._parted = [self._part(sentence, aliases) for sentence in sentences]

    def _part(
        self, sentence: Sentence, aliases: Mapping[str, Mapping[str, tuple[str, float]]]
    ) -> tuple[str, dict[str, str], Goal]:
        """Return a sentence with its names as slots, and the wording of each, the last one first."""
        words = _WORD.findall(sentence.text.lower())
        spans: dict[str, tuple[int, int]] = {}
        for role in _ROLES:
            name, own = getattr(sentence.goal, role), aliases[role]
            candidates = [
                ((gram.replace(" ", "") == name, own[gram][1] * (5 + end - start)), start, end)
                for start, end, gram in _grams(words)
                if own.get(gram, ("",))[0] == name
            ]
            if candidates:
                _, start, end = max(candidates)
                self._wordings[role][name][" ".join(words[start:end])] += 1
                if all(end <= first or last <= start for first, last in spans.values()):
                    spans[role] = start, end
        wordings = {}
        for (start, end), role in sorted(((span, r) for r, span in spans.items()), reverse=True):
            wordings[role] = " ".join(words[start:end])
            words[start:end] = [f"{{{role}}}"]
        return " ".join(words), wordings, sentence.goal

    def originals(self) -> Iterator[Sentence]:
        """Yield the people's sentences, names marked."""
        for template, wordings, goal in self._parted:
            yield _filled(template, wordings, goal)

    def generated(self, count: int, rng: random.Random) -> Iterator[Sentence]:
        """Yield ``count`` sentences of people with other names, and of the games' own templates."""
        for number in range(count):
            if number % 6 == 0:
                kind, template = rng.choice(PARTS["rooms"])
                parts = {role: self._draw(role, kind, rng, is_plain=True) for role in _ROLES}
            else:
                template, wordings, goal = rng.choice(self._parted)
                kind = goal.kind
                parts = {role: (wordings.get(role, ""), getattr(goal, role)) for role in _ROLES}
                swapped = [role for role in wordings if rng.random() < _SWAPPED]
                parts |= {role: self._draw(role, kind, rng) for role in swapped}
            names = {role: name for role, (_, name) in parts.items()}
            yield _filled(template, {r: w for r, (w, _) in parts.items()}, Goal(kind, **names))

    def _draw(
        self, role: str, kind: TaskKind, rng: random.Random, is_plain: bool = False
    ) -> tuple[str, str]:
        """Return (wording, name) of any thing, or place of this ``kind`` of task."""
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


def _filled(template: str, wordings: Mapping[str, str], goal: Goal) -> Sentence:
    marked = {role: mark(role, wording) for role, wording in wordings.items()}
    return Sentence(template.format(**marked), goal)


def _grams(words: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    for size in (3, 2, 1):
        for i in range(len(words) - size + 1):
            if words[i] not in _STOP and words[i + size - 1] not in _STOP:
                yield i, i + size, " ".join(words[i : i + size])


def _aliases(sentences: Sequence[Sentence], slot: str) -> dict[str, tuple[str, float]]:
    """Return word sequences that nearly always go with one name: the name, and how often."""
    counts: Counter[str] = Counter()
    together: Counter[tuple[str, str]] = Counter()
    names: Counter[str] = Counter()
    for sentence in sentences:
        name = str(getattr(sentence.goal, slot))
        names[name] += 1
        for gram in {gram for _, _, gram in _grams(_WORD.findall(sentence.text.lower()))}:
            counts[gram] += 1
            together[gram, name] += 1
    return {
        gram: (name, float(count))
        for (gram, name), count in together.items()
        if count >= _TIMES
        and count / counts[gram] >= _PRECISION
        and count / counts[gram] > _LIFT * names[name] / len(sentences)
    }
