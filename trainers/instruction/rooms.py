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

_STEP = re.compile(r"([A-Z]\w+(?: up| to)?) *(?:<ARG1>([^<]*))?(?:<ARG2>([^<]*))?</s>")
_ARTICLES = re.compile(r"^(?:(?:the|in|on) )+")
_KINDS: Mapping[str, TaskKind] = {"Clean": "clean", "Heat": "heat", "Cool": "cool"}
#: Names of the plans, and what the games call the same.
_RENAMED = {"papershaker": "peppershaker", "chair": "armchair", "bathtub": "bathtubbasin"}
_LAMPS = ("desklamp", "floorlamp")
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
        aliases = [_aliases(sentences, slot) for slot in ("thing", "place")]
        self._said: list[dict[str, Counter[str]]] = [defaultdict(Counter), defaultdict(Counter)]
        self._parted = [self._part(sentence, aliases) for sentence in sentences]

    def _part(
        self, sentence: Sentence, aliases: Sequence[Mapping[str, tuple[str, float]]]
    ) -> tuple[list[str], list[tuple[int, int] | None], Goal]:
        words = _WORD.findall(sentence.text.lower())
        spans: list[tuple[int, int] | None] = []
        for slot, name in enumerate((sentence.goal.thing, sentence.goal.place)):
            own = [
                (
                    (gram.replace(" ", "") == name, aliases[slot][gram][1] * (5 + end - start)),
                    start,
                    end,
                )
                for start, end, gram in _grams(words)
                if aliases[slot].get(gram, ("",))[0] == name
            ]
            best = max(own, default=None)
            if best is not None:
                self._said[slot][name][" ".join(words[best[1] : best[2]])] += 1
            spans.append(best and (best[1], best[2]))
        thing, place = spans
        if thing and place and thing[0] < place[1] and place[0] < thing[1]:
            spans[1] = None
        return words, spans, sentence.goal

    def originals(self) -> Iterator[Sentence]:
        """Yield the people's sentences, names marked."""
        for words, spans, goal in self._parted:
            yield Sentence(_written(words, spans), goal)

    def made(self, count: int, rng: random.Random) -> Iterator[Sentence]:
        """Yield ``count`` sentences of people with other names, and of the games' own templates."""
        for number in range(count):
            if number % 6 == 0:
                yield self._of_template(rng)
                continue
            words, spans, goal = rng.choice(self._parted)
            words, names = list(words), [goal.thing, goal.place]
            for slot in sorted((0, 1), key=lambda i: -(spans[i] or (0, 0))[0]):
                span = spans[slot]
                if span is None or rng.random() >= _SWAPPED:
                    continue
                wording, names[slot] = self._draw(slot, goal.kind, rng)
                words[slice(*span)] = [mark(("thing", "place")[slot], wording)]
                spans = [None if i == slot else old for i, old in enumerate(spans)]
            yield Sentence(_written(words, spans), Goal(goal.kind, *names))

    def _of_template(self, rng: random.Random) -> Sentence:
        kind, template = rng.choice(PARTS["rooms"])
        names = [self._draw(slot, kind, rng, is_plain=True) for slot in (0, 1)]
        marked = {
            role: mark(role, text)
            for role, (text, _) in zip(("thing", "place"), names, strict=True)
        }
        return Sentence(template.format(**marked), Goal(kind, *(name for _, name in names)))

    def _draw(
        self, slot: int, kind: TaskKind, rng: random.Random, is_plain: bool = False
    ) -> tuple[str, str]:
        """Return (words, name) of any thing, or place of this ``kind`` of task."""
        if rng.random() < _STRANGE:
            strange = "".join(rng.choice(english_words()) for _ in range(rng.randint(1, 2)))
            return strange, strange
        names = sorted(self._said[slot])
        if slot:
            names = [name for name in names if (name in _LAMPS) == (kind == "light")]
        name = rng.choice(names)
        wordings = self._said[slot][name]
        weights = [count**0.5 for count in wordings.values()]
        return (name if is_plain else rng.choices([*wordings], weights)[0]), name


def _written(words: Sequence[str], spans: Sequence[tuple[int, int] | None]) -> str:
    parts = list(words)
    named = [(span, role) for span, role in zip(spans, ("thing", "place"), strict=True) if span]
    for (start, end), role in sorted(named, reverse=True):
        parts[start:end] = [mark(role, " ".join(parts[start:end]))]
    return " ".join(parts)


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
