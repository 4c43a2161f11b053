"""The memory table: dialogues over several sessions with both memories, one of them, or none.

    stategate eval memory --out runs/memory
    stategate eval memory --limit 2 --policies stm,both --set actor.kind=answer --out runs/memory-chat

A turn is right if the answer says all that it must (deterministic; see envs/qa/questions.py), and
readable if the prompt held it. Turns of one dialogue hang together, so that the paired tests compare
dialogues, not turns.
"""

import hashlib
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

from langchain_core.runnables import RunnableConfig

from stategate.envs.qa.questions import KINDS, DialogueTurn, load_dialogues
from stategate.evals.core.statistics import paired_tests, summary_row
from stategate.evals.core.task import Attempt, Row, Sample, Solver, Summary, Task
from stategate.evals.qa import NO_MEMORY, ask
from stategate.evals.settings import Memory, require_names
from stategate.graph.build import build_graph
from stategate.graph.config import Config, load_config
from stategate.stores.errors import UserError
from stategate.stores.runs import public_config, public_path

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
    require_names("memory policies", settings.policies, POLICIES)
    chosen = load_dialogues(settings.dialogues)[: settings.limit]
    # Answers are made without a language model unless ``--set actor.kind`` says otherwise.
    overrides = ("actor.kind=extract", *settings.overrides)
    configs = {
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
        Sample({"dialogue": d.id}, d, [_failure(turn) for turns in d.sessions for turn in turns])
        for d in chosen
    ]

    def solver(name: str) -> Solver:
        return lambda sample, attempt: _play(
            configs[name], f"{name}/{sample.data.id}", sample, attempt
        )

    scorer = partial(summarise, agents=list(configs), seed=settings.seed)
    return Task(list(configs), samples, solver, scorer, args, "turns", "dialogue")


def _play(config: Config, user: str, sample: Sample, attempt: Attempt) -> None:
    """Play a dialogue from an empty memory, and fill a row for each turn."""
    empty_rows = iter(attempt.rows)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        graph = build_graph(_with_memory_in(config, folder))
        for number, session in enumerate(sample.data.sessions):
            names = {"thread_id": f"{user}/{number}", "user_id": user}
            thread: RunnableConfig = {"configurable": names}
            for place, turn in enumerate(session):
                row = next(empty_rows)
                row |= {"session": number, "turn": place, "kind": turn.kind}
                row |= ask(graph, turn, thread)


def _with_memory_in(config: Config, folder: str) -> Config:
    """Return ``config`` with its long-term memory, where it has one, in ``folder``."""
    values = config.model_dump(mode="json")
    for node in (values["context"].get("memory"), *values["memory"]):
        if node and "place" in node:
            node["place"] = {"url": str(Path(folder) / "memory.sqlite")}
    return load_config(values)


def _failure(turn: DialogueTurn) -> dict[str, Any]:
    """Return what a turn counts as where its dialogue broke off before it was answered."""
    wrong = {"right": False, "readable": False} if turn.expects else {}
    return {"kind": turn.kind, "tokens": 0, "model_tokens": 0, "cost": 0, **wrong}


def summarise(turns: Sequence[Row], agents: Sequence[str], seed: int = 0) -> Summary:
    """Return right answers by kind of turn, cost, and paired tests by dialogue."""
    units: dict[str, dict[int, dict[str, float]]] = {}
    groups: dict[int, str] = {}
    for name in agents:  # the same turns in the same order
        scored = [row for row in turns if "right" in row and row["agent"] == name]
        units[name] = dict(enumerate(map(_measured, scored)))
        groups |= {number: row["dialogue"] for number, row in enumerate(scored)}
    rows = [summary_row(name, own, (*_RIGHT, "readable", *_COST)) for name, own in units.items()]
    return rows, paired_tests(units, combinations(agents, 2), _RIGHT, seed, groups)


def _measured(row: Mapping[str, Any]) -> dict[str, float]:
    right = float(row["right"])
    values = {metric: float(row[metric] or 0) for metric in ("readable", *_COST)}
    errors = float(row.get("error") is not None)
    return {"right": right, f"right_{row['kind']}": right, **values, "errors": errors}
