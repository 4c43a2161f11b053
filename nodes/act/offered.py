"""What a page offers beside what is asked, as numbers: entries that compete, choices, what was met.

The general encoder's second half (``nodes.act.general``), for worlds whose views tell the roles of a
page's parts (``envs.protocols.Role``): entries of which one is to be opened, choices of which one value
is to be taken, what the page is about, running text. What is asked of them the aligner says
(``envs.asking``); what came before, the actions that stand in the context, by the view's kinds of
moves, and what is noted beside them. No word of any world stands here.
"""

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from stategate.envs.asking.values import Asked
from stategate.envs.asking.wanted import Wanted, is_excluded
from stategate.envs.protocols import target_of
from stategate.nodes.experience.adapter import OPEN
from stategate.nodes.protocols import BuiltContext, Piece, Step, WorldProfile
from stategate.stores.text import one_line

_CODE = 24  # signs that stand for a kind of move
_AMOUNT = re.compile(r"\$\s?(\d+(?:[.,]\d+)*)")
_WHOLE = 0.95  # share of its words from which a phrase is said
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
_AGREES = ("words", "properties", "whole properties", "least property", "thing", "values", "unsaid")
_ENTRY = (
    "is entry",
    "score",
    "behind the best",
    "behind the best fresh",
    "rank",
    "fresh rank",
    *(f"title {name}" for name in _AGREES),
    "best thing",
    "within limit",
    "beyond limit",
    "amount",
    "share of limit",
    "place",
    "first",
    "tried",
    "times opened",
    "last opened",
    "title known",
    "ahead of the next fresh",
    "fresh above",
    "behind the best above",
    "is met",
    "met",
    *(f"met {name}" for name in _AGREES),
    "ahead of other met",
)
_VALUE = (
    "is value",
    "asked",
    "excluded",
    "none asked",
    "against none",
    "best of choice",
    "is asked",
    "quality",
    "whole",
    "chosen now",
    "choice made",
    "chosen rightly",
    "choice asked",
    "of choice",
    "taken before",
    "against the next",
)
ROW = (
    *(f"move {i}" for i in range(_CODE)),
    *(f"written {i}" for i in range(len(FORMS))),
    *_ENTRY,
    *(f"after opening {i}" for i in range(_CODE)),
    *_VALUE,
)
_PAGE = (
    "has entries",
    "has choices",
    "has subject",
    "has text",
    "steps",
    "from 9",
    "from 13",
    "from 16",
    "steps left",
    "properties asked",
    "nothing described",
    "amount limited",
    "opened",
    "times this one",
    "since opening",
    "texts written",
    "best met",
    "entries",
    "fresh",
    "fresh fits",
    "best fresh",
    "best opened",
    "lead of the best",
    "close to the best",
    *(f"subject {name}" for name in _AGREES),
    "subject told",
    "meets",
    "missing",
    "waiting",
    "any waiting",
    "open choices",
    "unlike",
    "choices",
    "choices asked",
    "something chosen",
    "beyond limit here",
    "within limit here",
    "share of limit here",
    *(f"text {name}" for name in _AGREES),
    "text told",
    *(f"met here {name}" for name in _AGREES),
    "met here",
    "is met here",
    "best other met",
    "ahead of other met here",
)
PAGE = (
    *_PAGE,
    *(
        f"{name} {i}"
        for name in ("last move", "move before", "moves", "moves here", "moves since text")
        for i in range(_CODE)
    ),
)


@dataclass
class _Opened:
    """One of several that was opened: what was done there, what its pages are noted to have met."""

    action: str
    since: list[str] = field(default_factory=list)
    met: str = ""


class Offered:
    """The parts of a context that its view gives a role, read beside what is asked."""

    def __init__(
        self, context: BuiltContext, step: int, profile: WorldProfile, instruction: str
    ) -> None:
        self._told, self._step, self._instruction = profile.experience, step, instruction
        pieces = [piece for piece in context.pieces if piece.text]
        self._entries = [p for p in pieces if p.role == "entry" and len(p.actions) == 1]
        self._choices = [p for p in pieces if p.role == "choice" and p.actions]
        self._subject = "".join(p.text for p in pieces if p.role == "subject")
        self._text = " ".join(one_line(p.text) for p in pieces if p.role == "text")
        self.is_empty = (
            not (instruction and any(p.role for p in pieces)) or profile.partially_observed
        )
        self.texts: dict[str, int] = {}
        if self.is_empty:
            return
        title = self._subject.split("\n")[0]
        named = [(one_line(p.choice), tuple(map(_label, p.actions))) for p in self._choices]
        self._wanted = Wanted.of(instruction, named, title)
        self._title = title
        self.texts = {self._wanted.written(*roles): i for i, roles in enumerate(FORMS)}
        self.texts.pop("", None)
        self._walk([p.step for p in context.shown("history") if p.step is not None])
        self._chosen = context.status
        self._read_entries()
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
            if self._told.move_of(self._instruction, step.action) == OPEN:
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

    def _read_entries(self) -> None:
        wanted = self._wanted
        self._titles = [_title(p) for p in self._entries]
        self._amounts = [_amount(p.text) for p in self._entries]
        self._scores = wanted.scores(self._titles)
        self._is_tried = [
            p.is_visited or one_line(p.actions[0]) in self._met for p in self._entries
        ]
        self._is_fresh = [
            not is_tried and not is_excluded(wanted, amount)
            for is_tried, amount in zip(self._is_tried, self._amounts, strict=True)
        ]

    def row(self, action: str) -> list[float]:
        """Return the numbers of :data:`ROW` of a command."""
        if self.is_empty:
            return _NO_ROW
        form = self.texts.get(target_of(action))
        return [
            *self._coded([action], 1.0),
            *(float(i == form) for i in range(len(FORMS))),
            *self._rows.get(action, _NOTHING),
        ]

    def page(self) -> list[float]:
        """Return the numbers of :data:`PAGE`."""
        if self.is_empty:
            return [0.0] * len(PAGE)
        known = {**self._facts(), **self._of_entries(), **self._of_subject()}
        done = self._done
        here = self._here.since if self._here else []
        return [
            *(float(known.get(name, 0.0)) for name in _PAGE),
            *self._coded(done[-1:], 1.0),
            *self._coded(done[-2:-1], 1.0),
            *self._coded(done),
            *self._coded(here),
            *self._coded(self._since_text),
        ]

    def _coded(self, actions: Sequence[str], scale: float = 1 / 3) -> list[float]:
        """Return the sum of the codes of the actions' moves, each ``scale`` large."""
        codes = [_code(self._told.move_of(self._instruction, a)) for a in actions]
        return [scale * sum(column) for column in zip(*codes, strict=True)] or [0.0] * _CODE

    def _agreement(self, text: str) -> list[float]:
        """Return how far ``text`` says what is asked (:data:`_AGREES`)."""
        wanted = self._wanted
        shares = wanted.phrase_shares(text, "property")
        thing = wanted.share(text, "thing")
        return [
            wanted.share(text),
            sum(shares) / len(shares) if shares else thing,
            sum(share > _WHOLE for share in shares) / max(len(shares), 1),
            min(shares, default=0.0),
            thing,
            wanted.share(text, "value"),
            min(wanted.unsaid(text), 6) / 3,
        ]

    def _met_share(self, text: str) -> float:
        return 0.5 * self._wanted.share(text) + 0.5 * self._wanted.share(text, "value")

    def _others(self, action: str) -> list[float]:
        return [self._met_share(text) for a, text in self._met.items() if a != action and text]

    def _limited(self, amount: float | None) -> list[float]:
        limit = self._wanted.limit
        if amount is None or limit is None:
            return [0.0, 0.0, float(amount is not None), 0.0]
        out = limit.excludes(amount)
        return [float(not out), float(out), 1.0, min(amount / (limit.high or amount or 1.0), 2.0)]

    def _entry_rows(self) -> dict[str, list[float]]:
        rows: dict[str, list[float]] = {}
        scores, fresh = self._scores, self._is_fresh
        order = sorted(range(len(scores)), key=lambda i: -scores[i])
        ranks = {i: place for place, i in enumerate(order)}
        fresh_ranks = {i: place for place, i in enumerate(i for i in order if fresh[i])}
        best = max(scores, default=0.0)
        best_fresh, second = _best_two(s for s, f in zip(scores, fresh, strict=True) if f)
        for i, piece in enumerate(self._entries):
            action, title = one_line(piece.actions[0]), self._titles[i]
            met = self._met.get(action, "")
            told = f"{title}; {met}"
            own = self._met_share(told) if met else 0.0
            since = [a for one in self._opened if one.action == action for a in one.since]
            above = [scores[j] for j in range(i) if fresh[j]]
            opened = sum(one.action == action for one in self._opened)
            rows[piece.actions[0]] = [
                1.0,
                scores[i],
                best - scores[i],
                best_fresh - scores[i],
                ranks[i] / 5,
                fresh_ranks.get(i, 10) / 5,
                *self._agreement(title),
                max(self._wanted.phrase_shares(title, "thing"), default=0.0),
                *self._limited(self._amounts[i]),
                i / 5,
                float(i == 0),
                float(self._is_tried[i]),
                min(opened, 3) / 2,
                float(bool(self._opened) and self._opened[-1].action == action),
                float(bool(title)),
                scores[i] - (second if scores[i] >= best_fresh else best_fresh),
                min(len(above), 10) / 5,
                max(above, default=0.0) - scores[i] if above else 0.0,
                float(bool(met)),
                own,
                *(self._agreement(told) if met else [0.0] * len(_AGREES)),
                own - max(self._others(action), default=0.0) if met else 0.0,
                *self._coded(since),
                *[0.0] * len(_VALUE),
            ]
        return rows

    def _value_rows(self) -> dict[str, list[float]]:
        rows: dict[str, list[float]] = {}
        taken = {one_line(a) for a in (self._here.since if self._here else ())}
        for piece, asked in zip(self._choices, self._wanted.choices, strict=True):
            now, best = self._value_now(piece, asked), asked.best
            ordered = sorted(asked.asked, reverse=True)
            is_asked = asked.asked[best] >= asked.none
            right = now is not None and is_asked and now == asked.values[best]
            for i, action in enumerate(piece.actions):
                quality = asked.spans[i].quality
                other = ordered[1] if i == best and len(ordered) > 1 else ordered[0]
                rows[action] = [
                    *[0.0] * (len(_ENTRY) + _CODE),
                    1.0,
                    asked.asked[i],
                    asked.excluded[i],
                    asked.none,
                    asked.asked[i] - asked.none,
                    float(i == best),
                    float(i == best and is_asked),
                    sum(quality) / len(quality) if quality else 0.0,
                    float(asked.spans[i].is_whole),
                    float(asked.values[i] == now),
                    float(now is not None),
                    float(right),
                    float(is_asked),
                    min(len(asked.values), 20) / 10,
                    float(one_line(action) in taken),
                    asked.asked[i] - other,
                ]
        return rows

    def _value_now(self, piece: Piece, asked: Asked) -> str | None:
        """Return the value that a choice has, by the page's own mark or by the visible actions."""
        if (marked := self._chosen.get(asked.name)) is not None:
            return marked.lower()
        values = dict(zip(map(one_line, piece.actions), asked.values, strict=True))
        since = self._here.since if self._here else ()
        return next((values[a] for a in reversed(since) if a in values), None)

    def _facts(self) -> dict[str, float]:
        wanted, step = self._wanted, self._step
        opened = {one.action for one in self._opened}
        here = self._here
        return {
            "has entries": bool(self._entries),
            "has choices": bool(self._choices),
            "has subject": bool(self._subject),
            "has text": bool(self._text),
            "steps": min(step, _STEPS) / 10,
            "from 9": step >= 9,
            "from 13": step >= 13,
            "from 16": step >= 16,
            "steps left": max(_STEPS - step, 0) / _STEPS,
            "properties asked": min(len(wanted.phrases("property")), 5) / 3,
            "nothing described": not wanted.phrases("property", "thing"),
            "amount limited": wanted.limit is not None,
            "opened": min(len(opened), 6) / 3,
            "texts written": min(self._written, 4) / 2,
            "times this one": min(sum(o.action == here.action for o in self._opened) - 1, 3) / 2
            if here
            else 0.0,
            "since opening": min(len(here.since), 6) / 3 if here else 0.0,
            "best met": max(self._others(""), default=0.0),
        }

    def _of_entries(self) -> dict[str, float]:
        if not self._entries:
            return {}
        fits = [s for s, is_fresh in zip(self._scores, self._is_fresh, strict=True) if is_fresh]
        best, second = _best_two(fits)
        known = (s for s, o in zip(self._scores, self._is_tried, strict=True) if o)
        return {
            "entries": len(self._entries) / 10,
            "fresh": self._is_tried.count(False) / 10,
            "fresh fits": len(fits) / 10,
            "best fresh": best,
            "lead of the best": best - second,
            "best opened": max(known, default=0.0),
            "close to the best": sum(s > best - _CLOSE for s in fits) / 5,
        }

    def _of_subject(self) -> dict[str, float]:
        """Return what the thing shown, its text and what was noted of it say of what is asked."""
        wanted = self._wanted
        known: dict[str, float] = {}
        if self._subject:
            rest = self._subject.partition("\n")[2]
            within, beyond, _, share = self._limited(_amount(rest or self._subject))
            waiting, open_, unlike = self._pending()
            known |= {
                **_named("subject", self._agreement(self._title)),
                "subject told": wanted.share(self._title) >= _WHOLE,
                "meets": wanted.meets(),
                "missing": min(wanted.missing(), 4) / 2,
                "waiting": min(waiting, 4) / 2,
                "any waiting": waiting > 0,
                "open choices": min(open_, 3) / 2,
                "unlike": min(unlike, 3) / 2,
                "choices": len(wanted.choices) / 2,
                "choices asked": sum(c.asked[c.best] >= c.none for c in wanted.choices) / 2,
                "something chosen": bool(self._chosen),
                "within limit here": within,
                "beyond limit here": beyond,
                "share of limit here": share,
            }
        if self._text:
            known |= _named("text", self._agreement(self._text))
            known["text told"] = wanted.share(self._text) >= _WHOLE
        if self._here is not None:
            before = self._met.get(self._here.action, "")
            told = f"{self._title}{self._text}; {before}"
            others = max(self._others(self._here.action), default=0.0)
            known |= {
                **_named("met here", self._agreement(told)),
                "met here": self._met_share(told),
                "is met here": bool(before),
                "best other met": others,
                "ahead of other met here": self._met_share(told) - others,
            }
        return known

    def _pending(self) -> tuple[int, int, int]:
        """Count choices whose asked value is open, those without one, those with one only alike."""
        waiting = open_ = unlike = 0
        for piece, asked in zip(self._choices, self._wanted.choices, strict=True):
            best = asked.best
            if asked.asked[best] >= asked.none:
                waiting += self._value_now(piece, asked) != asked.values[best]
                unlike += not asked.spans[best].is_whole
            else:
                open_ += 1
        return waiting, open_, unlike


_NO_ROW = [0.0] * len(ROW)
_NOTHING = [0.0] * (len(_ENTRY) + _CODE + len(_VALUE))


def _named(lead: str, values: Sequence[float]) -> dict[str, float]:
    return {f"{lead} {name}": value for name, value in zip(_AGREES, values, strict=True)}


@lru_cache(maxsize=4096)
def _code(move: str) -> tuple[float, ...]:
    """Return signs that stand for a kind of move: those of a few moves are told apart by any layer."""
    bits = int.from_bytes(hashlib.blake2b(move.encode(), digest_size=8).digest(), "little")
    return tuple(1.0 if bits >> i & 1 else -1.0 for i in range(_CODE))


def _label(action: str) -> str:
    return one_line(target_of(action))


def _title(piece: Piece) -> str:
    """Return what an entry says beside the name of its command, without amounts."""
    text = one_line(piece.text)
    label = _label(piece.actions[0])
    at = text.lower().find(label.lower())
    return _AMOUNT.sub("", text[at + len(label) :] if at >= 0 else text).strip(" |")


def _amount(text: str) -> float | None:
    found = _AMOUNT.search(text)
    return float(found[1].replace(",", "")) if found else None


def _best_two(values: Iterable[float]) -> tuple[float, float]:
    first, second, *_ = (*sorted(values, reverse=True)[:2], 0.0, 0.0)
    return first, second
