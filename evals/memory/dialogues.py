"""The memory table: dialogues over several sessions with both memories, one of them, or none.

    stategate eval memory --out runs/memory
    stategate eval memory --limit 2 --policies stm,both --set actor.kind=answer --out runs/memory-chat

A turn is right if the answer says all that it must (deterministic; see envs/qa/questions.py), and
readable if the prompt held it. Turns of one dialogue hang together, so that the paired tests compare
dialogues, not turns.
"""

import hashlib
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stategate.envs.qa.questions import KINDS, DialogueTurn, load_dialogues
from stategate.evals.core.statistics import paired_tests, summary_row
from stategate.evals.core.task import Row, Sample, Solver, Summary, Task, run_task
from stategate.evals.player import POLICIES, Player
from stategate.evals.settings import Memory
from stategate.graph.config import load_config
from stategate.stores.errors import UserError
from stategate.stores.runs import mean, public_config, public_path

#: What is compared: memory against none, both against either.
_PAIRS = (
    ("neither", "stm"),
    ("neither", "ltm"),
    ("neither", "both"),
    ("stm", "both"),
    ("ltm", "both"),
)
_RIGHT = ("right", *(f"right_{kind}" for kind in KINDS))
_COST = ("tokens", "model_tokens", "cost", "seconds")


def run_memory(settings: Memory) -> dict[str, Any]:
    """Play the dialogues with each memory policy and return the summary; resumes by dialogue."""
    unknown = [name for name in settings.policies if name not in POLICIES]
    if unknown or not settings.policies:
        raise UserError(
            f"memory policies are {', '.join(POLICIES)}: '{', '.join(unknown)}' is none"
        )
    chosen = load_dialogues(settings.dialogues)[: settings.limit]
    # Answers are made without a language model unless ``--set actor.kind`` says otherwise.
    overrides = ("actor.kind=extract", *settings.overrides)
    configs = {
        n: load_config(settings.config, [*POLICIES[n], *overrides]) for n in settings.policies
    }
    digest = hashlib.sha256(repr(chosen).encode()).hexdigest()
    args = {
        **settings.args(),
        "data": {"name": public_path(settings.dialogues), "sha256": digest},
        "dialogues": [dialogue.id for dialogue in chosen],
        "agents": {n: public_config(c.model_dump(mode="json")) for n, c in configs.items()},
    }
    state = Path(settings.out) / "state"
    samples = [
        Sample({"dialogue": d.id}, d, [_failure(turn) for turns in d.sessions for turn in turns])
        for d in chosen
    ]

    def solver(name: str) -> Solver:
        # A player a dialogue: conversations of the last one need not be kept in memory.
        return lambda sample, attempt: Player(name, configs[name], state).play(
            sample.data, attempt.rows
        )

    def scorer(rows: Sequence[Row]) -> Summary:
        return summarise(rows, list(configs), settings.seed)

    task = Task(list(configs), lambda _: samples, solver, scorer, "turns", "dialogue")
    summary = run_task(task, settings.out, args)
    shutil.rmtree(state, ignore_errors=True)
    return summary


def _failure(turn: DialogueTurn) -> dict[str, Any]:
    """Return what a turn counts as where its dialogue broke off before it was answered."""
    wrong = {"right": False, "readable": False} if turn.expects else {}
    return {"kind": turn.kind, "tokens": 0, "model_tokens": 0, "cost": 0, **wrong}


def summarise(turns: Sequence[Row], agents: Sequence[str], seed: int = 0) -> Summary:
    """Return right answers by kind of turn, cost, and paired tests by dialogue."""
    rows = []
    by_dialogue: dict[str, dict[str, dict[str, float]]] = {name: {} for name in agents}
    for name in agents:
        own = [row for row in turns if "right" in row and row["agent"] == name]
        units = {i: _measured(row) for i, row in enumerate(own)}
        rows.append(summary_row(name, units, (*_RIGHT, "readable", *_COST)))
        for dialogue in dict.fromkeys(row["dialogue"] for row in own):
            part = [units[i] for i, row in enumerate(own) if row["dialogue"] == dialogue]
            values = {m: [unit[m] for unit in part if m in unit] for m in _RIGHT}
            by_dialogue[name][dialogue] = {
                m: mean(numbers) for m, numbers in values.items() if numbers
            }
    return rows, paired_tests(by_dialogue, _PAIRS, _RIGHT, seed)


def _measured(row: Mapping[str, Any]) -> dict[str, float]:
    right = float(row["right"])
    values = {metric: float(row[metric] or 0) for metric in ("readable", *_COST)}
    errors = float(row.get("error") is not None)
    return {"right": right, f"right_{row['kind']}": right, **values, "errors": errors}
