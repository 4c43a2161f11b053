"""Long conversations made up by rule, in LoCoMo's format: a development set that anyone can make again.

    stategate eval locomo home --out runs/home

Two persons talk over months in some sixteen sessions: things that happen to either (so that the other
is a distractor), states that change, series that only several sessions tell, small talk in between.
Questions name the turns that hold their answers: single-hop, multi-hop, temporal, knowledge-update, and
questions about what nobody said. A family is a file of material (``families/``): ``home`` is what
is tuned on, ``work`` is held out. What a rule makes is easier and more alike than what people say.
"""

import json
import random
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

from stategate.stores.errors import UserError

FAMILIES = ("home", "work")
CONVERSATIONS, SESSIONS = 12, 16
_CATEGORY = {"multi-hop": 1, "temporal": 2, "single-hop": 4, "unsaid": 5, "knowledge-update": 6}
_NUMBERS = {2: "two", 3: "three", 4: "four", 5: "five", 6: "six"}
Values = Mapping[str, Any]
#: The ids of the turns of each of several exchanges.
Told = list[list[str]]


def generate(
    family: str, conversations: int = CONVERSATIONS, seed: int = 0
) -> list[dict[str, Any]]:
    """Return conversations in LoCoMo's format. Raises ``UserError`` for an unknown family."""
    if family not in FAMILIES:
        raise UserError(f"no family '{family}' of dialogues: one of {', '.join(FAMILIES)}")
    return [
        _Talk(_material(family), f"{family}-{i}", seed + i).made() for i in range(conversations)
    ]


def generated_text(family: str, conversations: int = CONVERSATIONS, seed: int = 0) -> str:
    """Return the conversations as the text of a JSON file."""
    return json.dumps(generate(family, conversations, seed), indent=1, ensure_ascii=False) + "\n"


@lru_cache(maxsize=4)
def _material(family: str) -> Any:
    import yaml

    path = Path(__file__).parent / "families" / f"{family}.yaml"
    return yaml.safe_load(path.read_text(encoding="utf-8"))


class _Talk:
    """One conversation while it is made; every draw is of one seeded generator, in a fixed order."""

    def __init__(self, material: Values, name: str, seed: int) -> None:
        self.material = material
        self.random = random.Random(f"{name}/{seed}")
        self.name = name
        self.persons: list[str] = self.random.sample(material["names"], 2)
        at = datetime(2023, self.random.randint(1, 4), self.random.randint(1, 28), 18, 30)
        self.dates = []
        for _ in range(SESSIONS):
            days, minutes = self.random.randint(6, 24), self.random.randint(-90, 90)
            at += timedelta(days=days, minutes=minutes)
            self.dates.append(at)
        self.sessions: list[list[dict[str, Any]]] = [[] for _ in range(SESSIONS)]
        #: What each session is to tell: exchanges, and where to note the turns' ids.
        self.plan: list[list[tuple[Any, int, Values, list[str]]]] = [[] for _ in range(SESSIONS)]
        #: What is asked once all is told: person, questions, slots, and the turns by their word.
        self.asking: list[tuple[int, Sequence[Values], Values, Mapping[str, Told]]] = []

    def made(self) -> dict[str, Any]:
        for person in (0, 1):
            for event in self.material["events"]:
                self._plan_event(event, person)
            for series in (*self.material["changes"], *self.material["collections"]):
                self._plan_series(series, person)
        for number in range(SESSIONS):
            self._tell(number)
        questions = [
            self._question(q, person, slots, [turn for e in q["e"] for turn in _turns(told, e)])
            for person, asked, slots, told in self.asking
            for q in asked
        ]
        for text in self.material["unsaid"]:
            unsaid = {"kind": "unsaid", "q": text, "a": "not mentioned"}
            questions.append(self._question(unsaid, 0, {}, []))
        spoken: dict[str, Any] = {"speaker_a": self.persons[0], "speaker_b": self.persons[1]}
        for number, turns in enumerate(self.sessions, 1):
            at = self.dates[number - 1]
            hour = f"{at.hour % 12 or 12}:{at:%M} {f'{at:%p}'.lower()}"
            spoken[f"session_{number}_date_time"] = f"{hour} on {at.day} {at:%B}, {at.year}"
            spoken[f"session_{number}"] = turns
        return {"sample_id": self.name, "conversation": spoken, "qa": questions}

    def _plan_event(self, event: Values, person: int) -> None:
        """Plan what happens once, and what is told of it in a later session."""
        session = self.random.randrange(SESSIONS - 2)
        slots = {name: self.random.choice(values) for name, values in event["slots"].items()}
        slots |= {f"{name}_you": value.replace("my ", "your ") for name, value in slots.items()}
        slots |= self._when(session)
        told: dict[str, Told] = {"": [[]], "later": [[]]}
        self.plan[session].append((event["turns"], person, slots, told[""][0]))
        if "later" in event:
            again = self.random.randrange(session + 1, SESSIONS)
            later = {**slots, **self._when(again)}
            self.plan[again].append((event["later"], person, later, told["later"][0]))
        self.asking.append((person, event["ask"], slots, told))

    def _plan_series(self, series: Values, person: int) -> None:
        """Plan values that replace each other (``first``, then ``next``) or that add up (``turns``)."""
        count = self.random.choice((2, 3))
        values = self.random.sample(series["slots"]["value"], count)
        sessions = sorted(self.random.sample(range(SESSIONS), count))
        told: Told = [[] for _ in values]
        previous, last_date = "", ""
        for i, (value, session) in enumerate(zip(values, sessions, strict=True)):
            slots = {"value": value, "previous": previous, **self._when(session)}
            part = series.get("turns") or series["next" if i else "first"]
            self.plan[session].append((part, person, slots, told[i]))
            previous, last_date = value, slots["date"]
        known = {"first": values[0], "last": values[-1], "last_date": last_date}
        known["values"] = "; ".join(values)
        by_word = {"first": told[:1], "last": told[-1:], "all": told}
        self.asking.append((person, series["ask"], known, by_word))

    def _when(self, session: int) -> dict[str, str]:
        """Return a past time as it is said in ``session``, and the day that it means."""
        days = self.random.choice((1, 2, 3, 4, 5, 6, 7, 14))
        day = self.dates[session] - timedelta(days=days)
        named = {1: "yesterday", 7: "a week ago", 14: "two weeks ago"}
        said = named.get(days) or f"{_NUMBERS[days]} days ago"
        if 2 <= days <= 6 and self.random.random() < 0.6:
            said = f"last {day:%A}"
        return {"ago": said, "date": f"{day.day} {day:%B} {day.year}"}

    def _tell(self, number: int) -> None:
        small, draw = self.material["small"], self.random
        first = draw.randrange(2)
        self._say(number, first, draw.choice(small["open"]))
        self._say(number, 1 - first, draw.choice(small["reply"]))
        exchanges = self.plan[number]
        draw.shuffle(exchanges)
        for lines, person, slots, ids in exchanges:
            for line in lines:
                ((who, wordings),) = line.items()
                text = draw.choice(wordings).format_map(_Kept(slots))
                if len(text) > 40:
                    text = self._chatty(text)
                ids.append(self._say(number, person if who == "s" else 1 - person, text))
            for _ in range(draw.choice((0, 1, 2))):
                self._say(number, draw.randrange(2), draw.choice(small["middle"]))
        self._say(number, first, draw.choice(small["close"]))
        self._say(number, 1 - first, draw.choice(small["bye"]))

    def _chatty(self, text: str) -> str:
        small = self.material["small"]
        if self.random.random() < 0.35:
            text = self.random.choice(small["before"]) + text
        if self.random.random() < 0.35:
            text += self.random.choice(small["after"])
        return text

    def _say(self, number: int, speaker: int, text: str) -> str:
        turns, names = self.sessions[number], self._names(speaker)
        id_ = f"D{number + 1}:{len(turns) + 1}"
        turns.append({"speaker": names["S"], "dia_id": id_, "text": text.format_map(_Kept(names))})
        return id_

    def _question(
        self, asked: Values, person: int, slots: Values, evidence: Sequence[str]
    ) -> dict[str, Any]:
        values = _Kept({**slots, **self._names(person)})
        key = "adversarial_answer" if asked["kind"] == "unsaid" else "answer"
        return {
            "question": asked["q"].format_map(values),
            "category": _CATEGORY[asked["kind"]],
            "evidence": list(dict.fromkeys(evidence)),
            key: asked["a"].format_map(values),
        }

    def _names(self, person: int) -> dict[str, str]:
        return {"S": self.persons[person], "O": self.persons[1 - person]}


def _turns(told: Mapping[str, Told], evidence: str | int) -> list[str]:
    """Return the turns that ``evidence`` names: 3, or "last 1", of the exchanges under that word."""
    word, _, number = str(evidence).rpartition(" ")
    return [ids[int(number)] for ids in told[word]]


class _Kept(dict[str, Any]):
    """Values of a template; what is not there stays as it is written."""

    def __missing__(self, key: str) -> str:
        if key.endswith("_c") and key[:-2] in self:
            value = str(self[key[:-2]])
            return value[:1].upper() + value[1:]
        return f"{{{key}}}"
