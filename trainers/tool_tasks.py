"""Synthetic tool tasks as threads: seven services, long tables and JSON, values needed late.

A person names what records look like; the agent lists records, opens those that fit, and later acts
with values of what it opened. Services differ in tools, key names and kinds of ids, so that one can be
held out whole.
"""

import csv
import io
import json
import random
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from stategate.stores.files import read_yaml

Record = dict[str, object]
_DATA = read_yaml((Path(__file__).parent / "data" / "services.yaml").read_text("utf-8"))
_PROSE = _DATA["prose"].split()
#: By name: its tools, its records' names and keys, and patterns of ids.
SERVICES = {name: SimpleNamespace(**row) for name, row in _DATA["services"].items()}


def _random_id(pattern: str, rng: random.Random) -> str:
    signs = {"#": "0123456789", "?": "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"}
    return "".join(rng.choice(signs.get(sign, sign)) for sign in pattern)


def _prose(rng: random.Random, least: int, most: int) -> str:
    return " ".join(rng.choices(_PROSE, k=rng.randint(least, most))) + "."


def _record(service: SimpleNamespace, rng: random.Random, has_remarks: bool) -> Record:
    record: Record = {
        service.record_id: _random_id(service.id_pattern, rng),
        service.owner: f"{rng.choice(_DATA['first'])} {rng.choice(_DATA['last'])}",
        "city": rng.choice(_DATA["cities"]),
        service.date: f"2026-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}",
        service.amount: round(rng.uniform(10, 4000), 2),
        "status": rng.choice(["open", "closed", "waiting"]),
    }
    return {**record, "remarks": _prose(rng, 8, 40)} if has_remarks else record


def _detail(service: SimpleNamespace, record: Record, rng: random.Random) -> Record:
    children: list[Record] = [
        {
            service.child_id: _random_id(service.child_pattern, rng),
            "kind": rng.choice(["standard", "plus", "basic", "extra"]),
            service.amount: round(rng.uniform(5, 900), 2),
            "description": _prose(rng, 5, 30),
        }
        for _ in range(rng.randint(2, 8))
    ]
    mail = f"{_random_id('????', rng).lower()}@example.com"
    return {**record, "children": children, "email": mail, "remarks": _prose(rng, 20, 60)}


def _listed(records: Sequence[Record], rng: random.Random) -> str:
    """Return records as JSON, a CSV table or lines."""
    form = rng.choice(["json", "table", "lines"])
    if form == "json":
        return json.dumps({"count": len(records), "results": records})
    if form == "lines":
        return "\n".join("; ".join(f"{k}={v}" for k, v in record.items()) for record in records)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(records[0]))
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()


def _call(messages: list[BaseMessage], name: str, result: str, **args: object) -> None:
    """Add a call and its result."""
    id_ = f"call_{len(messages)}"
    messages.append(AIMessage("", tool_calls=[{"name": name, "args": args, "id": id_}]))
    messages.append(ToolMessage(result, tool_call_id=id_, name=name))


def tool_task(service: SimpleNamespace, rng: random.Random) -> list[BaseMessage]:
    """Return a thread: two to four records are looked up, and acted on at once or later."""
    has_remarks = rng.random() < 0.5
    records = [_record(service, rng, has_remarks) for _ in range(rng.choice([5, 12, 40, 120]))]
    messages: list[BaseMessage] = [SystemMessage(f"You help with every {service.noun} of ours.")]
    targets = rng.sample(records, rng.randint(2, 4))
    names = [f"{record[service.owner]}, {record['city']}" for record in targets]
    messages.append(HumanMessage(f"Hello, I need the {service.noun} of {names[0]} changed."))
    _call(messages, service.search, _listed(records, rng), query=rng.choice(["all", "recent"]))
    waiting: list[tuple[Record, Record]] = []
    for record, name in zip(targets, names, strict=True):
        if record is not targets[0]:
            messages.append(HumanMessage(f"And what about {name}?"))
        detail = _detail(service, record, rng)
        opened = json.dumps(detail, indent=rng.choice([None, 1]))
        _call(messages, service.detail, opened, **{service.record_id: record[service.record_id]})
        messages.append(AIMessage(f"I see the {service.noun} of {name}. What shall I do?"))
        waiting.append((record, detail))
        if rng.random() < 0.3:
            _act(messages, service, *waiting.pop(), rng)
    for record, detail in rng.sample(waiting, len(waiting)):
        _act(messages, service, record, detail, rng)
    return messages


def _act(
    messages: list[BaseMessage],
    service: SimpleNamespace,
    record: Record,
    detail: Record,
    rng: random.Random,
) -> None:
    """Add a request, and the calls that act on a record and one of its children."""
    child = rng.choice(cast(list[Record], detail["children"]))
    who, what = record[service.owner], f"{child['kind']} {service.child}"
    messages.append(HumanMessage(f"For {who}: take the {what}, and tell them."))
    values = {key: record[key] for key in (service.record_id, service.date)}
    values |= {key: child[key] for key in (service.child_id, service.amount)}
    chosen = {key: values[key] for key in rng.sample(list(values), rng.randint(2, 4))}
    _call(messages, service.act, json.dumps({"receipt": _random_id("???????", rng)}), **chosen)
    if rng.random() < 0.6:
        _call(messages, "send_mail", "sent", to=detail["email"], text="Your change is booked.")
    messages.append(AIMessage("Done."))


def tool_tasks(seed: int = 0, each: int = 12) -> list[tuple[str, str, list[BaseMessage]]]:
    """Return (service, task, messages), ``each`` of every service; the same for the same seed."""
    return [
        (name, f"{name}-{n}", tool_task(service, random.Random(f"{seed}-{name}-{n}")))
        for name, service in SERVICES.items()
        for n in range(each)
    ]
