"""Does experience help? Agents with none, state, gated and trace advice.

The run directory is that of :mod:`evals.worlds.live`: a step's row says what was advised.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from stategate.evals.worlds.live import run_live
from stategate.stores.bank.bank import Bank, open_bank
from stategate.stores.errors import UserError

PLAIN = ("context.gate=none", "context.pick=best", "context.top_k=10")  # whatever the preset says
GATED = ("context.gate=alike", "context.pick=proven", "context.top_k=60")


def agents_for(inner: str, state: str | None, trace: str | None) -> dict[str, list[str]]:
    """Return name → overrides of the agents with experience.

    ``state`` and ``trace`` are bank folders. ``state`` takes the nearest worthy state's advice;
    ``gated`` only moves proven in like situations.
    ``... by state`` and ``... by both`` find states by the recurrent state of ``gru``, where the bank
    holds such states.
    """
    inside = f"context.inner.kind={inner}"
    agents: dict[str, list[str]] = {}
    if state is not None:
        own = ["context.kind=experience", inside, f"context.bank={state}"]
        agents["state"] = [*own, *PLAIN]
        agents["gated"] = [*own, *GATED]
        if open_bank(state).makes().get("state", "").startswith("gru/"):
            for name, changes in (("state", PLAIN), ("gated", GATED)):
                for key in ("state", "both"):
                    agents[f"{name} by {key}"] = [
                        *own,
                        *changes,
                        "updater.kind=gru",
                        f"context.key={key}",
                    ]
    if trace is not None:
        agents["trace"] = ["context.kind=experience_trace", inside, f"context.bank={trace}"]
    return agents


def run_experience(
    config: str | Mapping[str, Any],
    goals: Sequence[int] | str,
    out: str,
    state: str | None,
    trace: str | None,
    inner: str = "full",
    overrides: Sequence[str] = (),
    names: Sequence[str] = (),
    seed: int = 0,
) -> dict[str, Any]:
    """Play ``goals`` with every agent and return the summary; resumes what ``out`` holds.

    ``state`` and ``trace`` are bank folders, ``names`` keeps only those agents. Tests are against
    ``none``, the builder ``inner`` without advice.
    """
    possible = agents_for(inner, state, trace)
    if not possible:
        raise UserError("nothing to compare: give --state-bank, --trace-bank or both")
    unknown = sorted(set(names) - set(possible))
    if unknown:
        raise UserError(f"no agent '{unknown[0]}' with these banks: {', '.join(possible)}")
    agents = {"none": [f"context.kind={inner}"]}
    agents |= {name: own for name, own in possible.items() if name in names or not names}
    folders = {"main state bank": state, "main trace bank": trace}
    hashes = {name: fingerprint(open_bank(folder)) for name, folder in folders.items() if folder}
    return run_live(config, agents, goals, out, overrides, seed, hashes)


def fingerprint(bank: Bank) -> str:
    """Return the SHA-256 of a bank's rows (ids and worths, in order of id) and makes."""
    digest = hashlib.sha256(repr(sorted(bank.makes().items())).encode())
    for row in bank.query("select id, q from rows order by id"):
        digest.update(f"{row['id']} {row['q']:.6f}\n".encode())
    return digest.hexdigest()
