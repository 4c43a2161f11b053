"""Made-up tool tasks as threads: seven services, long tables and JSON, needs that come late.

A person names what records look like; the agent lists records, opens those that fit, and later acts
with values of what it opened. Services differ in tools, key names and kinds of ids, so that one can be
held out whole.
"""

import csv
import io
import json
import random
from typing import NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

_FIRST = "Ada Ben Chiara Dilip Elif Femi Greta Hugo Ines Jonas Kavya Liam Mei Nadia Omar".split()
_LAST = "Abbott Bianchi Costa Dubois Eriksen Fischer Gupta Haddad Ito Jensen Kowalski Lopez".split()
_CITIES = "Lyon Porto Graz Turku Malmo Ghent Bilbao Leeds Cork Basel Split Varna".split()
_PLAIN = (
    "please note that this entry was reviewed by the regular team and nothing unusual was found so the "
    "usual rules for handling storage delivery and communication continue to apply until further notice"
).split()


class Service(NamedTuple):
    """A service: its tools, what its records are called, their keys, and patterns of ids.

    In a pattern # is a digit and ? a letter or digit.
    """

    name: str
    noun: str
    search: str
    detail: str
    act: str
    owner: str
    record_id: str
    child: str
    child_id: str
    amount: str
    date: str
    id_pattern: str
    child_pattern: str


_ROWS = (
    "hotel|stay|find_stays|get_stay|change_stay|guest|stay_code|room|room_no|rate|check_in|HB-####??|R###",
    "crm|ticket|search_tickets|open_ticket|reply_ticket|customer|ticket|message|message_id|refund|opened|T#####|msg_####",
    "warehouse|order|list_orders|show_order|ship_order|buyer|order_no|item|sku|total|due|SO######|SKU-###-??",
    "clinic|visit|list_visits|visit_details|move_visit|patient|visit_ref|doctor|doctor_id|fee|day|V-###-###|dr_####",
    "bank|account|find_accounts|account_statement|transfer|holder|iban|payment|payment_ref|balance|booked|DE##########|PX?????",
    "library|loan|search_loans|loan_info|renew_loan|reader|loan_key|book|isbn|fine|return_by|L????-##|978-#-####-##",
    "fleet|trip|query_trips|trip_sheet|assign_trip|driver|trip_uid|vehicle|plate|mileage|departs|trip-####|??-####",
)
SERVICES = [Service(*row.split("|")) for row in _ROWS]


def _made(pattern: str, rng: random.Random) -> str:
    signs = {"#": "0123456789", "?": "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"}
    return "".join(rng.choice(signs.get(sign, sign)) for sign in pattern)


def _prose(rng: random.Random, least: int, most: int) -> str:
    return " ".join(rng.choices(_PLAIN, k=rng.randint(least, most))) + "."


def _record(service: Service, rng: random.Random, has_remarks: bool) -> dict[str, object]:
    record: dict[str, object] = {
        service.record_id: _made(service.id_pattern, rng),
        service.owner: f"{rng.choice(_FIRST)} {rng.choice(_LAST)}",
        "city": rng.choice(_CITIES),
        service.date: f"2026-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}",
        service.amount: round(rng.uniform(10, 4000), 2),
        "status": rng.choice(["open", "closed", "waiting"]),
    }
    return {**record, "remarks": _prose(rng, 8, 40)} if has_remarks else record


def _child(service: Service, rng: random.Random) -> dict[str, object]:
    return {
        service.child_id: _made(service.child_pattern, rng),
        "kind": rng.choice(["standard", "plus", "basic", "extra"]),
        service.amount: round(rng.uniform(5, 900), 2),
        "description": _prose(rng, 5, 30),
    }


def _call(messages: list[BaseMessage], name: str, result: str, **args: object) -> None:
    """Add a call and its result."""
    id_ = f"call_{len(messages)}"
    messages.append(AIMessage("", tool_calls=[{"name": name, "args": args, "id": id_}]))
    messages.append(ToolMessage(result, tool_call_id=id_, name=name))


def tool_task(service: Service, rng: random.Random) -> list[BaseMessage]:
    """Return a thread: two to four records are looked up, and acted on with what was found."""
    has_remarks = rng.random() < 0.5
    records = [_record(service, rng, has_remarks) for _ in range(rng.choice([5, 12, 40, 120]))]
    if rng.random() < 0.5:
        listed = json.dumps({"count": len(records), "results": records})
    else:
        table = io.StringIO()
        writer = csv.DictWriter(table, list(records[0]))
        writer.writeheader()
        writer.writerows(records)
        listed = table.getvalue()
    messages: list[BaseMessage] = [SystemMessage(f"You help with every {service.noun} of ours.")]
    targets = [(record, _child(service, rng)) for record in rng.sample(records, rng.randint(2, 4))]
    names = " and ".join(f"{record[service.owner]} in {record['city']}" for record, _ in targets)
    messages.append(HumanMessage(f"Hello, I need the {service.noun} of {names} changed."))
    _call(messages, service.search, listed, query=rng.choice(["all", "recent", "*"]))
    for record, child in targets:
        others = [_child(service, rng) for _ in range(rng.randint(1, 7))]
        mail = f"{_made('????', rng).lower()}@example.com"
        children = rng.sample([child, *others], len(others) + 1)
        detail = {**record, f"{service.child}s": children, "contact": {"email": mail}}
        record["email"] = mail
        opened = json.dumps(detail, indent=rng.choice([None, 1]))
        _call(messages, service.detail, opened, **{service.record_id: record[service.record_id]})
    messages.append(AIMessage(f"I see each {service.noun}. What shall I do?"))
    for record, child in rng.sample(targets, len(targets)):
        who, kind = record[service.owner], child["kind"]
        messages.append(HumanMessage(f"{who}: take the {kind} {service.child}, and tell them."))
        values = {key: record[key] for key in (service.record_id, service.date)}
        values |= {key: child[key] for key in (service.child_id, service.amount)}
        chosen = {key: values[key] for key in rng.sample(list(values), rng.randint(2, 4))}
        _call(messages, service.act, json.dumps({"receipt": _made("???????", rng)}), **chosen)
        _call(messages, "send_mail", "sent", to=record["email"], text="Your change is booked.")
    return [*messages, AIMessage("Done.")]


def tool_tasks(seed: int = 0, each: int = 12) -> list[tuple[str, str, list[BaseMessage]]]:
    """Return (service, task, messages), ``each`` of every service; the same for the same seed."""
    return [
        (
            service.name,
            f"{service.name}-{n}",
            tool_task(service, random.Random(f"{seed}-{row}-{n}")),
        )
        for row, service in enumerate(SERVICES)
        for n in range(each)
    ]
