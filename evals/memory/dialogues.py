"""The memory table: dialogues over several sessions with both memories, one of them, or none.

stategate eval memory --out runs/memory
stategate eval memory --limit 2 --policies stm,both --set actor.kind=answer --out runs/memory-chat

A turn is right if the answer says all that it must (deterministic; see envs/qa/dialogues.py), and
readable if the prompt held it. Turns of one dialogue hang together, so that the paired tests compare
dialogues, not turns.
"""

import hashlib
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from envs.qa.dialogues import KINDS, Dialogue, load_dialogues
from evals.qa_play import POLICIES, Player
from evals.run_directory import RunDirectory, provenance, shown_config, shown_path
from evals.statistics import mean, paired, standard_error
from graph.config import load_config
from stores.errors import UserError

#: What is compared: memory against none, both against either.
_PAIRS = (
    ("neither", "stm"), ("neither", "ltm"), ("neither", "both"), ("stm", "both"), ("ltm", "both"),
)  # fmt: skip


def run_memory(
    out: str,
    dialogues: str = "sample",
    policies: Sequence[str] = tuple(POLICIES),
    config: str | Mapping[str, Any] = "qa",
    overrides: Sequence[str] = ("actor.kind=extract",),
    limit: int | None = None,
    seed: int = 0,
    command: Sequence[str] = ("run_memory",),
) -> dict[str, Any]:
    """Play the dialogues with each memory policy and return the summary; resumes by dialogue."""
    unknown = [name for name in policies if name not in POLICIES]
    if unknown or not policies:
        raise UserError(
            f"memory policies are {', '.join(POLICIES)}: '{', '.join(unknown)}' is none"
        )
    chosen = load_dialogues(dialogues)[:limit]
    configs = {name: load_config(config, [*POLICIES[name], *overrides]) for name in policies}
    args = {
        **provenance(command),
        "experiment": "memory",
        "data": {"name": shown_path(dialogues), "sha256": _hash(chosen)},
        "seed": seed,
        "dialogues": [dialogue.id for dialogue in chosen],
        "agents": {n: shown_config(c.model_dump(mode="json")) for n, c in configs.items()},
    }
    run = RunDirectory(out, args)
    done = {(row["agent"], row["dialogue"]) for row in run.rows("turns")}
    todo = [(name, d) for d in chosen for name in configs if (name, d.id) not in done]
    if done and todo:
        run.note_resumption(args)
    with tqdm(todo, unit="dialogue", disable=None) as bar:
        for name, dialogue in bar:
            bar.set_description(f"{name} {dialogue.id}")
            # A player a dialogue: conversations of the last one need not be kept in memory.
            player = Player(name, configs[name], run.folder / "state")
            run.append("turns", *player.play(dialogue))
    shutil.rmtree(run.folder / "state", ignore_errors=True)
    return summarise(run, list(configs), seed)


def summarise(run: RunDirectory, agents: Sequence[str], seed: int = 0) -> dict[str, Any]:
    """Make ``summary.json``: right answers by kind of turn, cost, and paired tests by dialogue."""
    rows = run.rows("turns")
    made = [_row(name, [row for row in rows if row["agent"] == name]) for name in agents]
    tests = []
    for a, b in _PAIRS:
        if a in agents and b in agents:
            for kind in ("", *KINDS):
                tests += _test(rows, a, b, kind, seed)
    return run.summarise(made, tests)


def _row(name: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    scored = [row for row in rows if "right" in row]
    found: dict[str, Any] = {"agent": name, "n": len(scored)}
    for kind in ("", *KINDS):
        of_kind = [float(row["right"]) for row in scored if kind in ("", row["kind"])]
        metric = f"right_{kind}" if kind else "right"
        found |= {metric: mean(of_kind), f"{metric}_se": standard_error(of_kind)}
    for metric in ("readable", "tokens", "model_tokens", "cost", "seconds"):
        values = [float(row[metric] or 0) for row in scored]
        found |= {metric: mean(values), f"{metric}_se": standard_error(values)}
    return found


def _test(
    rows: Sequence[Mapping[str, Any]], a: str, b: str, kind: str, seed: int
) -> list[dict[str, Any]]:
    """Compare two policies over the dialogues that have turns of ``kind`` ("": all)."""
    by_agent: dict[str, dict[str, list[float]]] = {a: {}, b: {}}
    for row in rows:
        if "right" in row and row["agent"] in by_agent and kind in ("", row["kind"]):
            by_agent[row["agent"]].setdefault(row["dialogue"], []).append(float(row["right"]))
    shared = sorted(set(by_agent[a]) & set(by_agent[b]))
    if not shared:
        return []
    values = [[mean(by_agent[name][dialogue]) for dialogue in shared] for name in (a, b)]
    metric = f"right_{kind}" if kind else "right"
    return [{"a": a, "b": b, "metric": metric, **vars(paired(values[0], values[1], seed))}]


def _hash(dialogues: Sequence[Dialogue]) -> str:
    return hashlib.sha256(repr(dialogues).encode()).hexdigest()


def transcript(folder: Path, agent: str, dialogue: str) -> str:
    """Return a dialogue as it was played, in Markdown, from the rows of a run directory."""
    rows = RunDirectory(folder, _args(folder)).rows("turns")
    lines: list[str] = []
    last = None
    for row in rows:
        if (row["agent"], row["dialogue"]) != (agent, dialogue):
            continue
        if row["session"] != last:
            last = row["session"]
            lines.append(f"*Session {last + 1}*\n")
        mark = "" if "right" not in row else " ✓" if row["right"] else " ✗"
        lines.append(f"> **{row['question']}**{mark}\n>\n> {row['answer'] or '(nothing)'}\n")
    return "\n".join(lines)


def _args(folder: Path) -> dict[str, Any]:
    import json

    args: dict[str, Any] = json.loads((folder / "args.json").read_text(encoding="utf-8"))
    return args
