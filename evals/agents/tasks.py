"""Generated tasks of 20 to 80 tool calls whose end needs facts from early results: success is exact.

Along the way every fifth look-up is made for one fact, which names the next look-up: what was just
read is needed at once, beside much that is not.

A task is a family and a seed. A family says in which format facts stand, when the agent learns which of
them it needs (``announced`` in the instruction, or ``late`` from a result near the end), and what makes
it hard: look-alikes, several facts, facts that a later result supersedes. ``dev`` families are for
developing, ``test`` families have other formats, other filler, and name things in other words.
"""

import html
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from stategate.evals.agents.filler import prose

Split = Literal["dev", "test"]
_HEADS = "Quell Ambel Torran Vesper Haldon Morrin Calder Ostrav Lindel Brack Fenwick Sarn".split()
_ENDS = "moor gate holm ridge mere ford wick stead dale haven".split()
_KINDS = "depot annex station yard terminal relay kiosk hangar".split()
#: What is asked for, and what the instruction of a test task calls it.
_ATTRIBUTES = {
    "gate code": "number that opens the gate",
    "berth": "mooring place",
    "tariff class": "category for billing",
    "radio channel": "frequency slot",
    "supervisor id": "identifier of whoever is in charge",
    "pump rating": "strength of its pump",
    "locker": "storage box",
    "vault key": "secret for the safe",
}
_TOOLS = ("read_file", "search", "fetch", "query")


@dataclass(frozen=True)
class Family:
    """One sort of task."""

    name: str
    split: Split
    form: str
    is_late: bool = False
    facts: int = 1
    look_alikes: int = 4
    is_superseded: bool = False
    is_reworded: bool = False


FAMILIES = {
    family.name: family
    for family in (
        Family("text", "dev", "text"),
        Family("text-late", "dev", "text", is_late=True),
        Family("json", "dev", "json", look_alikes=10),
        Family("json-late-several", "dev", "json", is_late=True, facts=3),
        Family("table-several", "dev", "table", facts=3, look_alikes=12),
        Family("table-late", "dev", "table", is_late=True, look_alikes=8),
        Family("log", "test", "log", look_alikes=8),
        Family("log-late-several", "test", "log", is_late=True, facts=3),
        Family("markdown-superseded", "test", "markdown", is_superseded=True),
        Family("markdown-late", "test", "markdown", is_late=True, look_alikes=6),
        Family("html-several", "test", "html", facts=3, look_alikes=6),
        Family("yaml-late-superseded", "test", "yaml", is_late=True, is_superseded=True),
        Family("json-reworded", "test", "json", look_alikes=10, is_reworded=True),
        Family("log-reworded-several", "test", "log", facts=3, is_reworded=True),
    )
}


@dataclass(frozen=True)
class Fact:
    """The ``attribute`` of ``entity`` is ``value``; it stands in the result of ``step``."""

    entity: str
    attribute: str
    value: str
    step: int


@dataclass(frozen=True)
class Step:
    """A call of the agent's plan and what it returns; ``once`` results can not be had again.

    ``wants`` is the fact that it is made for, ``needs`` the one (of the step before) that names it.
    """

    tool: str
    argument: str
    result: str
    once: bool
    wants: Fact | None = None
    needs: Fact | None = None


@dataclass(frozen=True)
class AgentTask:
    """What an agent is given, what it will do, and what it has to say in the end."""

    family: str
    seed: int
    instruction: str
    steps: tuple[Step, ...]
    facts: tuple[Fact, ...]
    entities: tuple[str, ...]

    @property
    def answer(self) -> str:
        """The values asked for, in order."""
        return "; ".join(fact.value for fact in self.facts)


Record = tuple[str, dict[str, str]]


def make_task(name: str, seed: int) -> AgentTask:
    """Return task ``seed`` of family ``name``; the same for the same Python."""
    family = FAMILIES[name]
    rng = random.Random(f"{name}/{seed}")
    count = rng.randint(20, 80)
    entities = _entities(rng, family.facts + family.look_alikes)
    asked, others = entities[: family.facts], entities[family.facts :]
    attributes = rng.sample(sorted(_ATTRIBUTES), family.facts)
    early = rng.sample(range(1, max(family.facts + 2, int(count * 0.4))), family.facts)
    later = rng.sample(range(int(count * 0.45), int(count * 0.8)), family.facts)
    facts: list[Fact] = []
    records: dict[int, list[Record]] = {}
    for entity, attribute, step, again in zip(asked, attributes, early, later, strict=True):
        at = step
        records.setdefault(step, []).append(_record(rng, entity, attribute))
        if family.is_superseded:
            at = again
            records.setdefault(again, []).append(_record(rng, entity, attribute))
        value = records[at][-1][1][attribute]
        facts.append(Fact(entity, attribute, value, at))
    for entity in others:  # look-alikes stand beside the facts and elsewhere
        attribute = rng.choice(attributes)
        step = rng.choice([*records, rng.randrange(1, count - 2)])
        records.setdefault(step, []).append(_record(rng, entity, attribute))
    free = [i for i in range(1, count - 3) if i not in records]
    chain: dict[int, Fact] = {}
    for i in sorted(rng.sample(free, count // 5)):
        if i - 1 in chain:
            continue  # one at a time
        entity = _entities(rng, 1)[0]
        if entity not in entities:
            attribute = rng.choice(sorted(_ATTRIBUTES))
            records[i] = [_record(rng, entity, attribute)]
            chain[i] = Fact(entity, attribute, records[i][0][1][attribute], i)
            others = [n for n in _entities(rng, 3) if n != entity and n not in entities]
            records[i] += [_record(rng, name, attribute) for name in others]
            entities = list(dict.fromkeys([*entities, entity, *others]))
    need = "; ".join(_need(fact, family.is_reworded) for fact in facts)
    ask = f"report, separated by semicolons, {need}"
    last_word = next(i for i in range(count - max(1, count // 12), 0, -1) if i not in records)
    steps: list[Step] = []
    for i in range(count):
        tool = rng.choice(_TOOLS)
        size = int(min(max(rng.lognormvariate(7.6, 0.8), 300), 16_000))
        if family.is_late and i == last_word:
            found = prose(rng, family.split, 300)
            result = "\n\n".join([*found, f"Ticket {rng.randint(100, 999)}: at the end, {ask}."])
        elif i in records:
            rng.shuffle(records[i])
            result = _FORMS[family.form](rng, family.split, records[i], size)
        else:
            result = _noise(rng, family.split, size)
        needs = chain.get(i - 1)
        name_of_thing = f"{rng.choice(_HEADS).lower()}-{rng.randint(10, 99)}-{i}"
        if needs is not None:
            name_of_thing = needs.value
        once = rng.random() < 0.5
        steps.append(Step(tool, name_of_thing, result, once, chain.get(i), needs))
    when = "a ticket that you come across says what to report" if family.is_late else ask
    instruction = (
        f"Work through the checklist of {count} look-ups, one after another. At the end {when}."
    )
    return AgentTask(name, seed, instruction, tuple(steps), tuple(facts), tuple(entities))


def families_of(split: str) -> list[str]:
    """Return the names of the families of a split."""
    return [name for name, family in FAMILIES.items() if family.split == split]


def _need(fact: Fact, is_reworded: bool) -> str:
    attribute = _ATTRIBUTES[fact.attribute] if is_reworded else fact.attribute
    return f"the {attribute} of {fact.entity}"


def _entities(rng: random.Random, count: int) -> list[str]:
    """Return distinct names; many share a first or a second word."""
    names: list[str] = []
    places = [rng.choice(_HEADS) + rng.choice(_ENDS) for _ in range(max(2, count // 2))]
    while len(names) < count:
        name = f"{rng.choice(places)} {rng.choice(_KINDS)}"
        if name not in names:
            names.append(name)
        else:
            places.append(rng.choice(_HEADS) + rng.choice(_ENDS))
    return names


def _record(rng: random.Random, entity: str, attribute: str) -> Record:
    rest = rng.sample([name for name in sorted(_ATTRIBUTES) if name != attribute], 2)
    names = [attribute, *rest]
    rng.shuffle(names)
    return entity, {name: f"{rng.choice('ABCDEFGHK')}{rng.randint(1000, 9999)}" for name in names}


def _noise(rng: random.Random, split: Split, size: int) -> str:
    """Return a result without a record, in any of the formats that agents meet."""
    found = prose(rng, split, size)
    kind = rng.choice(["text", "json", "log", "table", "markdown"])
    if kind == "json":
        return json.dumps({"results": [{"id": i, "snippet": p} for i, p in enumerate(found)]})
    if kind == "log":
        words = " ".join(found).split()
        lines = [" ".join(words[i : i + 12]) for i in range(0, len(words), 12)]
        return "\n".join(f"{_clock(rng)} INFO worker: {line}" for line in lines)
    if kind == "table":
        words = [w.strip(",.;:()") for w in " ".join(found).split()]
        rows = [words[i : i + 4] for i in range(0, len(words) - 4, 4)]
        return "\n".join(["key\tkind\towner\tstate", *("\t".join(row) for row in rows)])
    if kind == "markdown":
        return "\n\n".join(f"## Part {i + 1}\n\n{p}" for i, p in enumerate(found))
    return "\n\n".join(found)


def _text(rng: random.Random, split: Split, records: Sequence[Record], size: int) -> str:
    parts = prose(rng, split, size)
    for entity, values in records:
        said = " ".join(f"The {name} of {entity} is {value}." for name, value in values.items())
        parts.insert(rng.randrange(len(parts) + 1), said)
    return "\n\n".join(parts)


def _json(rng: random.Random, split: Split, records: Sequence[Record], size: int) -> str:
    notes = prose(rng, split, size)
    items = [
        {
            "name": entity,
            **{name.replace(" ", "_"): value for name, value in values.items()},
            "notes": notes[i % len(notes)],
        }
        for i, (entity, values) in enumerate(records)
    ]
    return json.dumps({"status": "ok", "items": items, "remarks": notes})


def _table(rng: random.Random, split: Split, records: Sequence[Record], size: int) -> str:
    names = sorted({name for _, values in records for name in values})
    words = [w.strip(",.;:()") for w in " ".join(prose(rng, split, size)).split()]
    rows = [[entity, *(values.get(name, "-") for name in names)] for entity, values in records]
    width = len(names)
    rows += [
        [f"{words[i]} site", *(w or "-" for w in words[i + 1 : i + 1 + width])]
        for i in range(0, len(words) - width - 1, width + 1)
    ]
    rng.shuffle(rows)
    return "\n".join(",".join(row) for row in [["name", *names], *rows])


def _log(rng: random.Random, split: Split, records: Sequence[Record], size: int) -> str:
    words = " ".join(prose(rng, split, size)).split()
    lines = [f"INFO worker: {' '.join(words[i : i + 12])}" for i in range(0, len(words), 12)]
    for entity, values in records:
        for name, value in values.items():
            line = f"INFO registry: {entity} reports {name} {value}"
            lines.insert(rng.randrange(len(lines) + 1), line)
    return "\n".join(f"{_clock(rng)} {line}" for line in lines)


def _markdown(rng: random.Random, split: Split, records: Sequence[Record], size: int) -> str:
    notes = prose(rng, split, size)
    parts = ["# Sites"]
    for i, (entity, values) in enumerate(records):
        listed = "\n".join(f"- {name}: {value}" for name, value in values.items())
        parts.append(f"## {entity}\n\n{notes[i % len(notes)]}\n\n{listed}")
    return "\n\n".join([*parts, "## Remarks", *notes])


def _html(rng: random.Random, split: Split, records: Sequence[Record], size: int) -> str:
    notes = [html.escape(note) for note in prose(rng, split, size)]
    parts = ["<!doctype html><html><head><title>Sites</title></head><body><h1>Sites</h1>"]
    for i, (entity, values) in enumerate(records):
        rows = "".join(f"<tr><th>{k}</th><td>{v}</td></tr>" for k, v in values.items())
        parts.append(f"<h2>{entity}</h2><p>{notes[i % len(notes)]}</p><table>{rows}</table>")
    body = "".join(f'<p class="remark">{note}</p>' for note in notes)
    return "".join([*parts, "<h2>Remarks</h2>", body, "</body></html>"])


def _yaml(rng: random.Random, split: Split, records: Sequence[Record], size: int) -> str:
    notes = prose(rng, split, size)
    parts = ["sites:"]
    for i, (entity, values) in enumerate(records):
        parts.append(f"  {entity}:\n    remark: {notes[i % len(notes)]}")
        parts += [f"    {name}: {value}" for name, value in values.items()]
    return "\n".join([*parts, "remarks:", *(f"  - {note}" for note in notes)])


def _clock(rng: random.Random) -> str:
    day = f"2026-0{rng.randint(1, 9)}-{rng.randint(10, 28)}"
    return f"{day} {rng.randint(10, 23)}:{rng.randint(10, 59)}:07"


_FORMS: dict[str, Callable[[random.Random, Split, Sequence[Record], int], str]] = {
    "text": _text,
    "json": _json,
    "table": _table,
    "log": _log,
    "markdown": _markdown,
    "html": _html,
    "yaml": _yaml,
}
