"""Made-up tool tasks as threads: eight families of tools, long tables and JSON, needs that come late.

A person names what one record looks like; the agent lists records, opens the one that fits, opens
what belongs to it, and acts with values of earlier results. Families differ in tools, key names, kinds
of ids and formats, so that one can be held out whole.
"""

import csv
import io
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

Record = dict[str, object]
_FIRST = "Ada Ben Chiara Dilip Elif Femi Greta Hugo Ines Jonas Kavya Liam Mei Nadia Omar".split()
_LAST = "Abbott Bianchi Costa Dubois Eriksen Fischer Gupta Haddad Ito Jensen Kowalski Lopez".split()
_CITIES = "Lyon Porto Graz Turku Malmo Ghent Bilbao Leeds Cork Basel Split Varna".split()
_PLAIN = (
    "please note that this entry was reviewed by the regular team and nothing unusual was found so the "
    "usual rules for handling storage delivery and communication continue to apply until further notice"
).split()


@dataclass(frozen=True)
class Family:
    """One service: its tools, what its records are called, and the keys of ids, amounts and dates."""

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
    make_id: Callable[[random.Random], str]
    make_child: Callable[[random.Random], str]


def _letters(rng: random.Random, count: int) -> str:
    return "".join(rng.choice("ABCDEFGHJKLMNPQRSTUVWXYZ23456789") for _ in range(count))


def _numbered(pattern: str) -> Callable[[random.Random], str]:
    """Return what makes ids of ``pattern``: # is a digit, ? a letter or digit."""

    def make(rng: random.Random) -> str:
        letters = [rng.choice("0123456789") if c == "#" else c for c in pattern]
        return "".join(_letters(rng, 1) if c == "?" else c for c in letters)

    return make


_ROWS = (
    "hotel|stay|find_stays|get_stay|change_stay|guest|stay_code|room|room_no|rate|check_in|HB-####??|R###",
    "crm|ticket|search_tickets|open_ticket|reply_ticket|customer|ticket|message|message_id|refund|opened|T#####|msg_####",
    "warehouse|order|list_orders|show_order|ship_order|buyer|order_no|item|sku|total|due|SO######|SKU-###-??",
    "clinic|visit|list_visits|visit_details|move_visit|patient|visit_ref|doctor|doctor_id|fee|day|V-###-###|dr_####",
    "bank|account|find_accounts|account_statement|transfer|holder|iban|payment|payment_ref|balance|booked|DE##########|PX?????",
    "library|loan|search_loans|loan_info|renew_loan|reader|loan_key|book|isbn|fine|return_by|L????-##|978-#-####-##",
    "fleet|trip|query_trips|trip_sheet|assign_trip|driver|trip_uid|vehicle|plate|mileage|departs|trip-####|??-####",
)


_NAME_FIELDS = "name noun search detail act owner record_id child child_id amount date".split()


def _family(row: str) -> Family:
    *names, record, child = row.split("|")
    fields = dict(zip(_NAME_FIELDS, names, strict=True))
    return Family(make_id=_numbered(record), make_child=_numbered(child), **fields)


FAMILIES = {row.partition("|")[0]: _family(row) for row in _ROWS}
NAMES = (*FAMILIES, "shell")


def _prose(rng: random.Random, words: int) -> str:
    return " ".join(rng.choice(_PLAIN) for _ in range(words)) + "."


def _record(family: Family, rng: random.Random, long: bool) -> Record:
    record: Record = {
        family.record_id: family.make_id(rng),
        family.owner: f"{rng.choice(_FIRST)} {rng.choice(_LAST)}",
        "city": rng.choice(_CITIES),
        family.date: f"2026-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}",
        family.amount: round(rng.uniform(10, 4000), 2),
        "status": rng.choice(["open", "closed", "waiting"]),
    }
    return {**record, "remarks": _prose(rng, rng.randint(8, 40))} if long else record


def _detail(family: Family, record: Record, rng: random.Random) -> Record:
    children = [
        {
            family.child_id: family.make_child(rng),
            "kind": rng.choice(["standard", "plus", "basic", "extra"]),
            family.amount: round(rng.uniform(5, 900), 2),
            "description": _prose(rng, rng.randint(5, 30)),
        }
        for _ in range(rng.randint(2, 8))
    ]
    contact = {
        "email": f"user{rng.randint(100, 999)}@example.org",
        "phone": _numbered("+49 ### ####")(rng),
    }
    history = [
        {"at": f"2025-0{i}-1{i}", "event": _prose(rng, 12)} for i in range(1, rng.randint(2, 9))
    ]
    series = [round(rng.uniform(100, 300), 2) for _ in range(rng.choice([0, 0, 40, 200]))]
    detail: Record = {
        **record,
        f"{family.child}s": children,
        "contact": contact,
        "history": history,
    }
    detail |= {"terms": _prose(rng, rng.randint(20, 200)), "measurements": series}
    keys = list(detail)
    tail = keys[1:]
    rng.shuffle(tail)
    return {key: detail[key] for key in [keys[0], *tail]}


def _as_text(records: Sequence[Record], form: str) -> str:
    """Return records as JSON, a CSV table, lines or markdown."""
    if form == "json":
        return json.dumps({"count": len(records), "results": records})
    if form == "table":
        text = io.StringIO()
        writer = csv.DictWriter(text, list(records[0]))
        writer.writeheader()
        writer.writerows(records)
        return text.getvalue()
    if form == "markdown":
        return "\n".join(
            f"## {next(iter(r.values()))}\n" + "\n".join(f"- {k}: {v}" for k, v in r.items())
            for r in records
        )
    return "\n".join("; ".join(f"{k}={v}" for k, v in record.items()) for record in records)


class _Thread:
    """A thread in the making."""

    def __init__(self, system: str) -> None:
        self.messages: list[BaseMessage] = [SystemMessage(system)]

    def say(self, text: str) -> None:
        self.messages.append(HumanMessage(text))

    def answer(self, text: str) -> None:
        self.messages.append(AIMessage(text))

    def call(self, name: str, result: str, **args: object) -> None:
        call_id = f"call_{len(self.messages)}"
        calls = [{"name": name, "args": args, "id": call_id}]
        self.messages.append(AIMessage("", tool_calls=calls))
        self.messages.append(ToolMessage(result, tool_call_id=call_id, name=name))


def service_task(family: Family, rng: random.Random) -> list[BaseMessage]:
    """Return a thread: two to four records are looked up, and acted on with what was found."""
    thread = _Thread(f"You help with every {family.noun} of our {family.name} service.")
    forms = ["json", "json", "table", "lines", "markdown"]
    form, is_long = rng.choice(forms), rng.random() < 0.5
    records = [_record(family, rng, is_long) for _ in range(rng.choice([5, 12, 40, 120]))]
    if len({record[family.owner] for record in records}) < 3:
        return service_task(family, rng)
    targets = rng.sample(records, rng.randint(2, min(4, len(records))))
    first = targets[0]
    thread.say(
        f"Hello, I need the {family.noun} of {first[family.owner]} in {first['city']} changed."
    )
    thread.call(family.search, _as_text(records, form), query=rng.choice(["all", "recent", "*"]))
    opened: list[tuple[Record, Record]] = []
    for number, record in enumerate(targets):
        if number:
            thread.say(f"And what about {record[family.owner]}, {record['city']}?")
        detail = _detail(family, record, rng)
        key = family.record_id
        thread.call(
            family.detail, json.dumps(detail, indent=rng.choice([None, 1])), **{key: record[key]}
        )
        opened.append((record, detail))
        if rng.random() < 0.4:
            thread.call("log_event", f"written at 10:{rng.randint(10, 59)}", text="looked up")
        thread.answer(f"I see the {family.noun} of {record[family.owner]}. What shall I do?")
    rng.shuffle(opened)
    for record, detail in opened:
        _act(family, thread, record, detail, rng)
    thread.say("Thank you, that was all.")
    thread.answer("You are welcome.")
    return thread.messages


def _act(
    family: Family, thread: _Thread, record: Record, detail: Record, rng: random.Random
) -> None:
    children: list[Record] = cast(list[Record], detail[f"{family.child}s"])
    child = rng.choice(children)
    field = rng.choice([child["kind"], "first"])
    child = children[0] if field == "first" else child
    thread.say(f"For {record[family.owner]}: take the {field} {family.child}, and tell them.")
    values = {
        family.record_id: record[family.record_id],
        family.child_id: child[family.child_id],
        family.amount: child[family.amount],
        family.date: record[family.date],
    }
    chosen = {key: values[key] for key in rng.sample(list(values), rng.randint(2, 4))}
    thread.call(family.act, json.dumps({"ok": True, "receipt": _letters(rng, 7)}), **chosen)
    if rng.random() < 0.6:
        contact = cast(Record, detail["contact"])
        thread.call("send_mail", "sent", to=contact["email"], text="Your change is booked.")
    thread.answer("Done.")


def shell_task(rng: random.Random) -> list[BaseMessage]:
    """Return a thread in a shell: listings, searches, files with numbered lines, and edits."""
    thread = _Thread("You change a repository by commands.")
    package = rng.choice(["shop", "parser", "engine", "billing"])
    names = [f"{rng.choice(_PLAIN)}_{rng.choice(_PLAIN)}{i}" for i in range(rng.randint(8, 30))]
    files = [f"src/{package}/{name}.py" for name in names]
    target, other = rng.sample(files, 2)
    function = f"{rng.choice(_PLAIN)}_{rng.choice(_PLAIN)}_{rng.randint(1, 9)}"
    thread.say(f"The totals of {package} are wrong when a discount applies. Please fix it.")
    thread.call("bash", "\n".join(files), command=f"ls -R src/{package}")
    line = rng.randint(100, 900)
    hits = [f"{f}:{rng.randint(1, 999)}:    # {_prose(rng, 6)}" for f in rng.sample(files, 5)]
    hits.insert(rng.randint(0, 5), f"{target}:{line}:def {function}(order, discount):")
    thread.call("bash", "\n".join(hits), command="grep -rn discount src")
    for name, start in ((target, line), (other, rng.randint(1, 300))):
        width = rng.choice([40, 100])
        body = [
            f"{n}:    {rng.choice(_PLAIN)}_{n} = {rng.choice(_PLAIN)}({rng.randint(1, 99)})"
            f"  # {_prose(rng, 5)}"
            for n in range(start, start + width)
        ]
        thread.call("bash", f"[File: {name}]\n" + "\n".join(body), command=f"open {name} {start}")
        if name == target:
            spot = line + rng.randint(2, 30)
            old = body[spot - line].partition(":")[2].partition("#")[0].strip()
    thread.call("bash", "File updated.", command=f"edit {target} {spot}: {old} - discount")
    thread.call("bash", f"1 failed: test_{function}\n" + _prose(rng, 60), command="pytest -q")
    thread.call("bash", "ok", command=f"sed -n {line}p {target}")
    thread.call("bash", "ok", command=f"git add {target}")
    thread.answer(f"{function} is fixed.")
    return thread.messages


def tool_tasks(seed: int = 0, each: int = 12) -> list[tuple[str, str, list[BaseMessage]]]:
    """Return (family, task, messages), ``each`` of every family; the same for the same seed."""
    threads = []
    for name in NAMES:
        for number in range(each):
            rng = random.Random(f"{seed}-{name}-{number}")
            messages = shell_task(rng) if name == "shell" else service_task(FAMILIES[name], rng)
            threads.append((name, f"{name}-{number}", messages))
    return threads
