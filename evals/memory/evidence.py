"""Evidence recall: which share of the marked turns a ranking brings, counted strictly and one way.

    stategate eval locomo locomo10.json --out runs/locomo
    stategate eval longmemeval longmemeval_s.json --agents bm25,hybrid,memory --out runs/lme

No model and no judge: a question counts by the turns that its authors marked. ``any@k`` is the share
of questions with at least one evidence unit among the first k, ``all@k`` with every one, ``share@k``
the mean share of units. Units: ``turn`` (the very turn), ``near`` (that turn, the one before or the one
after it, same session), ``session`` (the turn's session; a ranking of turns ranks a session by its best
turn). ``in600`` is the same for the first turns that fit into 600 tokens (cl100k), as a prompt shows
them. Intervals draw conversations again (10,000 times).
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stategate.envs.protocols import UNKNOWN
from stategate.envs.qa.questions import token_f1
from stategate.evals.core.statistics import paired, with_interval
from stategate.evals.core.task import Row, Sample, Solver, Summary, Task, run_task
from stategate.evals.memory.published import (
    Conversation,
    Question,
    read_locomo,
    read_longmemeval,
    text_of,
)
from stategate.evals.memory.rankers import PRESETS, Ranker, line_of, ranker_named
from stategate.stores.errors import UserError
from stategate.stores.runs import public_path
from stategate.stores.tokens import count_tokens

READERS: Mapping[str, Callable[[str | Path], list[Conversation]]] = {
    "locomo": read_locomo,
    "longmemeval": read_longmemeval,
}
KS = (1, 5, 10)
BUDGET = 600
RULES = ("any", "all", "share")
MAIN = tuple(
    f"{unit}_{rule}_{k}" for unit in ("turn", "near", "session") for rule in RULES for k in KS
) + tuple(f"turn_{rule}_in{BUDGET}" for rule in RULES)
#: What is tested pair by pair.
_TESTED = (
    "turn_any_5",
    "turn_all_5",
    "turn_share_5",
    "turn_share_10",
    f"turn_any_in{BUDGET}",
    f"turn_all_in{BUDGET}",
    "session_any_5",
)


@dataclass(frozen=True)
class Settings:
    """What a run is: the file, who ranks, and how many conversations."""

    file: str
    form: str
    agents: tuple[Ranker, ...]
    limit: int | None = None
    seed: int = 0


def run_evidence(
    settings: Settings,
    out: str,
    answer: Callable[[str, Sequence[str]], str] | None = None,
) -> dict[str, Any]:
    """Rank every question's turns with every agent; return the summary. Resumes by conversation.

    ``answer`` takes a question and the lines that fit into 600 tokens, and returns a chat model's
    answer: then token F1 and abstention are counted, too.
    """
    conversations = READERS[settings.form](settings.file)[: settings.limit]
    digest = hashlib.sha256(text_of(settings.file).encode()).hexdigest()
    args = {
        "experiment": settings.form,
        "data": {
            "name": public_path(settings.file),
            "sha256": digest,
        },
        "conversations": len(conversations),
        "questions": sum(len(c.questions) for c in conversations),
        "answered": answer is not None,
        "seed": settings.seed,
        "rankers": {agent.name: agent.model_dump(exclude={"name"}) for agent in settings.agents},
    }
    agents = {agent.name: agent for agent in settings.agents}
    samples = [
        Sample({"conversation": c.id}, c, [_failure(q, c.id) for q in c.questions])
        for c in conversations
    ]

    def solver(name: str) -> Solver:
        def solve(sample: Sample, attempt: Any) -> None:
            conversation: Conversation = sample.data
            ranking = agents[name].over(conversation)
            lines = {
                turn.id: line_of(turn, session)
                for session in conversation.sessions
                for turn in session.turns
            }
            for row, question in zip(attempt.rows, conversation.questions, strict=True):
                turns, sessions, best = ranking(question)
                within = _within(turns, lines)
                row |= _failure(question, conversation.id)
                row |= {"score": best, **measured(conversation, question, turns, sessions, within)}
                if answer is not None:
                    said = answer(question.text, [lines[id_] for id_ in within])
                    row |= _judged(question, said)

        return solve

    def scorer(rows: Sequence[Row]) -> Summary:
        return summarise(rows, list(agents), settings.seed)

    task = Task(list(agents), lambda _: samples, solver, scorer, "questions", "conversation")
    return run_task(task, out, args)


def measured(
    conversation: Conversation,
    question: Question,
    turns: Sequence[str] | None,
    sessions: Sequence[str],
    within: Sequence[str],
) -> dict[str, float]:
    """Return every metric of one question's rankings; none for a question without evidence.

    ``turns`` is None for a ranking of whole sessions: it has no metrics by turn.
    """
    values: dict[str, float] = {}
    if question.turns and turns is not None:
        near = _neighbours(conversation)
        for k in KS:
            first = set(turns[:k])
            values |= _rules(f"turn_{{}}_{k}", [id_ in first for id_ in question.turns])
            hits = [bool(near[id_] & first) for id_ in question.turns]
            values |= _rules(f"near_{{}}_{k}", hits)
        values |= _rules(f"turn_{{}}_in{BUDGET}", [id_ in within for id_ in question.turns])
    if question.sessions:
        for k in KS:
            hits = [id_ in sessions[:k] for id_ in question.sessions]
            values |= _rules(f"session_{{}}_{k}", hits)
    return values


def _rules(name: str, hits: Sequence[bool]) -> dict[str, float]:
    figures = (any(hits), all(hits), sum(hits) / len(hits))
    return {name.format(rule): float(x) for rule, x in zip(RULES, figures, strict=True)}


def _neighbours(conversation: Conversation) -> dict[str, set[str]]:
    """Return for each turn itself and the turns beside it in its session."""
    near = {}
    for session in conversation.sessions:
        ids = [turn.id for turn in session.turns]
        for i, id_ in enumerate(ids):
            near[id_] = set(ids[max(0, i - 1) : i + 2])
    return near


def _within(turns: Sequence[str] | None, lines: Mapping[str, str]) -> list[str]:
    """Return the first turns whose lines fit into the budget; the first that does not ends it."""
    left, chosen = BUDGET, []
    for id_ in turns or ():
        left -= count_tokens(lines[id_] + "\n")
        if left < 0:
            break
        chosen.append(id_)
    return chosen


def _failure(question: Question, conversation: str) -> dict[str, Any]:
    return {
        "question": question.id,
        "category": question.category,
        "answerable": question.answerable,
        "evidence": len(question.turns),
        "conversation": conversation,
        "score": None,
    }


def _judged(question: Question, said: str) -> dict[str, Any]:
    abstained = said.strip().rstrip(".").lower() == UNKNOWN.rstrip(".").lower()
    row: dict[str, Any] = {"said": said, "abstained": float(abstained)}
    if question.answerable:
        row["f1"] = 0.0 if abstained else token_f1(said, question.answer)
    return row


def summarise(rows: Sequence[Row], agents: Sequence[str], seed: int = 0) -> Summary:
    """Return a row for each agent and category with intervals, and paired tests of all against all."""
    table: list[Row] = []
    by_agent = {name: [row for row in rows if row["agent"] == name] for name in agents}
    for name, own in by_agent.items():
        categories = dict.fromkeys(row["category"] for row in own)
        for category in ("all", *sorted(categories)):
            part = [row for row in own if category in ("all", row["category"])]
            table.append({"agent": name, "category": category, **_figures(part, seed)})
    tests = []
    # The last agent is the one under test where it is ours; each pair is told once.
    for i, a in enumerate(agents):
        for b in agents[i + 1 :]:
            tests += _pair(by_agent[a], by_agent[b], a, b, seed)
    return table, tests


def _figures(rows: Sequence[Row], seed: int) -> Row:
    figures: Row = {"n": sum(1 for r in rows if r["evidence"]), "asked": len(rows)}
    for metric in (*MAIN, "f1"):
        # An error counts as finding nothing.
        known = [r for r in rows if metric in r or (r.get("error") and r["evidence"])]
        if any(metric in r for r in known):
            values = [float(r.get(metric, 0.0)) for r in known]
            figures |= with_interval(metric, values, seed, [r["conversation"] for r in known])
    yes = [r["score"] for r in rows if r["answerable"] and r["score"] is not None]
    no = [r["score"] for r in rows if not r["answerable"] and r["score"] is not None]
    if yes and no:
        figures["abstention_auc"] = _auc(yes, no)
    if any("abstained" in r for r in rows):
        for name, part in (("abstained", False), ("abstained_wrongly", True)):
            values = [r["abstained"] for r in rows if r["answerable"] is part and "abstained" in r]
            if values:
                figures[name] = sum(values) / len(values)
    return figures


def _auc(yes: Sequence[float], no: Sequence[float]) -> float:
    """Return how often an answerable question's best score is above one's that has no answer."""
    from scipy.stats import mannwhitneyu

    return float(mannwhitneyu(yes, no).statistic / (len(yes) * len(no)))


def _pair(a: Sequence[Row], b: Sequence[Row], name_a: str, name_b: str, seed: int) -> list[Row]:
    theirs = {row["question"]: row for row in b}
    tests = []
    for metric in _TESTED:
        pairs = [
            (r[metric], theirs[r["question"]][metric], r["conversation"])
            for r in a
            if metric in r and metric in theirs.get(r["question"], {})
        ]
        if pairs:
            ours, others, clusters = zip(*pairs, strict=True)
            test = paired(ours, others, seed, clusters)
            tests.append({"a": name_a, "b": name_b, "metric": metric, **vars(test)})
    return tests


def settings_of(
    file: str, form: str, agents: Sequence[str], own: Sequence[str], limit: int | None, seed: int
) -> Settings:
    """Return checked settings; ``own`` are agents as ``name=kind=bm25,stem=false``.

    Raises ``UserError`` for an unknown agent or two of one name.
    """
    chosen = [ranker_named(name) for name in agents] + [Ranker.parse(text) for text in own]
    if not chosen or len({agent.name for agent in chosen}) < len(chosen):
        raise UserError(f"name each agent once: {', '.join(PRESETS)}, or --agent NAME=kind=…")
    return Settings(file, form, tuple(chosen), limit, seed)


#: What a terminal and a page show; all metrics are in ``summary.json``.
SHOWN = (
    "turn_any_1",
    "turn_any_5",
    "turn_any_10",
    "turn_all_5",
    "turn_all_10",
    "near_any_10",
    "near_all_10",
    "session_any_5",
    "session_all_5",
    f"turn_any_in{BUDGET}",
    f"turn_all_in{BUDGET}",
)


def compact(summary: Mapping[str, Any]) -> str:
    """Return the rows over all categories as a table: shares with 95 % intervals."""
    from tabulate import tabulate

    rows = [row for row in summary["rows"] if row["category"] == "all"]
    metrics = [m for m in (*SHOWN, "f1") if any(m in row for row in rows)]
    lines = [[row["agent"], row["n"], *(_shown(row, name) for name in metrics)] for row in rows]
    heads = ["ranking", "n", *(m.replace("_", " ") for m in metrics)]
    return tabulate(lines, heads, tablefmt="simple", disable_numparse=True)


def _shown(row: Mapping[str, Any], metric: str) -> str:
    if row.get(metric) is None:
        return ""
    value, low, high = (
        f"{row[key]:.3f}".lstrip("0") for key in (metric, f"{metric}_low", f"{metric}_high")
    )
    return f"{value} [{low}, {high}]"
