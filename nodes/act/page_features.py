"""What a page offers beside what is asked, as named numbers: entries that compete, choices, texts.

Both encoders of the ``policy`` actor share these features. What is asked the aligner says
(``language.instruction``); a feature that does not apply is absent, which counts as 0.
:class:`PageFeatures` computes them for any world whose view tells the roles of a page's parts
(``envs.protocols.Role``). No word of any world stands here.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from stategate.envs.protocols import target_of
from stategate.language.instruction.choices import Asked
from stategate.language.instruction.wanted import Wanted, is_excluded
from stategate.nodes.experience.adapter import OPEN
from stategate.nodes.protocols import BuiltContext, Piece, Step, WorldProfile
from stategate.stores.text import one_line

#: Numbers by name.
Features = dict[str, float]

_CODE = 24  # signs that stand for a kind of move
WHOLE = 0.95  # share of its words from which a phrase is said
_CLOSE = 0.1  # of the best entry's score, below which another is as good
_STEPS = 20
#: What is written where text is wanted, by the roles of its words.
FORMS = (
    ("thing", "property", "value"),
    ("thing", "property"),
    ("thing", "value"),
    ("thing",),
    ("thing", "property", "value", "talk"),
)


@dataclass(frozen=True)
class Entry:
    """One of several things that compete; ``key`` is what opens it, ``amount`` None if not shown."""

    key: str
    title: str
    amount: float | None
    is_visited: bool


def agreement(lead: str, wanted: Wanted, text: str) -> Features:
    """Return how far ``text`` says what is asked, under names that begin with ``lead``."""
    shares = wanted.phrase_shares(text, "property")
    thing = wanted.share(text, "thing")
    return {
        f"{lead} words": wanted.share(text),
        f"{lead} properties": sum(shares) / len(shares) if shares else thing,
        f"{lead} whole properties": sum(share > WHOLE for share in shares) / max(len(shares), 1),
        f"{lead} least property": min(shares, default=0.0),
        f"{lead} thing": thing,
        f"{lead} values": wanted.share(text, "value"),
        f"{lead} unsaid": min(wanted.unsaid(text), 6) / 3,
    }


def amount_features(wanted: Wanted, amount: float | None) -> Features:
    """Return where an amount lies beside the limit that is asked."""
    limit = wanted.limit
    if amount is None or limit is None:
        return {"amount": float(amount is not None)}
    out = limit.excludes(amount)
    share = min(amount / (limit.high or amount or 1.0), 2.0)
    return {
        "amount": 1.0,
        "within limit": float(not out),
        "beyond limit": float(out),
        "share of limit": share,
    }


def _met_share(wanted: Wanted, text: str) -> float:
    """Return how far ``text`` says the thing and its properties (half of it) and its values."""
    return 0.5 * wanted.share(text) + 0.5 * wanted.share(text, "value")


def best_met(wanted: Wanted, met: Mapping[str, str], but: str | None = None) -> float:
    """Return how far the best of the things opened before, without ``but``, met what is asked."""
    shares = (_met_share(wanted, text) for key, text in met.items() if key != but and text)
    return max(shares, default=0.0)


def met_features(wanted: Wanted, shown: str, met: Mapping[str, str], key: str | None) -> Features:
    """Return how far what is ``shown`` of a thing, and what it met before, say what is asked."""
    before = met.get(key or "", "")
    text = f"{shown}; {before}"
    own, others = _met_share(wanted, text), best_met(wanted, met, key)
    return {
        **agreement("met here", wanted, text),
        "met here": own,
        "is met here": float(bool(before)),
        "best other met": others,
        "ahead of other met here": own - others,
    }


class Entries:
    """Things that compete on a page. ``opened`` are the keys opened so far, ``met`` what each met."""

    def __init__(
        self,
        wanted: Wanted,
        entries: Sequence[Entry],
        opened: Sequence[str],
        met: Mapping[str, str],
    ) -> None:
        self._wanted, self.entries, self._opened, self._met = wanted, entries, opened, met
        self.scores = wanted.scores([entry.title for entry in entries])
        self._is_tried = [entry.is_visited or entry.key in opened for entry in entries]
        self._is_fresh = [
            not is_tried and not is_excluded(wanted, entry.amount)
            for is_tried, entry in zip(self._is_tried, entries, strict=True)
        ]
        fresh = [s for s, f in zip(self.scores, self._is_fresh, strict=True) if f]
        self._best_fresh, self._second = _best_two(fresh)
        self.page = self._page(fresh) if entries else {}

    def _page(self, fresh: Sequence[float]) -> Features:
        best = self._best_fresh
        known = (s for s, tried in zip(self.scores, self._is_tried, strict=True) if tried)
        return {
            "entries": len(self.entries) / 10,
            "fresh": self._is_tried.count(False) / 10,
            "fresh fits": len(fresh) / 10,
            "best fresh": best,
            "lead of the best": best - self._second,
            "best opened": max(known, default=0.0),
            "close to the best": sum(s > best - _CLOSE for s in fresh) / 5,
        }

    def rows(self) -> list[Features]:
        """Return the features of each entry."""
        order = sorted(range(len(self.scores)), key=lambda i: -self.scores[i])
        ranks = {i: rank for rank, i in enumerate(order)}
        fresh_ranks = {i: rank for rank, i in enumerate(i for i in order if self._is_fresh[i])}
        return [
            {
                **self._standing(i, ranks[i], fresh_ranks.get(i, 10)),
                **self._known(entry, self._is_tried[i]),
            }
            for i, entry in enumerate(self.entries)
        ]

    def _standing(self, i: int, rank: int, fresh_rank: int) -> Features:
        """Return how an entry stands among its rivals."""
        score, best = self.scores[i], self._best_fresh
        above = [self.scores[j] for j in range(i) if self._is_fresh[j]]
        return {
            "is entry": 1.0,
            "score": score,
            "behind the best": max(self.scores) - score,
            "behind the best fresh": best - score,
            "rank": rank / 5,
            "fresh rank": fresh_rank / 5,
            "ahead of the next fresh": score - (self._second if score >= best else best),
            "place": i / 5,
            "first": float(i == 0),
            "fresh above": min(len(above), 10) / 5,
            "behind the best above": max(above, default=0.0) - score if above else 0.0,
        }

    def _known(self, entry: Entry, is_tried: bool) -> Features:
        """Return what an entry's line says, and what is known of it."""
        wanted, met = self._wanted, self._met.get(entry.key, "")
        row = {
            **agreement("title", wanted, entry.title),
            **amount_features(wanted, entry.amount),
            "best thing": max(wanted.phrase_shares(entry.title, "thing"), default=0.0),
            "title known": float(bool(entry.title)),
            "tried": float(is_tried),
            "times opened": min(self._opened.count(entry.key), 3) / 2,
            "last opened": float(self._opened[-1:] == [entry.key]),
        }
        if met:
            text = f"{entry.title}; {met}"
            own = _met_share(wanted, text)
            row |= {
                **agreement("met", wanted, text),
                "is met": 1.0,
                "met": own,
                "ahead of other met": own - best_met(wanted, self._met, entry.key),
            }
        return row


def value_features(asked: Asked, i: int, now: str | None, is_taken: bool) -> Features:
    """Return the features of value ``i`` of a choice that stands at the value ``now`` (None: open)."""
    best, span = asked.best, asked.spans[i]
    ordered = sorted(asked.asked, reverse=True)
    other = ordered[1] if i == best and len(ordered) > 1 else ordered[0]
    is_asked = asked.asked[best] >= asked.none
    return {
        "is value": 1.0,
        "asked": asked.asked[i],
        "excluded": asked.excluded[i],
        "none asked": asked.none,
        "against none": asked.asked[i] - asked.none,
        "best of choice": float(i == best),
        "is asked": float(i == best and is_asked),
        "quality": sum(span.quality) / len(span.quality) if span.quality else 0.0,
        "whole": float(span.is_whole),
        "chosen now": float(asked.values[i] == now),
        "choice made": float(now is not None),
        "chosen rightly": float(is_asked and asked.values[best] == now),
        "choice asked": float(is_asked),
        "of choice": min(len(asked.values), 20) / 10,
        "taken before": float(is_taken),
        "against the next": asked.asked[i] - other,
    }


def subject_features(
    wanted: Wanted, title: str, amount: float | None, values: Sequence[str | None]
) -> Features:
    """Return what the thing that is shown says; ``values`` are those that its choices stand at."""
    waiting = open_ = unlike = 0
    for asked, now in zip(wanted.choices, values, strict=True):
        if asked.asked[asked.best] >= asked.none:
            waiting += now != asked.values[asked.best]
            unlike += not asked.spans[asked.best].is_whole
        else:
            open_ += 1
    return {
        **agreement("subject", wanted, title),
        **{f"{name} here": value for name, value in amount_features(wanted, amount).items()},
        "subject told": float(wanted.share(title) >= WHOLE),
        "meets": wanted.meets(),
        "missing": min(wanted.missing(), 4) / 2,
        "waiting": min(waiting, 4) / 2,
        "any waiting": float(waiting > 0),
        "open choices": min(open_, 3) / 2,
        "unlike": min(unlike, 3) / 2,
        "choices": len(wanted.choices) / 2,
        "choices asked": sum(c.asked[c.best] >= c.none for c in wanted.choices) / 2,
    }


def step_features(wanted: Wanted, step: int, opened: Iterable[str]) -> Features:
    """Return how far the episode is, and how much is asked."""
    return {
        "steps": min(step, _STEPS) / 10,
        "from 9": float(step >= 9),
        "from 13": float(step >= 13),
        "from 16": float(step >= 16),
        "steps left": max(_STEPS - step, 0) / _STEPS,
        "properties asked": min(len(wanted.phrases("property")), 5) / 3,
        "nothing described": float(not wanted.phrases("property", "thing")),
        "amount limited": float(wanted.limit is not None),
        "opened": min(len(set(opened)), 6) / 3,
    }


def _best_two(values: Iterable[float]) -> tuple[float, float]:
    first, second, *_ = (*sorted(values, reverse=True)[:2], 0.0, 0.0)
    return first, second


# Of any world -------------------------------------------------------------------------------------


@dataclass
class _Opened:
    """One of several that was opened: what was done there, what its pages are noted to have met."""

    action: str
    since: list[str] = field(default_factory=list)
    met: str = ""


class PageFeatures:
    """The parts of a context that its view gives a role, read beside what is asked."""

    def __init__(
        self, context: BuiltContext, step: int, profile: WorldProfile, instruction: str
    ) -> None:
        self._experience, self._step, self._instruction = profile.experience, step, instruction
        pieces = [piece for piece in context.pieces if piece.text]
        has_roles = bool(instruction) and any(piece.role for piece in pieces)
        self.is_empty = not has_roles or profile.partially_observed
        self.texts: dict[str, int] = {}
        if self.is_empty:
            return
        self._entries = [p for p in pieces if p.role == "entry" and len(p.actions) == 1]
        self._choices = [p for p in pieces if p.role == "choice" and p.actions]
        self._subject = [p for p in pieces if p.role == "subject"]
        self._title = " ".join(filter(None, (p.says("title") for p in self._subject)))
        self._text = " ".join(one_line(p.text) for p in pieces if p.role == "text")
        named = [(one_line(p.choice), tuple(map(_label, p.actions))) for p in self._choices]
        self._wanted = Wanted.of(instruction, named, self._title)
        self.texts = texts_of(self._wanted)
        self._walk([p.step for p in context.shown("history") if p.step is not None])
        self._chosen = context.status
        rivals = [
            Entry(one_line(p.actions[0]), p.says("title"), amount_of(p), p.is_visited)
            for p in self._entries
        ]
        opened = [one.action for one in self._opened]
        self._rivals = Entries(self._wanted, rivals, opened, self._met)
        self._rows = {**self._entry_rows(), **self._value_rows()}

    def _walk(self, steps: Sequence[Step]) -> None:
        """Walk through the visible actions, oldest first."""
        self._done: list[str] = []
        self._opened: list[_Opened] = []
        self._since_text: list[str] = []
        self._written = 0
        for step in steps:
            self._done.append(step.action)
            if target_of(step.action).lower() in self.texts:
                self._since_text = []
                self._written += 1
            else:
                self._since_text.append(step.action)
            if self._experience.move_of(self._instruction, step.action) == OPEN:
                self._opened.append(_Opened(step.action))
            elif self._opened:
                self._opened[-1].since.append(step.action)
            if step.note and self._opened:
                self._opened[-1].met += step.note + "; "
        self._met: dict[str, str] = {}
        for one in self._opened:
            self._met[one.action] = self._met.get(one.action, "") + one.met
        # Where something is shown by itself, or its text, it is what was opened last.
        self._here = self._opened[-1] if self._opened and not self._entries else None

    def row(self, action: str) -> Features:
        """Return the features of a command."""
        if self.is_empty:
            return {}
        known = {**self._coded("move", [action], 1.0), **self._rows.get(action, {})}
        form = self.texts.get(target_of(action))
        return known if form is None else {**known, f"written {form}": 1.0}

    def page(self) -> Features:
        """Return the features of the page."""
        if self.is_empty:
            return {}
        done = self._done
        here = self._here.since if self._here else []
        return {
            **step_features(self._wanted, self._step, self._met),
            **self._facts(),
            **self._rivals.page,
            **self._of_subject(),
            **self._coded("last move", done[-1:], 1.0),
            **self._coded("move before", done[-2:-1], 1.0),
            **self._coded("moves", done),
            **self._coded("moves here", here),
            **self._coded("moves since text", self._since_text),
        }

    def _coded(self, name: str, actions: Sequence[str], scale: float = 1 / 3) -> Features:
        """Return the sum of the codes of the actions' moves, each ``scale`` large."""
        codes = [_code(self._experience.move_of(self._instruction, a)) for a in actions]
        sums = (scale * sum(column) for column in zip(*codes, strict=True))
        return {f"{name} {i}": value for i, value in enumerate(sums)}

    def _entry_rows(self) -> dict[str, Features]:
        rows = {}
        for piece, row in zip(self._entries, self._rivals.rows(), strict=True):
            key = one_line(piece.actions[0])
            since = [a for one in self._opened if one.action == key for a in one.since]
            rows[piece.actions[0]] = {**row, **self._coded("after opening", since)}
        return rows

    def _value_rows(self) -> dict[str, Features]:
        taken = {one_line(a) for a in (self._here.since if self._here else ())}
        return {
            action: value_features(asked, i, now, one_line(action) in taken)
            for piece, asked, now in zip(
                self._choices, self._wanted.choices, self._values(), strict=True
            )
            for i, action in enumerate(piece.actions)
        }

    def _values(self) -> list[str | None]:
        """Return the value of each choice, by the page's own mark or by the visible actions."""
        since = self._here.since if self._here else ()
        found: list[str | None] = []
        for piece, asked in zip(self._choices, self._wanted.choices, strict=True):
            values = dict(zip(map(one_line, piece.actions), asked.values, strict=True))
            taken = next((values[a] for a in reversed(since) if a in values), None)
            marked = self._chosen.get(asked.name)
            found.append(taken if marked is None else marked.lower())
        return found

    def _facts(self) -> Features:
        here = self._here
        known = {
            "has entries": float(bool(self._entries)),
            "has choices": float(bool(self._choices)),
            "has subject": float(bool(self._subject)),
            "has text": float(bool(self._text)),
            "texts written": min(self._written, 4) / 2,
            "best met": best_met(self._wanted, self._met),
        }
        if here is not None:
            times = sum(one.action == here.action for one in self._opened)
            known["times this one"] = min(times - 1, 3) / 2
            known["since opening"] = min(len(here.since), 6) / 3
        return known

    def _of_subject(self) -> Features:
        """Return what the thing shown, its text and what was noted of it say of what is asked."""
        wanted = self._wanted
        known: Features = {}
        if self._subject:
            known |= subject_features(
                wanted, self._title, amount_of(*self._subject), self._values()
            )
            known["something chosen"] = float(bool(self._chosen))
        if self._text:
            known |= agreement("text", wanted, self._text)
            known["text told"] = float(wanted.share(self._text) >= WHOLE)
        if self._here is not None:
            shown = self._title + self._text
            known |= met_features(wanted, shown, self._met, self._here.action)
        return known


def texts_of(wanted: Wanted) -> dict[str, int]:
    """Return the texts to write where text is wanted, each with the number of its form."""
    texts = {wanted.written(*roles): i for i, roles in enumerate(FORMS)}
    texts.pop("", None)
    return texts


def amount_of(*pieces: Piece) -> float | None:
    """Return the first amount that is shown, None where none is."""
    amounts = (fragment.amount for piece in pieces for fragment in piece.fragments)
    return next((amount for amount in amounts if amount is not None), None)


@lru_cache(maxsize=4096)
def _code(move: str) -> tuple[float, ...]:
    """Return signs that stand for a kind of move: those of a few moves are told apart by any layer."""
    bits = int.from_bytes(hashlib.blake2b(move.encode(), digest_size=8).digest(), "little")
    return tuple(1.0 if bits >> i & 1 else -1.0 for i in range(_CODE))


def _label(action: str) -> str:
    return one_line(target_of(action))
