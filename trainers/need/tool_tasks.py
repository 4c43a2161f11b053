"""Made-up tool tasks as threads: seven services, long tables and JSON, needs that come late.

A person names what records look like; the agent lists records, opens those that fit, and later acts
with values of what it opened. Services differ in tools, key names and kinds of ids, so that one can be
held out whole.
"""

import csv
import io
import json
import random
from collections import namedtuple
from collections.abc import Sequence
from typing import cast

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

_FIRST = "Ada Ben Chiara Dilip Elif Femi Greta Hugo Ines Jonas Kavya Liam Mei Nadia Omar".split()
_LAST = "Abbott Bianchi Costa Dubois Eriksen Fischer Gupta Haddad Ito Jensen Kowalski Lopez".split()
_CITIES = "Lyon Porto Graz Turku Malmo Ghent Bilbao Leeds Cork Basel Split Varna".split()
_PLAIN = (
    "please note that this entry was reviewed by the regular team and nothing unusual was found so the "
    "usual rules for handling storage delivery and communication continue to apply until further notice"
).split()


Record = dict[str, object]


#: Its tools, its records' names and keys, and patterns of ids: # a digit, ? a letter or digit.
Service = namedtuple(
    "Service",
    "name noun search detail act owner record_id child child_id amount date id_pattern child_pattern",
)
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


def _record(service: Service, rng: random.Random, has_remarks: bool) -> Record:
    record: Record = {
        service.record_id: _made(service.id_pattern, rng),
        service.owner: f"{rng.choice(_FIRST)} {rng.choice(_LAST)}",
        "city": rng.choice(_CITIES),
        service.date: f"2026-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}",
        service.amount: round(rng.uniform(10, 4000), 2),
        "status": rng.choice(["open", "closed", "waiting"]),
    }
    return {**record, "remarks": _prose(rng, 8, 40)} if has_remarks else record


def _detail(service: Service, record: Record, rng: random.Random) -> Record:
    children: list[Record] = [
        {
            service.child_id: _made(service.child_pattern, rng),
            "kind": rng.choice(["standard", "plus", "basic", "extra"]),
            service.amount: round(rng.uniform(5, 900), 2),
            "description": _prose(rng, 5, 30),
        }
        for _ in range(rng.randint(2, 8))
    ]
    mail = f"{_made('????', rng).lower()}@example.com"
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


def tool_task(service: Service, rng: random.Random) -> list[BaseMessage]:
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
    service: Service,
    record: Record,
    detail: Record,
    rng: random.Random,
) -> None:
    """Add a wish, and the calls that carry it out with values of a record and one of its children."""
    child = rng.choice(cast(list[Record], detail["children"]))
    wish = f"For {record[service.owner]}: take the {child['kind']} {service.child}, and tell them."
    messages.append(HumanMessage(wish))
    values = {key: record[key] for key in (service.record_id, service.date)}
    values |= {key: child[key] for key in (service.child_id, service.amount)}
    chosen = {key: values[key] for key in rng.sample(list(values), rng.randint(2, 4))}
    _call(messages, service.act, json.dumps({"receipt": _made("???????", rng)}), **chosen)
    if rng.random() < 0.6:
        _call(messages, "send_mail", "sent", to=detail["email"], text="Your change is booked.")
    messages.append(AIMessage("Done."))


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
