"""The QA experiments: chunk size, embedding and retrieval.

Of each question: retrieval (Hit@3, MRR, nDCG@10 over the ten best passages), answer (similarity,
token F1), latency, tokens and cost. Memory is measured on dialogues (``evals.memory.dialogues``).

Questions are the sample's that ships with the code, or a folder's: ``corpus/`` and
``evaluation_dataset.json``, a list of {question, reference_answer, gold_chunk_ids: {chunking: [chunk
ids]}}, with the chunks that the ids mean in ``reference_chunks_CHUNKING.jsonl``. Those are read as
stretches of text at once, so that the set survives another chunking of the same corpus.
"""

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from langchain_core.runnables import RunnableConfig

from stategate.envs.protocols import answered
from stategate.envs.qa.questions import (
    DialogueTurn,
    Evidence,
    Question,
    load_questions,
    sample_folder,
    says,
    token_f1,
)
from stategate.evals.core.statistics import paired_tests, ranking_metrics, summary_row, units_of
from stategate.evals.core.task import Attempt, Row, Sample, Solver, Summary, Task
from stategate.evals.settings import Qa, require_names
from stategate.graph.build import Graph, build_graph
from stategate.graph.config import load_config
from stategate.nodes.build_context.recall import Recall, followed_turn
from stategate.nodes.observe.qa import QaEnv
from stategate.nodes.retrieval.corpus import CorpusIndex, Retrieval
from stategate.stores.corpus.chunking import Chunking, Passage, contains_evidence
from stategate.stores.errors import UserError, user_error_context
from stategate.stores.files import parse_json
from stategate.stores.runs import public_config, read_rows
from stategate.stores.traces import Event

_TABLE = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))
AGENTS: dict[str, list[str]] = _TABLE["agents"]
EXPERIMENTS: dict[str, list[str]] = _TABLE["experiments"]
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

    def under(self, chunking: Chunking) -> list[Question]:
        """Return the questions with the evidence that was judged under ``chunking``, else any."""
        key = f"fixed_{chunking.size}"
        return self.questions.get(key) or next(iter(self.questions.values()))


def load_set(source: str) -> QuestionSet:
    """Read ``"sample"`` or a folder. Raises ``UserError`` naming the file that is wrong."""
    if source == "sample":
        folder = sample_folder()
        sha256 = _hash([*sorted(folder.iterdir()), folder.parent / "questions.yaml"])
        return QuestionSet("sample", "sample", {"any": load_questions("sample")}, sha256)
    folder = Path(source).expanduser()
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
    """Return the places of the passages that bear any of the question's evidence."""
    texts = {e.text for e in question.evidence}
    return {
        place
        for place, passage in enumerate(passages)
        if passage.text in texts
        or any(
            e.document in ("", passage.document) and contains_evidence(passage.text, e.text)
            for e in question.evidence
        )
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
    """Return the task: each question asked of each agent of the experiments, on a thread of its own."""
    experiments, only = settings.experiments, settings.only
    require_names("experiments", experiments, EXPERIMENTS)
    chosen = load_set(settings.data)
    names = list(dict.fromkeys(name for e in experiments for name in EXPERIMENTS[e]))
    require_names("agents of these experiments", only or names, names)
    names = [name for name in names if not only or name in only]
    common = [*NO_MEMORY, f"env.corpus={chosen.corpus}", _EXTRACT, *settings.overrides]
    configs = {n: load_config(settings.config, [*common, *AGENTS[n]]) for n in names}
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
        questions = chosen.under(Chunking.parse(config.env.chunking))
        how: Retrieval = config.context.retrieval if isinstance(config.context, Recall) else "dense"

        def solve(sample: Sample, attempt: Attempt) -> None:
            question = questions[sample.data]
            turn = DialogueTurn(question.question, answer=question.answer)
            answer = ask(graph, turn, {"configurable": {"thread_id": f"{name}/{sample.data}"}})
            attempt.rows[0] |= {**answer, **_retrieval(index, how, question, answer["query"])}

        return solve

    count = len(next(iter(chosen.questions.values()))[: settings.limit])
    samples = [Sample({"number": number}, number, [_FAILURE]) for number in range(count)]
    scorer = partial(summarise, experiments=experiments, seed=settings.seed, names=names)
    return Task(names, samples, solver, scorer, args, "questions", "question")


def ask(graph: Graph, turn: DialogueTurn, thread: RunnableConfig) -> Row:
    """Ask one question in a conversation; return its row: answer, what it cost, how right it is."""
    events = graph.get_state(thread).values.get("events") or []
    about = followed_turn(turn.question, [Event.from_list(item) for item in events])
    started = time.perf_counter()
    built: Any = None
    act: dict[str, Any] = {}
    task = {"task": {"question": turn.question}}
    for update in graph.stream(task, thread, stream_mode="updates"):
        for node, change in update.items():
            built = change["context"] if node == "build_context" else built
            act.update(change if node == "act" else {})
    answer = answered(str(act["action"])) or ""
    row: Row = {
        "question": turn.question,
        "query": f"{about} {turn.question}".strip(),
        "answer": answer,
        "fallback": act["decision"]["fallback"],
        "tokens": built.tokens,
        "seconds": round(time.perf_counter() - started, 4),
        **{key: act[key] for key in ("model_tokens", "cost", "fallbacks")},
    }
    if turn.expects:
        row["right"] = says(answer, turn.expects)
        readable = (piece.text for piece in built.pieces if piece.kind != "question")
        row["readable"] = says("\n".join(readable), turn.expects)
    if turn.answer:
        row["f1"] = token_f1(answer, turn.answer)
        a, b = graph.agent.resources.embedder.embed([answer or "(nothing)", turn.answer])
        row["similarity"] = round(float(a @ b), 6)
    return row


def _retrieval(index: CorpusIndex, how: Retrieval, question: Question, query: str) -> Row:
    gold = relevant(question, index.passages)
    started = time.perf_counter()
    places = [place for place, _ in index.find(query, _DEPTH, how)]
    took = time.perf_counter() - started
    hits = [i for i, place in enumerate(places) if place in gold]
    scores = [-float(i) for i in range(len(places))]
    measured = ranking_metrics(_RANKING, scores, hits, len(gold) - len(hits))
    return {"gold": len(gold), **measured, "search_seconds": round(took, 5)}


def summarise(
    questions: Sequence[Row],
    experiments: Sequence[str],
    seed: int,
    names: Sequence[str],
) -> Summary:
    """Return a row an experiment and agent, tests against its first agent."""
    values = units_of(questions, names, "number", METRICS, 0.0)
    rows: list[Row] = []
    tests: list[Row] = []
    for experiment in experiments:
        head = {"experiment": experiment}
        agents = [name for name in EXPERIMENTS[experiment] if name in names]
        for name in agents:
            row = summary_row(name, values[name], METRICS)
            seconds = [unit["seconds"] for unit in values[name].values()] or [float("nan")]
            for share in (50, 95):
                row[f"seconds_p{share}"] = float(np.percentile(seconds, share))
            rows.append({**head, **row})
        pairs = [(agents[0], name) for name in agents[1:]]
        tests += [{**head, **test} for test in paired_tests(values, pairs, _TESTED, seed)]
    return rows, tests
