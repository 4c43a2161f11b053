"""The QA experiments: chunk size, chunking, embedding and retrieval, memory policy, reranking.

    stategate eval qa --out runs/qa-sample
    stategate eval qa --data FOLDER --experiments A,B,C --out runs/qa
    stategate eval qa --set actor.kind=answer --limit 6 --experiments D --out runs/qa-chat

Of each question: retrieval (Hit@3, MRR, nDCG@10 over the ten best passages), answer (similarity,
token F1), latency, tokens and cost. In D the questions are asked in order, six a conversation. E lets a
small language model rerank, and is run only where it is asked for: it costs seconds a question.
"""

import os
import shutil
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tqdm import tqdm

from envs.qa.dialogues import Dialogue, DialogueTurn
from envs.qa.questions import Question
from evals.qa_data import QuestionSet, load_set, relevant
from evals.qa_development import retrieval_metrics
from evals.qa_play import POLICIES, Player
from evals.run_directory import RunDirectory, provenance, shown_config
from evals.statistics import mean, paired, standard_error
from graph.config import Config, load_config
from nodes.retrieval.corpus import Retrieval
from stores.corpus.chunking import Chunking
from stores.errors import UserError

_256, _1024 = "env.chunking=fixed-256-50", "env.chunking=fixed-1024-100"
_OPENAI = "embedder.kind=openai"
_LARGE = (_OPENAI, "embedder.model=text-embedding-3-large", "embedder.dimension=3072")
#: Config overrides of every agent; without a policy of its own an agent has no memory.
AGENTS: dict[str, tuple[str, ...]] = {
    "fixed-256": (_256,),
    "fixed-1024": (_1024,),
    "recursive-512": ("env.chunking=recursive-512-50",),
    "dense-256": (_256, "context.retrieval=dense"),
    "dense-1024": (_1024, "context.retrieval=dense"),
    "rrf-256": (_256, "context.retrieval=rrf"),
    "rrf-1024": (_1024, "context.retrieval=rrf"),
    "hybrid-256": (_256, "context.retrieval=hybrid"),
    "hybrid-1024": (_1024, "context.retrieval=hybrid"),
    "openai-small-256": (_256, _OPENAI, "context.retrieval=dense"),
    "openai-large-256": (_256, *_LARGE, "context.retrieval=dense"),
    "likelihood-256": (_256, "context.retrieval=likelihood"),
    **dict.fromkeys(POLICIES, (_256,)),
}
#: The agents of each experiment; the first is what the others are tested against.
EXPERIMENTS: dict[str, tuple[str, ...]] = {
    "A": ("fixed-256", "fixed-1024"),
    "B": ("fixed-256", "fixed-1024", "recursive-512"),
    "C": (
        "dense-256", "rrf-256", "hybrid-256", "fixed-256", "dense-1024", "rrf-1024",
        "hybrid-1024", "fixed-1024", "openai-small-256", "openai-large-256",
    ),
    "D": ("neither", "stm", "ltm", "both"),
    "E": ("hybrid-256", "likelihood-256"),
}  # fmt: skip
#: Those that need no language model.
USUAL = ("A", "B", "C", "D")
METRICS = ("hit3", "mrr", "ndcg", "similarity", "f1", "tokens", "model_tokens", "cost", "seconds")
_TESTED = ("hit3", "mrr", "ndcg", "similarity", "f1")
_DEPTH, _SESSION = 10, 6


def run_qa(
    out: str,
    data: str = "sample",
    experiments: Sequence[str] = USUAL,
    config: str | Mapping[str, Any] = "qa",
    overrides: Sequence[str] = ("actor.kind=extract",),
    limit: int | None = None,
    only: Sequence[str] = (),
    seed: int = 0,
    command: Sequence[str] = ("run_qa",),
) -> dict[str, Any]:
    """Run ``experiments`` and return the summary; resumes by question (D: by conversation set).

    ``only`` keeps the named agents of the experiments.
    """
    unknown = [name for name in experiments if name not in EXPERIMENTS]
    if unknown or not experiments:
        raise UserError(f"experiments are A, B, C, D and E: '{', '.join(unknown)}' is none")
    chosen = load_set(data)
    names = list(dict.fromkeys(name for e in experiments for name in EXPERIMENTS[e]))
    missing = [name for name in only if name not in names]
    if missing:
        raise UserError(f"no agent '{missing[0]}' in these experiments: {', '.join(names)}")
    names = [name for name in names if not only or name in only]
    common = [f"env.corpus={chosen.corpus}", *overrides]
    configs = {n: load_config(config, [*_policy(n), *common, *AGENTS[n]]) for n in names}
    skipped = {n: why for n, c in configs.items() if (why := _not_run(c))}
    args = {
        **provenance(command),
        "experiment": "qa",
        "experiments": list(experiments),
        "data": {"name": chosen.name, "sha256": chosen.sha256},
        "seed": seed,
        "limit": limit,
        "agents": {n: shown_config(c.model_dump(mode="json")) for n, c in configs.items()},
    }
    run = RunDirectory(out, args)
    done = {(row["agent"], row["number"]) for row in run.rows("questions")}
    tasks = [
        task for n in names if n not in skipped for task in _tasks(n, configs[n], chosen, limit)
    ]
    todo = [task for task in tasks if any((task[0], i) not in done for i, _ in task[1])]
    if done and todo:
        run.note_resumption(args)
    players: dict[str, Player] = {}
    with tqdm(todo, unit="task", disable=None) as bar:
        for name, numbered in bar:
            bar.set_description(name)
            if name not in players:
                players[name] = Player(name, configs[name], run.folder / "state")
            run.append("questions", *_asked(players[name], numbered))
    shutil.rmtree(run.folder / "state", ignore_errors=True)
    return summarise(run, experiments, skipped, seed, names)


def _policy(name: str) -> tuple[str, ...]:
    return POLICIES.get(name, POLICIES["neither"])


def _not_run(config: Config) -> str:
    """Say why an agent cannot be run here, "" if it can."""
    key = getattr(config.embedder, "api_key_env", "")
    is_remote = config.embedder.kind == "openai"
    missing = is_remote and "openai.com" in str(config.embedder) and not os.environ.get(key)
    return f"not run: {key} is not set, and no query vectors are stored" if missing else ""


def _tasks(
    name: str, config: Config, chosen: QuestionSet, limit: int | None
) -> list[tuple[str, list[tuple[int, Question]]]]:
    """Return (agent, its questions that belong together): one, or with a memory all of them."""
    questions = list(enumerate(chosen.under(Chunking.parse(_chunking(config)))))[:limit]
    return [(name, questions)] if name in POLICIES else [(name, [item]) for item in questions]


def _chunking(config: Config) -> str:
    return str(getattr(config.env, "chunking", ""))


def _asked(player: Player, numbered: Sequence[tuple[int, Question]]) -> list[dict[str, Any]]:
    """Play the questions in conversations of six; returns their rows with retrieval metrics."""
    turns = [DialogueTurn(q.question, "question", (), q.answer) for _, q in numbered]
    sessions = tuple(
        tuple(turns[start : start + _SESSION]) for start in range(0, len(turns), _SESSION)
    )
    player.index()  # a first question must not pay for the index
    rows = player.play(Dialogue(str(numbered[0][0]), sessions))
    made = []
    for (number, question), row in zip(numbered, rows, strict=True):
        made.append({**row, "number": number, **_retrieval(player, question, row["query"])})
    return made


def _retrieval(player: Player, question: Question, query: str) -> dict[str, Any]:
    index = player.index()
    gold = relevant(question, index.passages)
    how: Retrieval = getattr(player.config.context, "retrieval", "dense")
    started = time.perf_counter()
    found = [place for place, _ in index.find(query, _DEPTH, how)]
    took = time.perf_counter() - started
    measured = retrieval_metrics(found, gold)
    return {"gold": len(gold), **measured, "search_seconds": round(took, 5)}


def summarise(
    run: RunDirectory,
    experiments: Sequence[str],
    skipped: Mapping[str, str],
    seed: int = 0,
    names: Sequence[str] = tuple(AGENTS),
) -> dict[str, Any]:
    """Make ``summary.json``: a row an experiment and agent, tests against its first agent."""
    by_agent: dict[str, dict[int, dict[str, Any]]] = {}
    for row in run.rows("questions"):
        by_agent.setdefault(row["agent"], {})[row["number"]] = row
    rows: list[dict[str, Any]] = []
    tests: list[dict[str, Any]] = []
    for experiment in experiments:
        agents = [name for name in EXPERIMENTS[experiment] if name in names]
        first = agents[0] if agents else ""
        for name in agents:
            head = {"experiment": experiment, "agent": name}
            if name in skipped:
                rows.append({**head, "n": 0, "note": skipped[name]})
                continue
            rows.append({**head, **_row(list(by_agent.get(name, {}).values()))})
            if name != first:
                tests += [
                    {"experiment": experiment, **test}
                    for test in _tests(first, name, by_agent, seed)
                ]
    return run.summarise(rows, tests)


def _row(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {"n": len(rows)}
    for metric in METRICS:
        values = [float(row.get(metric) or 0) for row in rows]
        found |= {metric: mean(values), f"{metric}_se": standard_error(values)}
    for name, share in (("p50", 50), ("p95", 95)):
        seconds = [float(row["seconds"]) for row in rows] or [float("nan")]
        found[f"seconds_{name}"] = float(np.percentile(seconds, share))
    return found


def _tests(
    a: str, b: str, rows: Mapping[str, Mapping[int, Mapping[str, Any]]], seed: int
) -> list[dict[str, Any]]:
    shared = sorted(set(rows.get(a, {})) & set(rows.get(b, {})))
    found = []
    for metric in _TESTED if shared else ():
        one, two = ([float(rows[n][i].get(metric) or 0) for i in shared] for n in (a, b))
        found.append({"a": a, "b": b, "metric": metric, **vars(paired(one, two, seed))})
    return found
