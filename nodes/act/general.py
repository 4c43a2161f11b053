"""The general encoder of the ``policy`` actor: named features of any world's commands.

A command's features say which words of the goal it holds (the clauses of the world's view), whether it
was taken before, how earlier steps about the same things ended, which commands compete with it, and
its words, hashed into buckets. No word of any world stands here: training gives words their weights.

Names link a command to earlier steps: a word with the number after it ("shelf 2"), or a word alone.
Names that most commands share ("go") weigh next to nothing. :class:`_Ledger` follows numbered things:
where each was last seen or put, what was done to it, whether the status holds it, and whether it is at
its goal. This costs about a millisecond a page, much less than sentence embeddings of every command.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import log

from stategate.envs.protocols import Clause, fill, takes_text, target_of, verb_of
from stategate.language.instruction.parsed import parse
from stategate.language.words import stem
from stategate.nodes.act.page_features import Features, PageFeatures
from stategate.nodes.protocols import FRAME, BuiltContext, WorldProfile
from stategate.stores.text import one_line, words_of

_NAMED = re.compile(r"[a-z][a-z'-]*(?: \d+)?|\d+(?:\.\d+)?")
_WORDS, _VERBS = 64, 16  # buckets of hashed words, of hashed verbs
_RELATED = 0.6  # weight of shared names from which an earlier step is about the same things
_LATEST = 40  # earlier steps that are read
_ROLES = ("thing", "value", "property")
_CHANGED = 2  # sorts of action after which something was done with a thing beside taking it


@dataclass(frozen=True)
class _Step:
    """An earlier step that the context shows; ``age`` is 1 for the last."""

    action: str
    answer: str
    age: int
    names: frozenset[str]
    answer_names: frozenset[str]


#: The stems of the goal's words, by the role of their clause; "any" are all of them.
_GoalStems = Mapping[str, frozenset[str]]


class _Ledger:
    """The last location of each numbered thing, and the verbs that were applied to it.

    A command that names several things is about the first; the others are its location or tool.
    A thing of the goal is carried (the status says it), settled (it was last put at a place of the
    goal) or open.
    """

    def __init__(self, steps: Sequence[_Step], goal: _GoalStems, status: str) -> None:
        self.carried = numbered(names_of(status))
        self.verbs: dict[str, list[str]] = {}
        self.locations: dict[str, frozenset[str]] = {}
        self.touched = 0  # age of the last step that did something to one of several things
        self.new = 0  # names that the last answer showed first
        for step in steps:
            acted, visible = numbered(step.names), numbered(step.answer_names)
            self.new = len(visible - self.locations.keys() - acted)
            for name in acted:
                self.verbs.setdefault(name, []).append(verb_of(step.action))
            if len(acted) > 1:
                self.touched = step.age
                subject = next(n for n in names_in(step.action) if n in acted)
                self.locations[subject] = step.names - {subject}
            elif acted:
                self.locations |= dict.fromkeys(visible - acted, step.names)
        seen = {*self.locations, *self.verbs} - self.carried
        things = {name for name in seen if says_any(name, goal["thing"])}
        self.settled = {
            name
            for name in things & self.verbs.keys()
            if any(says_any(other, goal["value"]) for other in self.locations.get(name, ()))
        }
        self.open = things - self.settled
        self.values = {name for name in self.locations if says_any(name, goal["value"])}
        self.carries_goal = any(says_any(name, goal["thing"]) for name in self.carried)
        self.carried_verbs = tuple(
            dict.fromkeys(verb for n in sorted(self.carried) for verb in self.verbs.get(n, ()))
        )


@dataclass(frozen=True)
class _Candidate:
    """A command, the text and the amounts of its piece, and whether it is marked as done."""

    action: str
    text: str = ""
    amounts: tuple[float, ...] = ()
    is_marked: bool = False


class ContextFeatures:
    """The features of one context, as :meth:`described`."""

    def __init__(self, context: BuiltContext, step: int, profile: WorldProfile) -> None:
        self._step = step
        self._page = " ".join(
            p.text for p in context.pieces if p.kind not in FRAME and not p.actions
        )
        self._instruction = context.instruction
        past = [(step.action, step.outcome) for step in context.steps]
        clauses: Sequence[Clause] = ()
        if self._instruction:
            view, actions = profile.view, context.actions
            clauses = view.clauses_here(self._instruction, past, self._page, actions)
        self._values = [frozenset(words_of(c.text)) for c in clauses if c.role == "value"]
        self._goal = {
            role: frozenset(word for c in clauses if c.role == role for word in words_of(c.text))
            for role in _ROLES
        }
        self._goal["any"] = frozenset().union(*self._goal.values())
        self._page_features = PageFeatures(context, step, profile)
        self._is_partial = profile.partially_observed
        self._status = " ".join(p.text for p in context.pieces if p.kind == "status")
        latest = [(action, answer) for action, answer in past if action][-_LATEST:]
        if latest and not latest[-1][1]:  # what came of the last step is the page
            latest[-1] = (latest[-1][0], one_line(self._page))
        self._steps = [
            _Step(action, answer, age, names_of(target_of(action)), names_of(answer))
            for age, (action, answer) in zip(range(len(latest), 0, -1), latest, strict=True)
        ]
        self._ledger = _Ledger(self._steps, self._goal, self._status)
        self._slots = {verb_of(a) for a in context.actions if takes_text(a)}
        self._done = Counter(one_line(step.action) for step in self._steps)
        self._goal_steps = [s for s in self._steps if says_any(s.action, self._goal["thing"])]
        self._candidates = self._candidates_of(context)
        names = [names_of(target_of(one.action)) for one in self._candidates]
        counts = Counter(name for own in names for name in own)
        # Inverse document frequency: a name that most commands share tells them little apart.
        self._rarity = {n: log((len(names) + 1) / (k + 0.5)) + 0.05 for n, k in counts.items()}

    def _candidates_of(self, context: BuiltContext) -> list[_Candidate]:
        candidates: dict[str, _Candidate] = {}
        for piece in context.pieces:
            is_alone = len(piece.actions) == 1
            text = one_line(piece.text) if is_alone else ""
            amounts = tuple(f.amount for f in piece.fragments if f.amount is not None)
            for action in piece.actions:
                if takes_text(action):
                    for words in self._page_features.texts:
                        written = fill(action, words)
                        candidates.setdefault(written, _Candidate(written))
                else:
                    marked = action in piece.done_actions
                    own = _Candidate(action, text, amounts if is_alone else (), marked)
                    candidates.setdefault(action, own)
        return list(candidates.values())

    def described(self) -> tuple[dict[str, Features], Features]:
        """Return the features of each candidate, by its action, and those of the page.

        A command that takes text is replaced by commands with texts made from the goal.
        """
        candidates = self._candidates
        is_done = [self._done[one_line(c.action)] > 0 or c.is_marked for c in candidates]
        shares = [word_share(self._goal["any"], stems_of(c.text)) for c in candidates]
        best = max(shares, default=0.0)
        rivals = self._rivals(is_done)
        rows: dict[str, Features] = {}
        for i, one in enumerate(candidates):
            names = names_of(target_of(one.action))
            related = [s for s in self._steps if self._shared(names, s.names) >= _RELATED]
            past = self._past(one, related)
            verb = (verb_of(related[-1].action),) if related else ()
            rows[one.action] = {
                **self._matches(one, best),
                **past,
                **self._words(one.action),
                **rivals[i],
                "exhausted": float(is_done[i] and not past["said thing there"]),
                "fresh": float(not is_done[i]),
                **self._followed(one.action, related),
                **hashed_words("word", self._telling(word_stems(one.action)), _WORDS),
                **hashed_words("verb", (verb_of(one.action),), _VERBS),
                **hashed_words("last verb", verb, _VERBS),
                **{f"offered: {k}": v for k, v in self._page_features.row(one.action).items()},
            }
        return rows, self._facts(is_done)

    def _shared(self, own: frozenset[str], other: frozenset[str]) -> float:
        """Return the rarity-weighted share of a command's names ``own`` that are among ``other``."""
        if own.isdisjoint(other):
            return 0.0
        total = sum(self._rarity[name] for name in own)
        return sum(self._rarity[name] for name in own & other) / total if total else 0.0

    def _rivals(self, is_done: Sequence[bool]) -> list[Features]:
        """Return each candidate's features among those of its kind (equal but for their numbers)."""
        kinds = [one_line(re.sub(r"\d+", "", c.action.lower())) for c in self._candidates]
        sizes = Counter(kinds)
        done = Counter(kind for kind, d in zip(kinds, is_done, strict=True) if d)
        verbs = Counter(verb_of(c.action) for c in self._candidates)
        places: Counter[str] = Counter()
        fresh: set[str] = set()
        rows: list[Features] = []
        for one, kind, d in zip(self._candidates, kinds, is_done, strict=True):
            rows.append(
                {
                    "of its kind": min(sizes[kind], 10) / 10,
                    "of its kind done": done[kind] / sizes[kind],
                    "first fresh of kind": float(not d and kind not in fresh),
                    "place in kind": min(places[kind], 10) / 10,
                    "of its verb": min(verbs[verb_of(one.action)], 20) / 20,
                }
            )
            places[kind] += 1
            if not d:
                fresh.add(kind)
        return rows

    def _matches(self, one: _Candidate, best: float) -> Features:
        goal, own = self._goal, frozenset(word_stems(one.action))
        share = word_share(goal["any"], stems_of(one.text))
        return {
            **{f"says {role}": word_share(own, stems) for role, stems in goal.items()},
            "all of thing": word_share(goal["thing"], own),
            "all of value": word_share(goal["value"], own),
            "exact value": float(own in self._values),
            "text says thing": word_share(goal["thing"], stems_of(one.text)),
            "text says any": share,
            "best of kind": float(share == best > 0),
            "behind best": best - share if one.text else 0.0,
            "beyond limit": float(
                bool(one.amounts) and all(map(parse(self._instruction).excludes, one.amounts))
            ),
        }

    def _past(self, one: _Candidate, related: Sequence[_Step]) -> Features:
        """Return a command's features from earlier steps; ``related`` are about the same things."""
        goal, line = self._goal, one_line(one.action)
        times = self._done[line]
        since = next((s.age for s in reversed(self._steps) if one_line(s.action) == line), 0)
        names = names_of(target_of(one.action))
        naming = [s for s in self._steps if self._shared(names, s.answer_names) >= _RELATED]
        last = related[-1] if related else None
        things = [word_share(goal["thing"], stems_of(s.answer)) for s in related]
        values = [word_share(goal["value"], stems_of(s.answer)) for s in related]
        with_it = (word_share(goal["thing"], stems_of(f"{s.action} {s.answer}")) for s in naming)
        return {
            "done": float(times > 0),
            "times done": min(times, 3) / 3,
            "marked": float(one.is_marked),
            "just done": float(since == 1),
            "since done": 1 / since if since else 0.0,
            "related steps": min(len(related), 5) / 5,
            "since related": 1 / last.age if last else 0.0,
            "last relation": self._shared(names, last.names) if last else 0.0,
            "said thing there": max(things, default=0.0),
            "last said thing": things[-1] if things else 0.0,
            "said value there": max(values, default=0.0),
            "last said value": values[-1] if values else 0.0,
            "answer names it": min(len(naming), 3) / 3,
            "said thing with it": max(with_it, default=0.0),
            "since named": 1 / naming[-1].age if naming else 0.0,
            "verb was done to asked": float(
                verb_of(one.action) in {verb_of(s.action) for s in self._goal_steps}
            ),
        }

    def _words(self, action: str) -> Features:
        """Return the features of a command's words: who says them, and whether they fill a slot."""
        own, names = frozenset(word_stems(action)), names_of(target_of(action))
        features = {
            "in status": word_share(names, names_of(self._status)),
            "in page text": word_share(names, names_of(self._page)),
            "carried words": min(len(own & frozenset(words_of(self._status))), 3) / 3,
        }
        if verb_of(action) in self._slots and action.endswith("]"):
            features["takes text"] = 1.0
            features["share of asked"] = word_share(self._goal["any"], own)
            features["longer text"] = min(len(own), 12) / 12
        return features

    def _followed(self, action: str, related: Sequence[_Step]) -> Features:
        """Return the features of the numbered things that a command names, or goes to."""
        ledger, names = self._ledger, names_of(target_of(action))

        def is_where(things: set[str]) -> float:
            if names & things:
                return 0.0
            places = (ledger.locations[name] for name in things & ledger.locations.keys())
            return max((self._shared(names, at) for at in places), default=0.0)

        things_there = len(numbered(related[-1].answer_names - names)) if related else 0
        since = [s for s in related if not ledger.touched or s.age < ledger.touched]
        carried = bool(names & ledger.carried)
        return {
            "names carried": float(carried),
            "names open": float(bool(names & ledger.open)),
            "names settled": float(bool(names & ledger.settled)),
            "where open": is_where(ledger.open),
            "where settled": is_where(ledger.settled),
            "where value": is_where(ledger.values),
            "carried is asked": float(carried and ledger.carries_goal),
            "verb was done to carried": float(carried and verb_of(action) in ledger.carried_verbs),
            "things there": min(things_there, 8) / 8,
            "nothing there": float(bool(related) and not things_there),
            "gone to since touch": float(bool(since)),
            "times since touch": min(len(since), 4) / 4,
        }

    def _facts(self, is_done: Sequence[bool]) -> Features:
        """Return the page's features."""
        goal, steps, ledger = self._goal, self._steps, self._ledger
        page = one_line(self._page)
        says_thing = [bool(word_share(goal["thing"], stems_of(s.answer))) for s in steps]
        last = (verb_of(steps[-1].action),) if steps else ()
        verbs_on_goal = tuple(verb_of(s.action) for s in self._goal_steps)
        settled = [s for s in self._goal_steps if says_any(s.action, goal["value"])]
        properties = {w for s in self._goal_steps for w in word_stems(s.action)} & goal["property"]
        waits = bool(goal["property"] and self._goal_steps) and len({*verbs_on_goal}) < _CHANGED
        return {
            "step": min(self._step, 50) / 25,
            "late": float(self._step >= 15),
            "very late": float(self._step >= 30),
            "past steps": min(len(steps), 30) / 15,
            "cut history": float(len(steps) < self._step),
            "instruction known": float(bool(self._instruction)),
            "commands": min(len(is_done), 60) / 30,
            "page says thing": word_share(goal["thing"], stems_of(self._page)),
            "page says value": word_share(goal["value"], stems_of(self._page)),
            "page says any": word_share(goal["any"], stems_of(self._page)),
            "status says thing": word_share(goal["thing"], stems_of(self._status)),
            "status says any": word_share(goal["any"], stems_of(self._status)),
            "has status": float(bool(self._status)),
            "takes seen": min(len(self._goal_steps), 6) / 3,
            "related to asked": min(sum(says_thing), 4) / 2,
            "fresh commands": sum(not d for d in is_done) / max(len(is_done), 1),
            "just asked": float(bool(steps) and steps[-1] in self._goal_steps),
            "several": float(len(self._values) > 1),
            "asks property": float(bool(goal["property"])),
            "asked seen and not reached": float(not self._goal_steps and any(says_thing)),
            "times this page": min(sum(s.answer == page for s in steps[:-1]), 4) / 4,
            "things settled": min(len(settled), 3) / 2,
            "properties done": min(len(properties), 3) / 2,
            "property waits": float(waits),
            "carried asked": float(ledger.carries_goal),
            "carried other": float(bool(ledger.carried) and not ledger.carries_goal),
            "open things": min(len(ledger.open), 3) / 3,
            "settled things": min(len(ledger.settled), 3) / 3,
            "verbs done to carried": min(len(ledger.carried_verbs), 4) / 4,
            "since touch": min(ledger.touched, 20) / 20,
            "new names": min(ledger.new, 6) / 6,
            **hashed_words("carried verb", ledger.carried_verbs, _VERBS),
            **hashed_words("thing", self._telling(sorted(goal["thing"])), _WORDS),
            **hashed_words("value", self._telling(sorted(goal["value"])), _WORDS),
            **hashed_words("quality", self._telling(sorted(goal["property"])), _VERBS),
            **hashed_words("page", self._telling(word_stems(self._page)), _WORDS),
            **hashed_words("last verb", last, _VERBS),
            **hashed_words("asked verb", verbs_on_goal, _VERBS),
            **hashed_words("status", self._telling(word_stems(self._status)), _VERBS),
            **{f"offered: {k}": v for k, v in self._page_features.page().items()},
        }

    def _telling(self, words: Sequence[str]) -> tuple[str, ...]:
        """Return ``words`` in a partially observed world; elsewhere the page says all that counts."""
        return tuple(words) if self._is_partial else ()


# Names, stems and hashed words of commands and other short texts ------------------------------------


@lru_cache(maxsize=16384)
def names_of(text: str) -> frozenset[str]:
    """Return the names in a text: words, each with the number that follows it, if any."""
    return frozenset(names_in(one_line(text)))


def names_in(text: str) -> list[str]:
    """Return the names in a text in order, with repeats."""
    return [match[0] for match in _NAMED.finditer(text.lower()) if words_of(match[0])]


def numbered(names: frozenset[str]) -> frozenset[str]:
    """Return the names that have a number."""
    return frozenset(name for name in names if name[-1].isdigit())


@lru_cache(maxsize=16384)
def word_stems(text: str) -> tuple[str, ...]:
    """Return the stems of a command or another text, numbers left out."""
    return tuple(w for w in words_of(text) if not w[0].isdigit())


def says_any(text: str, stems: frozenset[str]) -> bool:
    """Say whether a text holds any of ``stems``."""
    return not stems.isdisjoint(word_stems(text))


def word_share(targets: frozenset[str], own: frozenset[str]) -> float:
    """Return the share of ``targets`` that is in ``own`` (recall), 0 without targets."""
    return len(targets & own) / len(targets) if targets else 0.0


@lru_cache(maxsize=4096)
def stems_of(text: str) -> frozenset[str]:
    """Return the stems of a text as a set."""
    return frozenset(words_of(text))


@lru_cache(maxsize=16384)
def hashed_words(name: str, words: tuple[str, ...], size: int) -> Mapping[str, float]:
    """Return signed counts of ``words`` in ``size`` buckets, scaled to length one: "word 3"."""
    row = [0.0] * size
    for word in words:
        digest = hashlib.blake2b(stem(word).encode(), digest_size=8).digest()
        number = int.from_bytes(digest, "little")
        row[(number >> 1) % size] += 1.0 if number & 1 else -1.0
    length = sum(x * x for x in row) ** 0.5
    return {f"{name} {i}": x / length for i, x in enumerate(row) if x}
