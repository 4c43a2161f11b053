"""The QA experiments (chunk size, embedding and retrieval), and what memory adds to dialogues.

Of each question: retrieval (Hit@3, MRR, nDCG@10 over the ten best passages), answer (similarity,
token F1), latency, tokens and cost. A turn of a dialogue is right if the answer says all that it must,
and readable if the prompt held it. Paired tests compare dialogues (clusters), not turns.

Questions are the sample's that ships with the code, or a folder's: ``corpus/`` and
``evaluation_dataset.json``, a list of {question, reference_answer, gold_chunk_ids: {chunking: [chunk
ids]}}, with the chunks that the ids mean in ``reference_chunks_CHUNKING.jsonl``. Those are read as
stretches of text at once, so that the set survives another chunking of the same corpus.
"""

import hashlib
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from stategate.envs.protocols import answered
from stategate.envs.qa.questions import (
    KINDS,
    Dialogue,
    DialogueTurn,
    Evidence,
    Question,
    load_dialogues,
    load_questions,
    sample_folder,
    says,
    token_f1,
)
from stategate.evals.core.statistics import (
    compared,
    paired_tests,
    ranking_metrics,
    summary_row,
    units_of,
)
from stategate.evals.core.task import Row, Sample, Solver, Summary, Task
from stategate.evals.settings import Memory, Qa
from stategate.graph.build import build_graph
from stategate.graph.config import Config, load_config
from stategate.graph.session import Session
from stategate.graph.state import read_events
from stategate.nodes.build_context.recall import Recall, followed_turn
from stategate.nodes.observe.qa import QaEnv
from stategate.nodes.retrieval.corpus import Retrieval
from stategate.stores.corpus.chunking import Chunking, Passage, contains_evidence
from stategate.stores.errors import UserError, user_error_context
from stategate.stores.files import parse_json, user_path
from stategate.stores.runs import public_config, public_path, read_rows

#: Config overrides of each agent; the others are tested against the first.
AGENTS: dict[str, list[str]] = yaml.safe_load(
    Path(__file__).with_suffix(".yaml").read_text("utf-8")
)
METRICS = ("hit3", "mrr", "ndcg", "similarity", "f1", "tokens", "model_tokens", "cost", "seconds")
#: Config overrides of an agent without memory.
NO_MEMORY = ("context.history_tokens=0", "context.memory=null", "memory=[]")
_RANKING = {"hit3": "Success@3", "mrr": "RR@10", "ndcg": "nDCG@10"}
_TESTED = ("hit3", "mrr", "ndcg", "similarity", "f1")
_FAILURE = dict.fromkeys((*_TESTED, "tokens", "model_tokens", "cost"), 0.0)
_DEPTH = 10
_EXTRACT = "actor.kind=extract"  # no language model, unless the caller names an actor


@dataclass(frozen=True)
class QuestionSet:
    """A corpus (for ``env.corpus``), its questions for each chunking, and a hash of all that."""

    name: str
    corpus: str
    questions: dict[str, list[Question]]
    sha256: str


def load_set(source: str) -> QuestionSet:
    """Read ``"sample"`` or a folder. Raises ``UserError`` naming the file that is wrong."""
    if source == "sample":
        folder = sample_folder()
        sha256 = _hash([*sorted(folder.iterdir()), folder.parent / "questions.yaml"])
        return QuestionSet("sample", "sample", {"any": load_questions("sample")}, sha256)
    folder = user_path(source)
    path = folder / "evaluation_dataset.json"
    chunk_files = sorted(folder.glob("reference_chunks_*.jsonl"))
    with user_error_context(
        f"'{source}' is no question set",
        "it needs corpus/, evaluation_dataset.json and reference_chunks_*.jsonl",
    ):
        rows = parse_json(path.read_text(encoding="utf-8"))
        questions = {}
        for file in chunk_files:
            key = file.stem.removeprefix("reference_chunks_")
            chunks = {row["id"]: row["text"] for row in read_rows(file)}
            questions[key] = [_question(row, key, chunks) for row in rows]
    if not questions or not (folder / "corpus").is_dir():
        raise UserError(f"'{source}' has no corpus/ or no reference_chunks_*.jsonl")
    files = [path, *chunk_files, *sorted((folder / "corpus").iterdir())]
    return QuestionSet(folder.name, str(folder / "corpus"), questions, _hash(files))


def relevant(question: Question, passages: Sequence[Passage]) -> set[int]:
    """Return the indices of the passages that hold any of the question's evidence."""
    return {
        i
        for i, passage in enumerate(passages)
        for e in question.evidence
        if e.document in ("", passage.document) and contains_evidence(passage.text, e.text)
    }


def _question(row: Mapping[str, Any], key: str, chunks: dict[str, str]) -> Question:
    evidence = tuple(Evidence(chunks[id_]) for id_ in row["gold_chunk_ids"].get(key, ()))
    return Question(str(row["question"]), str(row.get("reference_answer", "")), evidence)


def _hash(files: Sequence[Path]) -> str:
    total = hashlib.sha256()
    for file in files:
        if file.is_file() and file.suffix in (".md", ".json", ".jsonl", ".yaml"):
            total.update(file.name.encode() + b"\n" + file.read_bytes())
    return total.hexdigest()


def qa_task(settings: Qa) -> Task:
    """Return the task: each question asked of each agent, on a thread of its own."""
    chosen = load_set(settings.data)
    common = [*NO_MEMORY, f"env.corpus={chosen.corpus}", _EXTRACT, *settings.overrides]
    configs = {n: load_config(settings.config, [*common, *own]) for n, own in AGENTS.items()}
    args = {
        **settings.args(),
        "data": {"name": chosen.name, "sha256": chosen.sha256},
        "agents": {n: public_config(c.model_dump(mode="json")) for n, c in configs.items()},
    }

    def solver(name: str) -> Solver:
        config = configs[name]
        if not isinstance(config.env, QaEnv):
            raise UserError(f"agent '{name}' has env {config.env.kind}: the QA world is needed")
        graph = build_graph(config)
        # Made now: a first question must not pay for the index.
        index = config.env.index(graph.agent.resources)
        # With the evidence that was judged under this chunking, else any.
        key = f"fixed_{Chunking.parse(config.env.chunking).size}"
        questions = chosen.questions.get(key) or next(iter(chosen.questions.values()))
        how: Retrieval = config.context.retrieval if isinstance(config.context, Recall) else "dense"

        def solve(sample: Sample, row: Row) -> None:
            question = questions[sample.data]
            turn = DialogueTurn(question.question, answer=question.answer)
            row |= ask(Session(graph, f"{name}/{sample.data}"), turn)
            gold = relevant(question, index.passages)
            ranking = [passage for passage, _ in index.find(row["query"], _DEPTH, how)]
            hits = [rank for rank, passage in enumerate(ranking) if passage in gold]
            scores = [-float(rank) for rank in range(len(ranking))]
            row |= ranking_metrics(_RANKING, scores, hits, len(gold) - len(hits))

        return solve

    count = len(next(iter(chosen.questions.values()))[: settings.limit])
    samples = [Sample({"number": number}, number, _FAILURE) for number in range(count)]
    scorer = partial(summarise, agents=[*AGENTS], seed=settings.seed)
    return Task([*AGENTS], samples, solver, scorer, args, "questions", "question")


def ask(session: Session, turn: DialogueTurn) -> Row:
    """Ask one question in a conversation; return its row: answer, what it cost, how right it is."""
    about = followed_turn(turn.question, read_events(session.values))
    result = session.ask(turn.question)
    answer, values = answered(result.decision.action) or "", session.values
    row: Row = {
        "question": turn.question,
        "query": f"{about} {turn.question}".strip(),
        "answer": answer,
        "fallback": result.decision.fallback,
        "tokens": result.tokens,
        "seconds": round(result.seconds, 4),
        "model_tokens": values["model_tokens"],
        "cost": values["cost"],
        "fallbacks": values["fallbacks"],
    }
    if turn.expects:
        row["right"] = says(answer, turn.expects)
        readable = (piece.text for piece in result.context.pieces if piece.kind != "question")
        row["readable"] = says("\n".join(readable), turn.expects)
    if turn.answer:
        row["f1"] = token_f1(answer, turn.answer)
        a, b = session.agent.resources.embedder.embed([answer or "(nothing)", turn.answer])
        row["similarity"] = round(float(a @ b), 6)
    return row


def summarise(questions: Sequence[Row], agents: Sequence[str], seed: int) -> Summary:
    """Return a row for each agent, and tests against the first."""
    pairs = product(agents[:1], agents[1:])
    rows, tests = compared(questions, agents, "number", METRICS, _TESTED, pairs, seed)
    for row in rows:
        seconds = [asked["seconds"] for asked in questions if asked["agent"] == row["agent"]]
        for share in (50, 95):
            row[f"seconds_p{share}"] = float(np.percentile(seconds, share))
    return rows, tests


# Memory -------------------------------------------------------------------------------------------

#: Config overrides of the four memory policies.
POLICIES: dict[str, tuple[str, ...]] = {
    "neither": NO_MEMORY,
    "stm": ("context.memory=null", "memory=[{kind: conversation, budget: 2000}]"),
    "ltm": ("context.history_tokens=0", "context.memory={}", "memory=[{kind: long_term}]"),
    "both": (
        "context.memory={}",
        "memory=[{kind: conversation, budget: 2000}, {kind: long_term}]",
    ),
}
_RIGHT = ("right", *(f"right_{kind}" for kind in KINDS))
_COST = ("tokens", "model_tokens", "cost", "seconds")


def memory_task(settings: Memory) -> Task:
    """Return the task: the dialogues, played with each memory policy."""
    chosen = load_dialogues(settings.dialogues)[: settings.limit]
    # Answers are made without a language model unless ``--set actor.kind`` says otherwise.
    overrides = ("actor.kind=extract", *settings.overrides)
    configs: dict[str, Config] = {
        n: load_config(settings.config, [*POLICIES[n], *overrides]) for n in settings.policies
    }
    if worlds := {c.env.kind for c in configs.values() if not c.env.conversational}:
        raise UserError(f"'{worlds.pop()}' is no world of questions: the QA world is needed")
    digest = hashlib.sha256(repr(chosen).encode()).hexdigest()
    args = {
        **settings.args(),
        "data": {"name": public_path(settings.dialogues), "sha256": digest},
        "dialogues": [dialogue.id for dialogue in chosen],
        "agents": {n: public_config(c.model_dump(mode="json")) for n, c in configs.items()},
    }
    samples = [
        Sample({"dialogue": d.id}, d, {"turns": [_failure(t) for ts in d.sessions for t in ts]})
        for d in chosen
    ]

    def solver(name: str) -> Solver:
        def solve(sample: Sample, row: Row) -> None:
            row["turns"] = _play(configs[name], f"{name}/{sample.data.id}", sample.data)

        return solve

    scorer = partial(summarise_dialogues, agents=list(configs), seed=settings.seed)
    return Task(list(configs), samples, solver, scorer, args, "dialogues", "dialogue")


def _play(config: Config, user: str, dialogue: Dialogue) -> list[Row]:
    """Play a dialogue from an empty memory; return a row for each turn."""
    turns: list[Row] = []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        graph = build_graph(_with_memory_in(config, folder))
        for number, session_turns in enumerate(dialogue.sessions):
            session = Session(graph, f"{user}/{number}", user=user)
            turns += [{"kind": turn.kind, **ask(session, turn)} for turn in session_turns]
    return turns


def _with_memory_in(config: Config, folder: str) -> Config:
    """Return ``config`` with its long-term memory, where it has one, in ``folder``."""
    values = config.model_dump(mode="json")
    for node in (values["context"].get("memory"), *values["memory"]):
        if node and "place" in node:
            node["place"] = {"url": str(Path(folder) / "memory.sqlite")}
    return load_config(values)


def _failure(turn: DialogueTurn) -> Row:
    """Return the row of a turn whose dialogue failed."""
    wrong = {"right": False, "readable": False} if turn.expects else {}
    return {"kind": turn.kind, **dict.fromkeys(_COST, 0.0), **wrong}


def summarise_dialogues(rows: Sequence[Row], agents: Sequence[str], seed: int = 0) -> Summary:
    """Return right answers by kind of turn, cost, and paired tests by dialogue."""
    scored: list[Row] = []
    for row in rows:
        shared = {name: row[name] for name in ("agent", "dialogue", "error")}
        for number, turn in enumerate(row["turns"]):
            if "right" in turn:
                ids = {**shared, "turn": f"{row['dialogue']}/{number}"}
                scored.append({**turn, **ids, f"right_{turn['kind']}": turn["right"]})
    metrics = (*_RIGHT, "readable", *_COST)
    units = units_of(scored, agents, "turn", metrics)
    groups = {turn["turn"]: turn["dialogue"] for turn in scored}
    summary = [summary_row(name, units[name], metrics) for name in agents]
    return summary, paired_tests(units, combinations(agents, 2), _RIGHT, seed, groups)
