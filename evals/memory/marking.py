"""What memory reads, merges and refuses, against turns that were marked by hand (``marked/``).

    stategate eval statements --out runs/statements
    stategate eval statements --agents rules,model --config mine.yaml --out runs/statements-model

    stategate eval statements --agents times,dateparser --split fresh --out runs/times

*Statements*: a marked one is found if one that was read has the same subject, shares at least half of
the value's words (F1 of content words), and agrees on whether it is denied; with its time also the
first day. *Merging*: pairs said by one speaker; ``done_wrongly`` is the share merged of those that must
stay apart. *Gate*: likewise for what is refused. *Changes*: likewise for first turns that second ones
end; ``new_holds`` is how often what a correction says holds from then on. The marks were made by
whoever wrote the rules, in one sitting, before the test half was run.
"""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from stategate.evals.core.task import Attempt, Row, Sample, Solver, Summary, Task, run_task
from stategate.language.dates import spans
from stategate.nodes.protocols import Embedder
from stategate.nodes.resources import Resources
from stategate.nodes.retrieval.remember import Memory
from stategate.nodes.retrieval.statements import ModelStatements, State, statements_of
from stategate.stores.errors import UserError
from stategate.stores.memory.changes import CHANGES
from stategate.stores.memory.records import Statement
from stategate.stores.runs import with_errors
from stategate.stores.text import words_of

_FOLDER = Path(__file__).parent / "marked"
#: Readers of times.
TIMERS = ("times", "dateparser")
#: What is counted by writing turns into a memory, and the mark of those where it is to be done.
WRITTEN = {"merge": "same", "gate": "refuse", "changes": "ends"}
_FILES = {"merge": "duplicates", "gate": "small_talk", "changes": "changes"}
_PAIR = 2  # turns; what comes after them is what has to hold then
SPEAKER, SAID = "Ana", datetime(2024, 5, 16, 12, tzinfo=UTC).timestamp()
_ENOUGH = 0.5  # F1 of a value's words


@dataclass(frozen=True)
class Marked:
    """One statement as it was marked; ``day`` is "" where the turn tells none."""

    subject: str
    value: str
    day: str
    negated: bool


@dataclass(frozen=True)
class MarkedTurn:
    """A turn and what it states."""

    text: str
    statements: tuple[Marked, ...]


def marked_turns(split: str) -> list[MarkedTurn]:
    """Return the turns of ``dev``, ``test`` (all that is not developed on), ``fresh`` or ``all``.

    ``fresh`` is the part of ``test`` that somebody else than the rules' author marked.
    """
    dev, rest = _read("statements").split("[test]\n")
    test, fresh = rest.split("[fresh]\n")
    parts = {"dev": dev, "test": f"{test}\n{fresh}", "fresh": fresh, "all": f"{dev}\n{rest}"}
    if split not in parts:
        raise UserError(f"--split is {', '.join(parts)}, not '{split}'")
    lines = parts[split].splitlines()
    return [_turn(line) for line in lines if "=>" in line and not line.startswith("#")]


def _turn(line: str) -> MarkedTurn:
    text, _, told = line.partition(" =>")
    found = []
    for one in filter(str.strip, told.split(";")):
        subject, value, day, *rest = (part.strip() for part in one.split("|"))
        found.append(Marked(subject, value, day.strip("-") and day, rest == ["not"]))
    return MarkedTurn(text.strip(), tuple(found))


def pairs(name: str, split: str = "all") -> list[list[str]]:
    """Return the rows of ``duplicates``, ``small_talk`` or ``changes`` (its part by split)."""
    dev, _, test = _read(name).partition("[test]\n")
    part = _read(name) if not test or split == "all" else dev if split == "dev" else test
    lines = (line for line in part.splitlines() if "|" in line and not line.startswith("#"))
    return [[part.strip() for part in line.split("|")] for line in lines]


def marked_times(split: str) -> list[list[str]]:
    """Return sentences with words, first and last day of their time ("" where there is none).

    ``test`` is what the rules were mended on after a first run, ``fresh`` what they were not.
    """
    test, fresh = _read("times").split("[fresh]\n")
    lines = (
        fresh if split == "fresh" else f"{test}\n{fresh}" if split == "all" else test
    ).splitlines()
    rows = [
        [part.strip() for part in line.split("|")] for line in lines if line[:1] not in ("#", "")
    ]
    return [[*row, *[""] * (4 - len(row))] for row in rows]


def _read(name: str) -> str:
    return (_FOLDER / f"{name}.txt").read_text(encoding="utf-8")


def is_found(marked: Marked, statement: Statement) -> bool:
    """Say whether what was read is what was marked, times apart."""
    same = marked.subject.lower() == statement.subject.lower()
    if marked.negated != statement.negated:
        return False
    a = set(words_of(marked.value))
    said = f"{statement.relation} {statement.value}"
    b, more = set(words_of(statement.value)), set(words_of(said))
    best = max(_f1(a, b), _f1(a, more))
    # "My sister Jana is a midwife" is Ana's or her sister's.
    return (
        same or statement.subject.lower().startswith(marked.subject.lower())
    ) and best >= _ENOUGH


def _f1(a: set[str], b: set[str]) -> float:
    return 2 * len(a & b) / (len(a) + len(b)) if a and b else 0.0


def _day(statement: Statement) -> str:
    if statement.valid_from is None:
        return ""
    return _iso(statement.valid_from)


def run_statements(
    out: str,
    agents: Sequence[str] = ("rules",),
    split: str = "test",
    embedder: Embedder | None = None,
    resources: Callable[[], Resources] | None = None,
) -> dict[str, Any]:
    """Measure readers of statements, merging and the gate; return the summary."""
    turns = marked_turns(split)
    args = {"experiment": "statements", "split": split, "turns": len(turns)}
    nothing = {"read": 0, "hits": 0, "timed": 0}
    times = [
        Sample({"item": row[0]}, row, [{"marked": bool(row[1]), "right": False}])
        for row in marked_times(split)
    ]
    samples = {
        **{
            name: times
            if name in TIMERS
            else [
                Sample({"item": t.text}, t, [{"marked": len(t.statements), **nothing}])
                for t in turns
            ]
            for name in agents
        },
        **{name: [_pair(row) for row in pairs(_FILES[name], split)] for name in WRITTEN},
    }

    def solver(name: str) -> Solver:
        if name in WRITTEN:
            return _writing(name, embedder)
        if name in TIMERS:
            return _timing(name)
        state = statements_of(
            "model" if name == "model" else "rules", resources() if resources else None
        )
        return _reading(state)

    task = Task([*agents, *WRITTEN], lambda name: samples[name], solver, _summary, "turns", "turn")
    return run_task(task, out, args)


def _pair(row: Sequence[str]) -> Sample:
    return Sample({"item": " / ".join(row[1:3])}, row, [{"mark": row[0], "done": False}])


def _reading(state: State) -> Solver:
    def solve(sample: Sample, attempt: Attempt) -> None:
        turn: MarkedTurn = sample.data
        before = _spent(state)
        # What only changes what was said before is none, and kept only where it changed something.
        read = [s for s in state(turn.text, SPEAKER, SAID) if s.relation not in CHANGES]
        hits, timed, used = 0, 0, set()
        for marked in turn.statements:
            place = next(
                (i for i, s in enumerate(read) if i not in used and is_found(marked, s)), None
            )
            if place is not None:
                used.add(place)
                hits += 1
                timed += _day(read[place]) == marked.day
        row: Row = {"marked": len(turn.statements), "read": len(read), "hits": hits, "timed": timed}
        if isinstance(state, ModelStatements):
            names = ("tokens_in", "tokens_out", "fallbacks")
            row |= {k: b - a for k, a, b in zip(names, before, _spent(state), strict=True)}
        attempt.rows[0] |= row

    return solve


def _spent(state: State) -> tuple[int, int, int]:
    if not isinstance(state, ModelStatements):
        return 0, 0, 0
    return state.usage.tokens_in, state.usage.tokens_out, state.fallbacks


def _timing(name: str) -> Solver:
    read = _own_times if name == "times" else _library_times()

    def solve(sample: Sample, attempt: Attempt) -> None:
        text, words, first, last = sample.data
        found = read(text)
        fits = [
            (first <= a <= (last if last != "-" else first))
            if a == b and name != "times"
            else a == first and last in ("-", b)
            for a, b in found
        ]
        attempt.rows[0] |= {"marked": bool(words), "right": any(fits) if words else not found}

    return solve


def _own_times(text: str) -> list[tuple[str, str]]:
    return [(_iso(span.start), _iso(span.end - 1)) for span in spans(text, SAID)]


def _library_times() -> Callable[[str], list[tuple[str, str]]]:
    """Return dateparser's reading: days. Raises ``UserError`` where it is not installed."""
    try:
        search = import_module("dateparser.search").search_dates
    except ImportError:
        raise UserError("dateparser is not here: pip install dateparser") from None
    settings = {"RELATIVE_BASE": datetime.fromtimestamp(SAID, UTC).replace(tzinfo=None)}

    def read(text: str) -> list[tuple[str, str]]:
        days = [f"{moment:%Y-%m-%d}" for _, moment in search(text, ["en"], settings) or ()]
        return [(day, day) for day in days]

    return read


def _iso(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d}"


def _writing(name: str, embedder: Embedder | None) -> Solver:
    """Write one or two turns into a memory of their own, and say whether it did what is counted."""

    def solve(sample: Sample, attempt: Attempt) -> None:
        mark, *texts = sample.data
        new = texts.pop() if len(texts) > _PAIR else ""
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            memory = Memory(f"{folder}/m.sqlite", embedder=embedder, gated=name == "gate")
            first, *_, last = [
                memory.remember(text, speaker=SPEAKER, at=SAID) for text in texts
            ] * 2
            rows = memory.store.timeline(memory.namespace) if new else []
        done = {
            "gate": last.outcome == "refused",
            "merge": last.outcome == "merged",
            "changes": first.fact in last.closed,
        }
        attempt.rows[0] |= {"mark": mark, "done": done[name]}
        if new:
            holds = [r["value"] for r in rows if r["fact_id"] == last.fact and not r["valid_to"]]
            attempt.rows[0]["holds"] = any(new.lower() in value.lower() for value in holds)

    return solve


def _summary(rows: Sequence[Row]) -> Summary:
    table = []
    for name in dict.fromkeys(row["agent"] for row in rows):
        own = [row for row in rows if row["agent"] == name]
        if name in WRITTEN:
            parts = {
                "done_rightly": [float(r["done"]) for r in own if r["mark"] == WRITTEN[name]],
                "done_wrongly": [float(r["done"]) for r in own if r["mark"] != WRITTEN[name]],
                "new_holds": [float(r["holds"]) for r in own if "holds" in r],
            }
            figures = with_errors({key: values for key, values in parts.items() if values})
            table.append({"agent": name, "n": len(own), **figures})
            continue
        if name in TIMERS:
            parts = {
                "right": [float(r["right"]) for r in own if r["marked"]],
                "right_none": [float(r["right"]) for r in own if not r["marked"]],
            }
            cost = sum(r.get("seconds", 0.0) for r in own) / max(len(own), 1)
            table.append({"agent": name, "n": len(own), **with_errors(parts), "seconds": cost})
            continue
        marked, read, hits, timed = (
            sum(r[key] for r in own) for key in ("marked", "read", "hits", "timed")
        )
        recall, precision = hits / marked, hits / max(read, 1)
        cost = sum(r.get("seconds", 0.0) for r in own) / max(len(own), 1)
        table.append(
            {
                "agent": name,
                "n": len(own),
                "statements": marked,
                "recall": recall,
                "recall_se": (recall * (1 - recall) / marked) ** 0.5,
                "precision": precision,
                "precision_se": (precision * (1 - precision) / max(read, 1)) ** 0.5,
                "recall_with_time": timed / marked,
                "seconds": cost,
                **{
                    k: sum(r[k] for r in own) / len(own)
                    for k in ("tokens_in", "tokens_out", "fallbacks")
                    if all(k in r for r in own)
                },
            }
        )
    return table, []
