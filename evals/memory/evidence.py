"""Evidence recall: which share of a question's evidence turns a ranking has among its first.

No model and no judge: a question counts by the turns that its authors marked. ``any@k`` is the share
of questions with at least one evidence unit among the first k, ``all@k`` with every one, ``share@k``
the mean share of units. Units: ``turn`` (the very turn) and ``session`` (ranked by its best turn).
``in600`` is the same for the first turns that fit into 600 tokens (cl100k), as a prompt shows them.
Errors and tests are over conversations (clusters).

Rankers: ``bm25`` is Lucene's BM25 with k1 1.5 and b 0.75 over Porter stems without English stop words;
``minilm`` the cosine of all-MiniLM-L6-v2; ``hybrid`` the corpora's own fusion of both;
``memory`` long-term memory, into which each turn was written at its own time.
"""

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from itertools import accumulate, combinations, takewhile
from pathlib import Path
from typing import Any

import numpy as np

from stategate.evals.core.statistics import paired_tests, summary_row
from stategate.evals.core.task import Row, Sample, Solver, Summary, Task
from stategate.evals.memory.published import (
    Conversation,
    Question,
    Utterance,
    identity_of,
    read_conversations,
)
from stategate.evals.settings import Evidence
from stategate.graph.config import load_config
from stategate.nodes.protocols import Embedder
from stategate.nodes.resources import Resources
from stategate.nodes.retrieval.corpus import TextIndex
from stategate.nodes.retrieval.ranking import bm25_over
from stategate.nodes.retrieval.remember import Memory
from stategate.stores.memory.recall import Limits
from stategate.stores.memory.records import Fact
from stategate.stores.text import day_of
from stategate.stores.tokens import count_tokens

KS = (1, 5, 10)
BUDGET = 600
METRICS = tuple(
    f"{unit}_{rule}_{cut}"
    for unit in ("turn", "session")
    for rule in ("any", "all", "share")
    for cut in (*KS, *([f"in{BUDGET}"] if unit == "turn" else []))
)
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
_DEPTH = 50
#: Ranks a question's turns: ids, best first, the best score, and by id the text in a prompt of a turn
#: that is not shown whole.
Ranking = Callable[[Question], tuple[list[str], float | None, Mapping[str, str]]]


def evidence_task(settings: Evidence) -> Task:
    """Return the task: every question's turns ranked by every agent."""
    talks = read_conversations(settings.file)[: settings.limit]
    samples = []
    for talk in talks:
        for q in talk.questions:
            key = {"question": q.id, "conversation": talk.id, "category": q.category}
            facts = {"answerable": q.answerable, "evidence": len(q.turns), "score": None}
            samples.append(Sample(key, (talk, q), facts))
    args = {
        **settings.args(),
        "data": identity_of(settings.file),
        "conversations": len(talks),
        "questions": len(samples),
    }
    config = load_config(settings.config, list(settings.overrides))
    embedder = Resources(None, config.embedder).embedder

    def solver(name: str) -> Solver:
        @lru_cache(1)  # questions of a conversation follow one another
        def ranking_of(talk: Conversation) -> tuple[Ranking, dict[str, str]]:
            return ranking_by(name, talk, embedder), {t.id: line_of(t) for t in talk.turns}

        def solve(sample: Sample, row: Row) -> None:
            talk, question = sample.data
            ranking, lines = ranking_of(talk)
            turns, best, passages = ranking(question)
            passages_read = [passages.get(id_, lines[id_]) for id_ in turns]
            within = turns[: fitting(passages_read, BUDGET)]
            row |= {**sample.failure, "score": best, **measured(talk, question, turns, within)}

        return solve

    scorer = partial(summarise, agents=settings.agents, seed=settings.seed)
    return Task(settings.agents, samples, solver, scorer, args, "questions", "question")


def ranking_by(name: str, talk: Conversation, embedder: Embedder) -> Ranking:
    """Return the ranking of a conversation's turns by the ranker ``name``."""
    if name == "memory":
        recall = remember(talk, embedder)

        def by_memory(question: Question) -> tuple[list[str], float | None, Mapping[str, str]]:
            facts = recall(question)
            passages = {fact.episode_id: line_of_fact(fact) for fact in facts}
            return list(passages), max((f.support for f in facts[:5]), default=None), passages

        return by_memory
    texts = [f"{turn.speaker}: {turn.text}" for turn in talk.turns]
    words = bm25_over(texts, stemmed=True)
    index = None if name == "bm25" else TextIndex(texts, embedder)

    def by_text(question: Question) -> tuple[list[str], float | None, Mapping[str, str]]:
        if index is None:
            scores = words.scores(question.text)
            ranked = [(int(i), float(scores[i])) for i in np.argsort(-scores, kind="stable")]
        else:
            how: Any = "dense" if name == "minilm" else name
            ranked = index.find(question.text, len(texts), how)
        ids = [talk.turns[i].id for i, _ in ranked]
        return ids, ranked[0][1] if ranked else None, {}

    return by_text


def remember(talk: Conversation, embedder: Embedder) -> Callable[[Question], list[Fact]]:
    """Return what recalls facts for a question from a memory of the conversation.

    Each turn is written at its own time, into a folder that goes with what is returned.
    """
    folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
    url = str(Path(folder.name) / "memory.sqlite")
    memory = Memory(url, embedder=embedder, user=talk.id)
    memory.remember_all(
        {
            "text": turn.text,
            "speaker": turn.speaker,
            "at": turn.at,
            "thread": turn.session,
            "id": turn.id,
        }
        for turn in talk.turns
    )

    def recall(question: Question, folder: object = folder) -> list[Fact]:
        return memory.recall(question.text, limits=Limits(facts=_DEPTH), at=question.at)

    return recall


def line_of(turn: Utterance) -> str:
    """Return a turn as a prompt shows it, with its day: what the token budget counts."""
    day = "" if turn.at is None else f"{day_of(turn.at)} "
    return f"{day}{' '.join(f'{turn.speaker}: {turn.text}'.split())}"


def line_of_fact(fact: Fact) -> str:
    """Return a recalled fact's passage as a prompt shows it, with its day."""
    return f"{day_of(fact.at)} {fact.speaker}: {fact.passage}"


def fitting(lines: Iterable[str], budget: int) -> int:
    """Return how many of the first ``lines`` fit into ``budget`` tokens; one that does not ends it."""
    sizes = accumulate(count_tokens(line + "\n") for line in lines)
    return sum(1 for _ in takewhile(lambda size: size <= budget, sizes))


def measured(
    conversation: Conversation, question: Question, turns: Sequence[str], within: Sequence[str]
) -> dict[str, float]:
    """Return every metric of one question's ranking; none for a question without evidence."""
    owner = {turn.id: turn.session for turn in conversation.turns}
    sessions = list(dict.fromkeys(owner[id_] for id_ in turns))
    values: dict[str, float] = {}
    units = (("turn", turns, question.turns), ("session", sessions, question.sessions))
    for unit, ranked, evidence in units:
        cuts = {str(k): ranked[:k] for k in KS}
        if unit == "turn":
            cuts[f"in{BUDGET}"] = within
        for cut, head in cuts.items() if evidence else ():
            hits = [id_ in head for id_ in evidence]
            values[f"{unit}_any_{cut}"] = float(any(hits))
            values[f"{unit}_all_{cut}"] = float(all(hits))
            values[f"{unit}_share_{cut}"] = sum(hits) / len(hits)
    return values


def summarise(rows: Sequence[Row], agents: Sequence[str], seed: int = 0) -> Summary:
    """Return a row for each agent and category, and paired tests of all against all."""
    units: dict[str, dict[str, Row]] = {name: {} for name in agents}
    for row in rows:
        # A question that failed has no hit.
        failed = dict.fromkeys(METRICS, 0.0) if row.get("error") and row["evidence"] else {}
        units[row["agent"]][row["question"]] = {**failed, **row}
    groups = {row["question"]: row["conversation"] for row in rows}
    summary: list[Row] = []
    for name, questions in units.items():
        for category in ("all", *sorted({row["category"] for row in questions.values()})):
            part = {q: row for q, row in questions.items() if category in ("all", row["category"])}
            with_evidence = {q: row for q, row in part.items() if row["evidence"]}
            row = summary_row(name, with_evidence, METRICS, groups)
            counts = {"category": category, "asked": len(part)}
            summary.append({**row, **counts, **_abstention(list(part.values()))})
    return summary, paired_tests(units, combinations(agents, 2), _TESTED, seed, groups)


def _abstention(rows: Sequence[Row]) -> dict[str, float]:
    """Return the area under the ROC curve of best scores, for telling which questions have answers."""
    yes = [r["score"] for r in rows if r["answerable"] and r["score"] is not None]
    no = [r["score"] for r in rows if not r["answerable"] and r["score"] is not None]
    if not yes or not no:
        return {}
    from scipy.stats import mannwhitneyu

    return {"abstention_auc": float(mannwhitneyu(yes, no).statistic / (len(yes) * len(no)))}
