"""Named features of a page that is aligned with the goal: competing entries, choices, texts.

``language.instruction`` aligns the goal; a feature that does not apply is absent, which counts as 0.
:class:`PageFeatures` computes them for any world whose view gives a page's parts their roles
(``envs.protocols.Role``). No word of any world stands here.
"""

import hashlib
from collections.abc import Mapping, Sequence
from functools import lru_cache

from stategate.envs.protocols import target_of
from stategate.language.instruction.aligned import AlignedInstruction
from stategate.language.instruction.choices import ChoiceScores
from stategate.nodes.experience.adapter import OPEN, ExperienceAdapter
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


def agreement(lead: str, goal: AlignedInstruction, text: str) -> Features:
    """Return the features of ``text`` against the goal, under names that begin with ``lead``."""
    shares = goal.phrase_shares(text, "property")
    thing = goal.share(text, "thing")
    return {
        f"{lead} words": goal.share(text),
        f"{lead} properties": sum(shares) / len(shares) if shares else thing,
        f"{lead} whole properties": sum(share > WHOLE for share in shares) / max(len(shares), 1),
        f"{lead} least property": min(shares, default=0.0),
        f"{lead} thing": thing,
        f"{lead} values": goal.share(text, "value"),
        f"{lead} unsaid": min(goal.unsaid(text), 6) / 3,
    }


def amount_features(goal: AlignedInstruction, amount: float | None) -> Features:
    """Return the features of an amount against the goal's limit."""
    limit = goal.parsed.limit
    if amount is None or limit is None:
        return {"amount": float(amount is not None)}
    out = goal.parsed.excludes(amount)
    share = min(amount / (limit.high or amount or 1.0), 2.0)
    return {
        "amount": 1.0,
        "within limit": float(not out),
        "beyond limit": float(out),
        "share of limit": share,
    }


def match_share(goal: AlignedInstruction, text: str) -> float:
    """Return the share of the goal's words that ``text`` says; half of it counts the values."""
    return 0.5 * goal.share(text) + 0.5 * goal.share(text, "value")


def best_match(
    goal: AlignedInstruction, notes: Mapping[str, str], skip: str | None = None
) -> float:
    """Return the highest match share of the opened things' notes, without that of ``skip``."""
    shares = (match_share(goal, text) for key, text in notes.items() if key != skip and text)
    return max(shares, default=0.0)


def value_features(choice: ChoiceScores, i: int, now: str | None, is_taken: bool) -> Features:
    """Return the features of value ``i`` of a choice whose current value is ``now`` (None: open)."""
    best, span = choice.best, choice.spans[i]
    ordered = sorted(choice.requested, reverse=True)
    other = ordered[1] if i == best and len(ordered) > 1 else ordered[0]
    is_requested = choice.requested[best] >= choice.none
    return {
        "is value": 1.0,
        "asked": choice.requested[i],
        "excluded": choice.excluded[i],
        "none asked": choice.none,
        "against none": choice.requested[i] - choice.none,
        "best of choice": float(i == best),
        "is asked": float(i == best and is_requested),
        "quality": sum(span.quality) / len(span.quality) if span.quality else 0.0,
        "whole": float(span.is_whole),
        "chosen now": float(choice.values[i] == now),
        "choice made": float(now is not None),
        "chosen rightly": float(is_requested and choice.values[best] == now),
        "choice asked": float(is_requested),
        "of choice": min(len(choice.values), 20) / 10,
        "taken before": float(is_taken),
        "against the next": choice.requested[i] - other,
    }


class PageReading:
    """The visible parts of a page by role, aligned with the goal, and the visible actions so far.

    ``choices`` are the pieces of ``goal.choices``, ``chosen`` the status values by name. ``opened`` are
    the entries that were opened, each with the actions taken there, ``notes`` the history's notes on
    each; ``here`` is the one that is shown ("" for none), ``since`` the actions since it was opened.
    Builders drop and cut lines: a part that is not shown is empty here, and nothing raises.
    """

    def __init__(self, context: BuiltContext, adapter: ExperienceAdapter) -> None:
        self.entries, self.choices, self.subject, self.details = (
            [piece for piece in context.pieces if piece.role == role and piece.text]
            for role in ("entry", "choice", "subject", "text")
        )
        self.entries = [piece for piece in self.entries if len(piece.actions) == 1]
        self.choices = [piece for piece in self.choices if piece.actions]
        self.title = " ".join(filter(None, (p.says("title") for p in self.subject)))
        named = [
            (one_line(p.choice), tuple(one_line(target_of(action)) for action in p.actions))
            for p in self.choices
        ]
        self.goal = AlignedInstruction.of(context.instruction, named, self.title)
        self.chosen = context.status
        self.done: list[str] = []
        self.opened: list[tuple[str, list[str]]] = []
        self.notes: dict[str, str] = {}
        for step in (p.step for p in context.visible("history")):
            if step is not None:
                self._add(step, adapter.move_of(context.instruction, step.action) == OPEN)
        # Where something is shown by itself, or its text, it is what was opened last.
        is_here = bool(self.opened) and not self.entries
        self.here, self.since = self.opened[-1] if is_here else ("", [])

    def _add(self, step: Step, opens: bool) -> None:
        """Go on by one visible step."""
        self.done.append(step.action)
        if opens:
            self.opened.append((step.action, []))
            self.notes.setdefault(step.action, "")
        elif self.opened:
            self.opened[-1][1].append(step.action)
        if step.note and self.opened:
            self.notes[self.opened[-1][0]] += step.note + "; "


class PageFeatures(PageReading):
    """The features of a context whose view gives the page's parts their roles."""

    def __init__(self, context: BuiltContext, step: int, profile: WorldProfile) -> None:
        instruction = context.instruction
        self._experience, self._step, self._instruction = profile.experience, step, instruction
        has_roles = bool(instruction) and any(p.role and p.text for p in context.pieces)
        self.is_empty = not has_roles or profile.partially_observed
        self.texts = texts_of(AlignedInstruction.of(instruction))
        if self.is_empty:
            return
        super().__init__(context, profile.experience)
        self._text = " ".join(one_line(piece.text) for piece in self.details)
        written = [i for i, a in enumerate(self.done) if target_of(a).lower() in self.texts]
        self._written = len(written)
        self._since_text = self.done[written[-1] + 1 if written else 0 :]
        self._current = self._current_values()
        entries, self._listing = self._entry_rows()
        self._rows = {**entries, **self._value_rows()}

    def row(self, action: str) -> Features:
        """Return the features of a command."""
        if self.is_empty:
            return {}
        features = {**self._coded("move", [action], 1.0), **self._rows.get(action, {})}
        form = self.texts.get(target_of(action))
        return features if form is None else {**features, f"written {form}": 1.0}

    def page(self) -> Features:
        """Return the features of the page."""
        if self.is_empty:
            return {}
        done = self.done
        return {
            **self._progress(),
            **self._listing,
            **self._of_subject(),
            **self._coded("last move", done[-1:], 1.0),
            **self._coded("move before", done[-2:-1], 1.0),
            **self._coded("moves", done),
            **self._coded("moves here", self.since),
            **self._coded("moves since text", self._since_text),
        }

    def _coded(self, name: str, actions: Sequence[str], scale: float = 1 / 3) -> Features:
        """Return the summed codes of the actions' moves, scaled by ``scale``."""
        codes = [_code(self._experience.move_of(self._instruction, a)) for a in actions]
        sums = (scale * sum(column) for column in zip(*codes, strict=True))
        return {f"{name} {i}": value for i, value in enumerate(sums)}

    def _entry_rows(self) -> tuple[dict[str, Features], Features]:
        """Return the features of each competing entry, by its command, and those of all together."""
        goal, entries = self.goal, self.entries
        if not entries:
            return {}, {}
        opened = [action for action, _ in self.opened]
        keys = [one_line(p.actions[0]) for p in entries]
        scores = goal.scores([p.says("title") for p in entries])
        tried = [p.is_visited or key in opened for p, key in zip(entries, keys, strict=True)]
        ranked = sorted(range(len(entries)), key=lambda i: -scores[i])
        excludes = goal.parsed.excludes
        fresh = [i for i in ranked if not tried[i] and not excludes(amount_of(entries[i]))]
        best, second = (*(scores[i] for i in fresh[:2]), 0.0, 0.0)[:2]
        rows: dict[str, Features] = {}
        for i, (piece, key, score) in enumerate(zip(entries, keys, scores, strict=True)):
            above = [scores[j] for j in fresh if j < i]
            since = [a for action, then in self.opened if action == key for a in then]
            rows[piece.actions[0]] = {
                "is entry": 1.0,
                "score": score,
                "behind the best": max(scores) - score,
                "behind the best fresh": best - score,
                "rank": ranked.index(i) / 5,
                "fresh rank": (fresh.index(i) if i in fresh else 10) / 5,
                "ahead of the next fresh": score - (second if score >= best else best),
                "place": i / 5,
                "first": float(i == 0),
                "fresh above": min(len(above), 10) / 5,
                "behind the best above": max(above) - score if above else 0.0,
                "tried": float(tried[i]),
                "times opened": min(opened.count(key), 3) / 2,
                "last opened": float(opened[-1:] == [key]),
                **self._entry_match(piece, key),
                **self._coded("after opening", since),
            }
        return rows, {
            "entries": len(entries) / 10,
            "fresh": tried.count(False) / 10,
            "fresh fits": len(fresh) / 10,
            "best fresh": best,
            "lead of the best": best - second,
            "best opened": max((scores[i] for i in ranked if tried[i]), default=0.0),
            "close to the best": sum(scores[i] > best - _CLOSE for i in fresh) / 5,
        }

    def _entry_match(self, piece: Piece, key: str) -> Features:
        """Return the match features of an entry: its title, amount and notes."""
        goal, title, note = self.goal, piece.says("title"), self.notes.get(key, "")
        row = {
            **agreement("title", goal, title),
            **amount_features(goal, amount_of(piece)),
            "best thing": max(goal.phrase_shares(title, "thing"), default=0.0),
            "title known": float(bool(title)),
        }
        if note:
            text = f"{title}; {note}"
            own = match_share(goal, text)
            row |= {
                **agreement("met", goal, text),
                "is met": 1.0,
                "met": own,
                "ahead of other met": own - best_match(goal, self.notes, key),
            }
        return row

    def _value_rows(self) -> dict[str, Features]:
        done_here = {one_line(a) for a in self.since}
        choices = zip(self.choices, self.goal.choices, self._current, strict=True)
        return {
            action: value_features(choice, i, now, one_line(action) in done_here)
            for piece, choice, now in choices
            for i, action in enumerate(piece.actions)
        }

    def _current_values(self) -> list[str | None]:
        """Return each choice's current value, by the page's mark or else by the visible actions."""
        since = self.since
        current: list[str | None] = []
        for piece, choice in zip(self.choices, self.goal.choices, strict=True):
            values = dict(zip(map(one_line, piece.actions), choice.values, strict=True))
            last_action = next((values[a] for a in reversed(since) if a in values), None)
            marked = self.chosen.get(choice.name)
            current.append(last_action if marked is None else marked.lower())
        return current

    def _progress(self) -> Features:
        """Return the features of the episode's progress, the goal's size and the kind of page."""
        goal, step = self.goal, self._step
        features = {
            "steps": min(step, _STEPS) / 10,
            **{f"from {late}": float(step >= late) for late in (9, 13, 16)},
            "steps left": max(_STEPS - step, 0) / _STEPS,
            "properties asked": min(len(goal.parsed.phrases("property")), 5) / 3,
            "nothing described": float(not goal.parsed.phrases("property", "thing")),
            "amount limited": float(goal.parsed.limit is not None),
            "opened": min(len(self.notes), 6) / 3,
            "has entries": float(bool(self.entries)),
            "has choices": float(bool(self.choices)),
            "has subject": float(bool(self.subject)),
            "has text": float(bool(self._text)),
            "texts written": min(self._written, 4) / 2,
            "best met": best_match(goal, self.notes),
        }
        if self.here:
            times = sum(action == self.here for action, _ in self.opened)
            features["times this one"] = min(times - 1, 3) / 2
            features["since opening"] = min(len(self.since), 6) / 3
        return features

    def _of_subject(self) -> Features:
        """Return the match features of the page's subject, its text and its notes."""
        goal = self.goal
        features: Features = {}
        if self.subject:
            against_limit = amount_features(goal, amount_of(*self.subject))
            against_limit.pop("amount")  # a subject shows its amount nearly always
            features |= {
                **agreement("subject", goal, self.title),
                **{f"{name} here": value for name, value in against_limit.items()},
                "subject told": float(goal.share(self.title) >= WHOLE),
                "meets": goal.meets(),
                "missing": min(goal.missing(), 4) / 2,
                "something chosen": float(bool(self.chosen)),
                **self._choice_counts(),
            }
        if self._text:
            features |= agreement("text", goal, self._text)
            features["text told"] = float(goal.share(self._text) >= WHOLE)
        if key := self.here:
            text = f"{self.title + self._text}; {self.notes[key]}"
            own, others = match_share(goal, text), best_match(goal, self.notes, key)
            features |= {
                **agreement("met here", goal, text),
                "met here": own,
                "is met here": float(bool(self.notes[key])),
                "best other met": others,
                "ahead of other met here": own - others,
            }
        return features

    def _choice_counts(self) -> Features:
        """Return how many choices are asked, wait for their value, or are open."""
        choices = list(zip(self.goal.choices, self._current, strict=True))
        requested = [(c, now) for c, now in choices if c.requested[c.best] >= c.none]
        waiting = sum(now != choice.values[choice.best] for choice, now in requested)
        unlike = sum(not choice.spans[choice.best].is_whole for choice, _ in requested)
        return {
            "waiting": min(waiting, 4) / 2,
            "any waiting": float(waiting > 0),
            "open choices": min(len(choices) - len(requested), 3) / 2,
            "unlike": min(unlike, 3) / 2,
            "choices": len(choices) / 2,
            "choices asked": len(requested) / 2,
        }


def texts_of(goal: AlignedInstruction) -> dict[str, int]:
    """Return the texts that fill a text slot, each with the number of its form."""
    texts = {goal.written(*roles): i for i, roles in enumerate(FORMS)}
    texts.pop("", None)
    return texts


def amount_of(*pieces: Piece) -> float | None:
    """Return the first visible amount, or None."""
    amounts = (fragment.amount for piece in pieces for fragment in piece.fragments)
    return next((amount for amount in amounts if amount is not None), None)


@lru_cache(maxsize=4096)
def _code(move: str) -> tuple[float, ...]:
    """Return the random sign code of a kind of move."""
    bits = int.from_bytes(hashlib.blake2b(move.encode(), digest_size=8).digest(), "little")
    return tuple(1.0 if bits >> i & 1 else -1.0 for i in range(_CODE))
