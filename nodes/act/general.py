"""The general encoder of the ``policy`` actor: any world's commands as numbers, from the context alone.

Of each readable command: which asked words it says (the clauses of the world's view), whether it was
taken before, what came of earlier steps that name the same things, what else it competes with, and its
words, hashed into buckets. No word of any world stands here: what a word is worth is learned.

Names are what ties a command to earlier steps: a word with the number after it ("shelf 2"), or a word
alone; those that most commands share ("go") weigh next to nothing. What earlier steps tell of numbered
things is followed (:class:`_Ledger`): beside what each was seen, or put, last, what was done to it,
whether it is in the status or where it was asked to be. The few dozen sets that a page makes
cost about a millisecond, which sentence embeddings of every command would not.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from stategate.envs.asking.request import read_request
from stategate.envs.protocols import Clause, View, fill, takes_text, target_of, verb_of
from stategate.nodes.act import offered
from stategate.nodes.act.command_words import (
    command_kind,
    hashed_words,
    name_rarity,
    names_in,
    names_of,
    numbered,
    shared_names,
    stems_of,
    word_share,
    word_stems,
)
from stategate.nodes.act.encoding import Encoded, most_alike
from stategate.nodes.protocols import FRAME, BuiltContext, Vector, WorldProfile
from stategate.stores.text import one_line, words_of

_WORDS, _VERBS = 64, 16  # buckets of hashed words, of hashed verbs
_RELATED = 0.6  # weight of shared names from which an earlier step is about the same things
_LATEST = 40  # earlier steps that are read
_AMOUNT = re.compile(r"\$\s?(\d+(?:\.\d+)?)")
_CHANGED = 2  # sorts of action after which something was done with a thing beside taking it
_SAID_THERE = 8  # place of "said thing there" among what the past tells
_ASKED = ("thing", "value", "property", "any")
_ROW = (
    *(f"says {role}" for role in _ASKED),
    "all of thing",
    "all of value",
    "exact value",
    "text says thing",
    "text says any",
    "best of kind",
    "behind best",
    "beyond limit",
    "done",
    "times done",
    "marked",
    "just done",
    "since done",
    "related steps",
    "since related",
    "last relation",
    "said thing there",
    "last said thing",
    "said value there",
    "last said value",
    "answer names it",
    "said thing with it",
    "since named",
    "verb was done to asked",
    "in status",
    "in page text",
    "carried words",
    "of its kind",
    "of its kind done",
    "first fresh of kind",
    "place in kind",
    "exhausted",
    "fresh",
    "of its verb",
    "takes text",
    "share of asked",
    "longer text",
    "names carried",
    "names open",
    "names settled",
    "where open",
    "where settled",
    "where value",
    "carried is asked",
    "verb was done to carried",
    "things there",
    "nothing there",
    "gone to since touch",
    "times since touch",
)
_PAGE = (
    "step",
    "late",
    "very late",
    "past steps",
    "cut history",
    "instruction known",
    "commands",
    "page says thing",
    "page says value",
    "page says any",
    "status says thing",
    "status says any",
    "has status",
    "things settled",
    "takes seen",
    "related to asked",
    "properties done",
    "fresh commands",
    "just asked",
    "several",
    "asks property",
    "asked seen and not reached",
    "property waits",
    "carried asked",
    "carried other",
    "open things",
    "settled things",
    "verbs done to carried",
    "since touch",
    "new names",
    "times this page",
)
_BLOCKS = (
    *(f"word {i}" for i in range(_WORDS)),
    *(f"verb {i}" for i in range(_VERBS)),
    *(f"last verb {i}" for i in range(_VERBS)),
)
_PAGE_BLOCKS = (
    *(f"thing {i}" for i in range(_WORDS)),
    *(f"value {i}" for i in range(_WORDS)),
    *(f"quality {i}" for i in range(_VERBS)),
    *(f"page {i}" for i in range(_WORDS)),
    *(f"carried verb {i}" for i in range(_VERBS)),
    *(f"last verb {i}" for i in range(_VERBS)),
    *(f"asked verb {i}" for i in range(_VERBS)),
    *(f"status {i}" for i in range(_VERBS)),
)
ROW_FEATURES = (*_ROW, *_BLOCKS, *(f"offered: {name}" for name in offered.ROW))
PAGE_FEATURES = (*_PAGE, *_PAGE_BLOCKS, *(f"offered: {name}" for name in offered.PAGE))


@dataclass(frozen=True)
class _Step:
    """An earlier step as a line of the context tells it; ``age`` is 1 for the last."""

    action: str
    answer: str
    age: int
    names: frozenset[str]
    answer_names: frozenset[str]


@dataclass
class _Asked:
    """The stems that are asked, by the clause's role."""

    instruction: str
    thing: frozenset[str] = frozenset()
    value: frozenset[str] = frozenset()
    quality: frozenset[str] = frozenset()
    values: tuple[frozenset[str], ...] = ()
    clauses: Sequence[Clause] = field(default_factory=tuple)

    @property
    def any(self) -> frozenset[str]:
        """All of them."""
        return self.thing | self.value | self.quality


class _Ledger:
    """What earlier steps tell of numbered things: beside what, what was done to them.

    A command that names several is about the first; the others say where, or with what.
    A thing that was asked for is carried (the status says it), settled (what was done to it last was
    at a place that is asked for) or open.
    """

    def __init__(self, steps: Sequence[_Step], asked: _Asked, status: str) -> None:
        self.carried = numbered(names_of(status))
        self.verbs: dict[str, list[str]] = {}
        self.beside: dict[str, frozenset[str]] = {}
        self.touched = (
            0  # age of the last step that did something to one of several numbered things
        )
        self.new = 0  # names that the last answer showed first
        for step in steps:
            acted, shown = numbered(step.names), numbered(step.answer_names)
            self.new = len(shown - self.beside.keys() - acted)
            for name in acted:
                self.verbs.setdefault(name, []).append(verb_of(step.action))
            if len(acted) > 1:
                self.touched = step.age
                subject = next(n for n in names_in(step.action) if n in acted)
                self.beside[subject] = step.names - {subject}
            elif acted:
                self.beside |= dict.fromkeys(shown - acted, step.names)
        things = {
            n for n in {*self.beside, *self.verbs} if frozenset(word_stems(n)) & asked.thing
        } - self.carried
        self.settled = {
            n
            for n in things & self.verbs.keys()
            if any(frozenset(word_stems(m)) & asked.value for m in self.beside.get(n, ()))
        }
        self.open = things - self.settled
        self.values = {n for n in self.beside if frozenset(word_stems(n)) & asked.value}
        self.is_asked = any(frozenset(word_stems(n)) & asked.thing for n in self.carried)
        self.carried_verbs = tuple(
            dict.fromkeys(verb for n in sorted(self.carried) for verb in self.verbs.get(n, ()))
        )

    def where(self, things: set[str]) -> list[frozenset[str]]:
        """Return beside what each of ``things`` was seen or put last."""
        return [self.beside[name] for name in things if name in self.beside]


class GeneralEncoder:
    """See the module's docstring."""

    row_features = ROW_FEATURES
    page_features = PAGE_FEATURES
    #: Checkpoints hold this: a scorer of other features is refused.
    name = (
        f"general-{hashlib.sha256('|'.join(ROW_FEATURES + PAGE_FEATURES).encode()).hexdigest()[:8]}"
    )

    def encode(self, context: BuiltContext, step: int, profile: WorldProfile) -> Encoded:
        """Return the commands as numbers, texts made of what is asked in the place of a slot."""
        return _Reading(context, step, profile).encoded()

    def stands_for(self, action: str, candidates: Sequence[str]) -> int | None:
        """Return ``action`` itself, or the text with the same verb that is most like its own."""
        return most_alike(action, candidates)

    def is_mistake(self, action: str, agent: Mapping[str, Any]) -> bool:
        """Say whether the episode marks this action as one that is not to be imitated."""
        return action in agent.get("mistakes", ())

    def sort_of(self, encoded: Encoded, index: int) -> str:
        """Return the candidate's verb."""
        return verb_of(encoded.actions[index])


GENERAL = GeneralEncoder()


class _Reading:
    """One context, read."""

    def __init__(self, context: BuiltContext, step: int, profile: WorldProfile) -> None:
        self._step, view = step, profile.view
        instruction = context.instruction
        self._asked = _asked_of(view, instruction)
        self._offered = offered.Offered(context, step, profile, instruction)
        self._profile = profile
        self._steps = _steps_of(context)
        self._status = " ".join(p.text for p in context.pieces if p.kind == "status")
        self._page = " ".join(
            p.text for p in context.pieces if p.kind not in FRAME and not p.actions
        )
        self._last = one_line(self._steps[-1].action) if self._steps else ""
        if self._steps and not self._steps[-1].answer:  # what came of the last step is the page
            answer = one_line(self._page)
            self._steps[-1] = replace(self._steps[-1], answer=answer, answer_names=names_of(answer))
        self._ledger = _Ledger(self._steps, self._asked, self._status)
        self._candidates: list[tuple[str, str, bool]] = []  # action, the text beside it, is marked
        for piece in context.pieces:
            beside = one_line(piece.text) if len(piece.actions) == 1 else ""
            marked = piece.done_actions
            for action in piece.actions:
                if takes_text(action):
                    texts = list(self._offered.texts) or _texts(self._asked)
                    self._candidates += [(fill(action, text), "", False) for text in texts]
                else:
                    self._candidates.append((action, beside, action in marked))
        seen: set[str] = set()
        unique = [c for c in self._candidates if not (c[0] in seen or seen.add(c[0]))]  # type: ignore[func-returns-value]
        self._candidates = unique
        self._slots = {verb_of(a) for a in context.actions if takes_text(a)}

    def encoded(self) -> Encoded:
        """Return the numbers."""
        actions = [action for action, _, _ in self._candidates]
        names = [names_of(target_of(action)) for action in actions]
        weights = name_rarity(names)
        kinds = [command_kind(action) for action in actions]
        done = Counter(one_line(step.action) for step in self._steps)
        is_done = [done[one_line(a)] > 0 or m for a, _, m in self._candidates]
        sizes, kinds_done = (
            Counter(kinds),
            Counter(k for k, d in zip(kinds, is_done, strict=True) if d),
        )
        verbs = Counter(verb_of(action) for action in actions)
        texts = [word_share(self._asked.any, stems_of(text)) for _, text, _ in self._candidates]
        best = max(texts, default=0.0)
        places: Counter[str] = Counter()
        fresh: set[str] = set()
        rows: list[list[float]] = []
        to_asked = {verb_of(s.action) for s in self._steps if self._about(s)}
        for i, (action, text, marked) in enumerate(self._candidates):
            past = self._past(action, names[i], weights, done, marked, to_asked)
            rows.append(
                [
                    *self._matches(action, text, texts[i], best),
                    *past,
                    *self._around(action, names[i]),
                    min(sizes[kinds[i]], 10) / 10,
                    kinds_done[kinds[i]] / sizes[kinds[i]],
                    float(not is_done[i] and kinds[i] not in fresh),
                    min(places[kinds[i]], 10) / 10,
                    float(is_done[i] and not past[_SAID_THERE]),
                    float(not is_done[i]),
                    min(verbs[verb_of(action)], 20) / 20,
                    *self._written(action),
                    *self._told(action, names[i], weights),
                    *hashed_words(self._telling(word_stems(action)), _WORDS),
                    *hashed_words((verb_of(action),), _VERBS),
                    *self._last_verb,
                    *self._offered.row(action),
                ]
            )
            places[kinds[i]] += 1
            if not is_done[i]:
                fresh.add(kinds[i])
        table = np.asarray(rows, dtype=np.float32).reshape(len(rows), len(ROW_FEATURES))
        return Encoded(tuple(actions), table, self._facts(len(actions), is_done))

    def _matches(self, action: str, text: str, said: float, best: float) -> list[float]:
        asked, own = self._asked, frozenset(word_stems(action))
        roles = (asked.thing, asked.value, asked.quality, asked.any)
        shares = [len(own & words) / len(own) if own else 0.0 for words in roles]
        amounts = [float(x) for x in _AMOUNT.findall(text)]
        limit = read_request(asked.instruction).limit if amounts and asked.instruction else None
        return [
            *shares,
            word_share(asked.thing, own),
            word_share(asked.value, own),
            float(own in asked.values),
            word_share(asked.thing, stems_of(text)),
            said,
            float(said == best > 0),
            best - said if text else 0.0,
            float(limit is not None and all(limit.excludes(x) for x in amounts)),
        ]

    def _past(
        self,
        action: str,
        names: frozenset[str],
        weights: Mapping[str, float],
        done: Mapping[str, int],
        marked: bool,
        to_asked: set[str],
    ) -> list[float]:
        """Say what earlier steps tell of a command."""
        asked, line = self._asked, one_line(action)
        times = done[line]
        since = next((s.age for s in reversed(self._steps) if one_line(s.action) == line), 0)
        related = [s for s in self._steps if shared_names(names, s.names, weights) >= _RELATED]
        naming = [
            s for s in self._steps if shared_names(names, s.answer_names, weights) >= _RELATED
        ]
        last = related[-1] if related else None
        self._last_verb = hashed_words((verb_of(last.action),) if last else (), _VERBS)
        things = [word_share(asked.thing, stems_of(s.answer)) for s in related]
        values = [word_share(asked.value, stems_of(s.answer)) for s in related]
        return [
            float(times > 0),
            min(times, 3) / 3,
            float(marked),
            float(line == self._last),
            1 / since if since else 0.0,
            min(len(related), 5) / 5,
            1 / last.age if last else 0.0,
            shared_names(names, last.names, weights) if last else 0.0,
            max(things, default=0.0),
            things[-1] if things else 0.0,
            max(values, default=0.0),
            values[-1] if values else 0.0,
            min(len(naming), 3) / 3,
            max(
                (word_share(asked.thing, stems_of(s.action + " " + s.answer)) for s in naming),
                default=0.0,
            ),
            1 / naming[-1].age if naming else 0.0,
            float(verb_of(action) in to_asked),
        ]

    def _around(self, action: str, names: frozenset[str]) -> list[float]:
        status, page = names_of(self._status), names_of(self._page)
        size = max(len(names), 1)
        carried = frozenset(word_stems(action)) & frozenset(words_of(self._status))
        return [len(names & status) / size, len(names & page) / size, min(len(carried), 3) / 3]

    def _written(self, action: str) -> list[float]:
        is_text = verb_of(action) in self._slots and action.endswith("]")
        own = frozenset(word_stems(action))
        share = word_share(self._asked.any, own) if is_text else 0.0
        return [float(is_text), share, min(len(own), 12) / 12 if is_text else 0.0]

    def _told(
        self, action: str, names: frozenset[str], weights: Mapping[str, float]
    ) -> list[float]:
        """Say what is known of the numbered things that a command names, or goes to."""
        told = self._ledger

        def is_where(things: set[str]) -> float:
            if names & things:
                return 0.0
            return max((shared_names(names, at, weights) for at in told.where(things)), default=0.0)

        related = [s for s in self._steps if shared_names(names, s.names, weights) >= _RELATED]
        shown = len(numbered(related[-1].answer_names - names)) if related else 0
        since = [s for s in related if not told.touched or s.age < told.touched]
        carried = bool(names & told.carried)
        return [
            float(carried),
            float(bool(names & told.open)),
            float(bool(names & told.settled)),
            is_where(told.open),
            is_where(told.settled),
            is_where(told.values),
            float(carried and told.is_asked),
            float(carried and verb_of(action) in told.carried_verbs),
            min(shown, 8) / 8,
            float(bool(related) and not shown),
            float(bool(since)),
            min(len(since), 4) / 4,
        ]

    def _about(self, step: _Step) -> bool:
        """Say whether a step was done to the thing that is asked."""
        return bool(self._asked.thing & frozenset(word_stems(step.action)))

    def _facts(self, count: int, is_done: Sequence[bool]) -> Vector:
        asked, steps = self._asked, self._steps
        to_asked = [s for s in steps if self._about(s)]
        settled = [s for s in to_asked if asked.value & frozenset(word_stems(s.action))]
        told, page = self._ledger, one_line(self._page)
        pages = sum(step.answer == page for step in steps[:-1])
        properties = {w for s in to_asked for w in word_stems(s.action)} & asked.quality
        known = [
            min(self._step, 50) / 25,
            float(self._step >= 15),
            float(self._step >= 30),
            min(len(steps), 30) / 15,
            float(len(steps) < self._step),
            float(bool(asked.instruction)),
            min(count, 60) / 30,
            word_share(asked.thing, stems_of(self._page)),
            word_share(asked.value, stems_of(self._page)),
            word_share(asked.any, stems_of(self._page)),
            word_share(asked.thing, stems_of(self._status)),
            word_share(asked.any, stems_of(self._status)),
            float(bool(self._status)),
            min(len(settled), 3) / 2,
            min(len(to_asked), 6) / 3,
            min(sum(bool(word_share(asked.thing, stems_of(s.answer))) for s in steps), 4) / 2,
            min(len(properties), 3) / 2,
            sum(not d for d in is_done) / max(count, 1),
            float(bool(steps) and self._about(steps[-1])),
            float(len(asked.values) > 1),
            float(bool(asked.quality)),
            float(not to_asked and any(word_share(asked.thing, stems_of(s.answer)) for s in steps)),
            float(
                bool(asked.quality and to_asked)
                and len({verb_of(s.action) for s in to_asked}) < _CHANGED
            ),
            float(told.is_asked),
            float(bool(told.carried) and not told.is_asked),
            min(len(told.open), 3) / 3,
            min(len(told.settled), 3) / 3,
            min(len(told.carried_verbs), 4) / 4,
            min(told.touched, 20) / 20,
            min(told.new, 6) / 6,
            min(pages, 4) / 4,
        ]
        last = (verb_of(steps[-1].action),) if steps else ()
        quality = tuple(w for w in word_stems(asked.instruction) if w in asked.quality)
        blocks = (
            hashed_words(self._telling(tuple(sorted(asked.thing))), _WORDS),
            hashed_words(self._telling(tuple(sorted(asked.value))), _WORDS),
            hashed_words(self._telling(quality), _VERBS),
            hashed_words(self._telling(word_stems(self._page)), _WORDS),
            hashed_words(told.carried_verbs, _VERBS),
            hashed_words(last, _VERBS),
            hashed_words(tuple(verb_of(s.action) for s in to_asked), _VERBS),
            hashed_words(self._telling(word_stems(self._status)), _VERBS),
        )
        numbers = [*known, *(x for block in blocks for x in block), *self._offered.page()]
        return np.asarray(numbers, dtype=np.float32)

    def _telling(self, words: tuple[str, ...]) -> tuple[str, ...]:
        """Return ``words`` where they tell what is likely; none where pages tell all that counts."""
        return words if self._profile.partially_observed else ()


def _asked_of(view: View, instruction: str) -> _Asked:
    clauses = view.clauses(instruction) if instruction else ()

    def stems(*roles: str) -> frozenset[str]:
        return frozenset(w for c in clauses if c.role in roles for w in words_of(c.text))

    values = tuple(frozenset(words_of(c.text)) for c in clauses if c.role == "value")
    return _Asked(
        instruction, stems("thing"), stems("value"), stems("property"), values, tuple(clauses)
    )


def _steps_of(context: BuiltContext) -> list[_Step]:
    """Return the earlier steps that the context's lines tell, oldest first."""
    steps = [step for step in context.steps if step.action][-_LATEST:]
    return [
        _Step(
            s.action, s.outcome, len(steps) - i, names_of(target_of(s.action)), names_of(s.outcome)
        )
        for i, s in enumerate(steps)
    ]


def _texts(asked: _Asked) -> list[str]:
    """Return texts to write where text is wanted, of what is asked; the whole of it last."""
    roles = ("thing", "property", "value")
    parts = {role: [c.text for c in asked.clauses if c.role == role] for role in roles}
    made = [
        [*parts["thing"]],
        [*parts["property"], *parts["thing"]],
        [*parts["thing"], *parts["value"]],
        [*parts["property"], *parts["thing"], *parts["value"]],
    ]
    texts = [one_line(" ".join(words)).lower() for words in made]
    texts.append(one_line(asked.instruction).lower())
    clean = (re.sub(r"[\[\]]", " ", text).strip() for text in texts)
    return list(dict.fromkeys(text for text in clean if text))
