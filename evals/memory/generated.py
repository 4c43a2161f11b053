"""Long conversations made up by rule, in LoCoMo's format: a development set that anyone can make again.

    stategate eval dialogues home --out home.json
    stategate eval locomo home --out runs/home          # the same, made in memory

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
Value = Mapping[str, Any]
#: Turns of one exchange: who speaks (0 or 1) and what is said; marks are filled where it is placed.
Lines = list[tuple[int, str]]


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
    """One conversation while it is made."""

    def __init__(self, material: Value, name: str, seed: int) -> None:
        self.material = material
        self.random = random.Random(f"{name}/{seed}")
        self.name = name
        self.persons: list[str] = self.random.sample(material["names"], 2)
        start = datetime(2023, self.random.randint(1, 4), self.random.randint(1, 28), 18, 30)
        self.dates = []
        for _ in range(SESSIONS):
            start += timedelta(
                days=self.random.randint(6, 24), minutes=self.random.randint(-90, 90)
            )
            self.dates.append(start)
        self.sessions: list[list[dict[str, Any]]] = [[] for _ in range(SESSIONS)]
        #: What each session is to tell: exchanges, and where to note the turns' ids.
        self.plan: list[list[tuple[Any, int, Value, list[str]]]] = [[] for _ in range(SESSIONS)]
        self.questions: list[dict[str, Any]] = []
        self.later: list[Any] = []

    def made(self) -> dict[str, Any]:
        for person in (0, 1):
            for event in self.material["events"]:
                self._plan_event(event, person)
            for change in self.material["changes"]:
                self._plan_change(change, person)
            for collection in self.material["collections"]:
                self._plan_collection(collection, person)
        for number in range(SESSIONS):
            self._tell(number)
        for ask in self.later:
            ask()
        for text in self.material["unsaid"]:
            self._ask("unsaid", text, "not mentioned", [], 0, {})
        spoken: dict[str, Any] = {"speaker_a": self.persons[0], "speaker_b": self.persons[1]}
        for number, turns in enumerate(self.sessions, 1):
            at = self.dates[number - 1]
            spoken[f"session_{number}_date_time"] = (
                f"{at.hour % 12 or 12}:{at:%M} {at:%p} on {at.day} {at:%B}, {at.year}".replace(
                    "AM", "am"
                ).replace("PM", "pm")
            )
            spoken[f"session_{number}"] = turns
        return {"sample_id": self.name, "conversation": spoken, "qa": self.questions}

    def _plan_event(self, event: Value, person: int) -> None:
        session = self.random.randrange(SESSIONS - 2)
        slots = self._drawn(event["slots"], session)
        ids: list[str] = []
        after: list[str] = []
        self.plan[session].append((event["turns"], person, slots, ids))
        if "later" in event:
            again = self.random.randrange(session + 1, SESSIONS)
            later = {**slots, **self._when(again)}
            self.plan[again].append((event["later"], person, later, after))

        def ask() -> None:
            for q in event["ask"]:
                evidence = [
                    after[int(e.split()[1])] if isinstance(e, str) else ids[e] for e in q["e"]
                ]
                self._ask(q["kind"], q["q"], q["a"], evidence, person, slots)

        self.later.append(ask)

    def _plan_change(self, change: Value, person: int) -> None:
        count = self.random.choice((2, 3))
        values = self.random.sample(change["slots"]["value"], count)
        when = sorted(self.random.sample(range(SESSIONS), count))
        told: list[list[str]] = [[] for _ in values]
        previous, last = "", {}
        for i, (value, session) in enumerate(zip(values, when, strict=True)):
            last = {"value": value, "previous": previous, **self._when(session)}
            part = change["first"] if i == 0 else change["next"]
            self.plan[session].append((part, person, last, told[i]))
            previous = value
        slots = {"first": values[0], "last": values[-1], "last_date": last["date"]}

        def ask() -> None:
            for q in change["ask"]:
                which = {"first": 0, "last": -1}
                evidence = [told[which[e.split()[0]]][int(e.split()[1])] for e in q["e"]]
                self._ask(q["kind"], q["q"], q["a"], evidence, person, slots)

        self.later.append(ask)

    def _plan_collection(self, collection: Value, person: int) -> None:
        values = self.random.sample(collection["slots"]["value"], self.random.choice((2, 3)))
        when = sorted(self.random.sample(range(SESSIONS), len(values)))
        told: list[list[str]] = [[] for _ in values]
        for value, session, ids in zip(values, when, told, strict=True):
            slots = {"value": value, **self._when(session)}
            self.plan[session].append((collection["turns"], person, slots, ids))

        def ask() -> None:
            for q in collection["ask"]:
                place = int(q["e"][0].split()[1])
                evidence = [ids[place] for ids in told]
                self._ask(q["kind"], q["q"], "; ".join(values), evidence, person, {})

        self.later.append(ask)

    def _drawn(self, slots: Mapping[str, Sequence[str]], session: int) -> dict[str, str]:
        drawn = {name: self.random.choice(values) for name, values in slots.items()}
        drawn |= {f"{name}_you": v.replace("my ", "your ") for name, v in drawn.items()}
        return {**drawn, **self._when(session)}

    def _when(self, session: int) -> dict[str, str]:
        """Return a past time as it is said in ``session``, and the day that it means."""
        today = self.dates[session]
        days = self.random.choice((1, 2, 3, 4, 5, 6, 7, 14))
        day = today - timedelta(days=days)
        number = {2: "two", 3: "three", 4: "four", 5: "five", 6: "six"}.get(days, "")
        said = {1: "yesterday", 7: "a week ago", 14: "two weeks ago"}.get(
            days, f"{number} days ago"
        )
        if 2 <= days <= 6 and self.random.random() < 0.6:
            said = f"last {day:%A}"
        return {"ago": said, "date": f"{day.day} {day:%B} {day.year}"}

    def _tell(self, number: int) -> None:
        small, turns = self.material["small"], self.sessions[number]
        first = self.random.randrange(2)
        self._say(turns, number, first, self.random.choice(small["open"]))
        self._say(turns, number, 1 - first, self.random.choice(small["reply"]))
        exchanges = self.plan[number]
        self.random.shuffle(exchanges)
        for lines, person, slots, ids in exchanges:
            for line in lines:
                ((who, wordings),) = line.items()
                text = self.random.choice(wordings).format_map(_Kept(slots))
                if len(text) > 40:
                    text = self._chatty(text)
                speaker = person if who == "s" else 1 - person
                ids.append(self._say(turns, number, speaker, text))
            for _ in range(self.random.choice((0, 1, 2))):
                self._say(
                    turns, number, self.random.randrange(2), self.random.choice(small["middle"])
                )
        self._say(turns, number, first, self.random.choice(small["close"]))
        self._say(turns, number, 1 - first, self.random.choice(small["bye"]))

    def _chatty(self, text: str) -> str:
        small = self.material["small"]
        if self.random.random() < 0.35:
            text = self.random.choice(small["before"]) + text
        if self.random.random() < 0.35:
            text += self.random.choice(small["after"])
        return text

    def _say(self, turns: list[dict[str, Any]], number: int, speaker: int, text: str) -> str:
        names = {"S": self.persons[speaker], "O": self.persons[1 - speaker]}
        id_ = f"D{number + 1}:{len(turns) + 1}"
        turns.append({"speaker": names["S"], "dia_id": id_, "text": text.format_map(_Kept(names))})
        return id_

    def _ask(
        self, kind: str, text: str, answer: str, evidence: list[str], person: int, slots: Value
    ) -> None:
        names = {"S": self.persons[person], "O": self.persons[1 - person]}
        values = {**slots, **names}
        qa: dict[str, Any] = {
            "question": text.format_map(_Kept(values)),
            "category": _CATEGORY[kind],
        }
        qa["evidence"] = list(dict.fromkeys(evidence))
        key = "adversarial_answer" if kind == "unsaid" else "answer"
        self.questions.append({**qa, key: answer.format_map(_Kept(values))})


class _Kept(dict[str, Any]):
    """Values of a template; what is not there stays as it is written."""

    def __missing__(self, key: str) -> str:
        if key.endswith("_c") and key[:-2] in self:
            value = str(self[key[:-2]])
            return value[:1].upper() + value[1:]
        return f"{{{key}}}"
