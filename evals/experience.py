"""Does experience help? Agents with none, state, trace, random and shuffled-worth advice.

stategate eval experience --state-bank banks/state --trace-bank banks/trace --out runs/exp
python -m evals.experience --state-bank banks/state --goals 0-299 --out runs/exp

The run directory is that of ``evals.live`` and two more files: ``subsets.json`` (paired tests on each
category of goals) and ``moves.json`` (which advice helped and which hurt: the goals on which a piece of
advice changed what the agent did, against the same goals without experience).
"""

import argparse
import hashlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evals.live import parse_goals, run_live
from evals.read_run import read_run
from evals.run_directory import write_json
from evals.statistics import mean, paired
from stores.bank.bank import Bank, open_bank
from stores.errors import UserError, mistakes_in_one_line

_LEAST = 20  # goals a subset must have to be tested
PLAIN = ("context.gate=none", "context.pick=best", "context.top_k=10")  # whatever the preset says
GATED = ("context.gate=alike", "context.pick=proven", "context.top_k=60")
ASKED_FOR = ("agrees",)  # played only where it is named
LEARNED = ("context.foreseen=0.1",)  # set beforehand, not tuned


def agents_for(
    inner: str, state: str | None, trace: str | None, updater: str = "gru"
) -> dict[str, list[str]]:
    """Return name → overrides of the agents with experience.

    ``state`` and ``trace`` are bank folders. ``state`` takes the nearest worthy state's advice;
    ``gated`` only moves proven in like situations, and ``agrees`` only those that the like states
    favour over other moves (failures speak against theirs). The controls: ``random`` takes any row's
    advice that the page offers, ``shuffled`` and ``gated shuffled`` deal the worths out at random.
    ``... by state`` and ``... by both`` find states by the recurrent state of ``updater``, and
    ``gated foreseen`` advises only what that state expects; they are there where the bank holds
    recurrent states of it.
    """
    base = ["context.kind=experience", f"context.inner.kind={inner}"]
    found: dict[str, list[str]] = {}
    if state is not None:
        own = [*base, "context.mode=state", f"context.bank={state}"]
        found["state"] = [*own, *PLAIN]
        found["gated"] = [*own, *GATED]
        found["agrees"] = [*own, *PLAIN, "context.gate=agrees"]
        found["random"] = [*own, *PLAIN, "context.pick=random", "context.gate=fits"]
        found["shuffled"] = [*own, *PLAIN, "context.shuffle_q=true"]
        found["gated shuffled"] = [*own, *GATED, "context.shuffle_q=true"]
        if open_bank(state).makes().get("state", "").startswith(f"{updater}/"):
            learned = f"updater.kind={updater}"
            for name, changes in (("state", PLAIN), ("gated", GATED)):
                for key in ("state", "both"):
                    found[f"{name} by {key}"] = [*own, *changes, learned, f"context.key={key}"]
            found["gated foreseen"] = [*own, *GATED, learned, *LEARNED]
    if trace is not None:
        found["trace"] = [*base, "context.mode=trace", f"context.bank={trace}"]
    return found


def run_experience(
    config: str | Mapping[str, Any],
    goals: Sequence[int],
    out: str,
    banks: Mapping[str, tuple[str | None, str | None]],
    inners: Sequence[str] = ("full",),
    overrides: Sequence[str] = (),
    names: Sequence[str] = (),
    seed: int = 0,
    command: Sequence[str] = ("run_experience",),
) -> dict[str, Any]:
    """Play ``goals`` with every agent and return the summary; resumes what ``out`` holds.

    ``banks`` maps a label ("" for the bank from other products) to a state bank and a trace bank.
    ``names`` keeps only those agents (by the name without label and inner). Tests are against
    ``none`` with the same inner builder; the first inner's are the summary's own.
    """
    agents: dict[str, list[str]] = {}
    hashes: dict[str, str] = {}
    for inner in inners:
        lead = "" if inner == inners[0] else f"{inner}: "
        agents[f"{lead}none"] = [f"context.kind={inner}"]
        for label, (state, trace) in banks.items():
            made = agents_for(inner, state, trace)
            unknown = sorted(set(names) - set(made))
            if unknown and (state or trace):
                raise UserError(f"no agent '{unknown[0]}' with these banks: {', '.join(made)}")
            for name, changes in made.items():
                if name in names or not (names or name in ASKED_FOR):
                    agents[f"{lead}{label}{' ' if label else ''}{name}"] = changes
            for kind, folder in (("state", state), ("trace", trace)):
                if folder is not None:
                    hashes[f"{label or 'main'} {kind} bank"] = fingerprint(open_bank(folder))
    if len(agents) == len(inners):
        raise UserError("nothing to compare: give --state-bank, --trace-bank or both")
    summary = run_live(config, agents, goals, out, overrides, seed, command, hashes)
    run = Path(out)
    played = read_run(run)
    episodes = played.rewards
    write_json(run / "subsets.json", subsets(episodes, _categories(config, overrides, goals), seed))
    write_json(run / "moves.json", moves(played.tables.get("steps", []), episodes))
    return summary


def fingerprint(bank: Bank) -> str:
    """Return the SHA-256 of a bank's rows (ids and worths, in order of id) and makes."""
    digest = hashlib.sha256(repr(sorted(bank.makes().items())).encode())
    for row in bank.query("select id, q from rows order by id"):
        digest.update(f"{row['id']} {row['q']:.6f}\n".encode())
    return digest.hexdigest()


def subsets(
    episodes: Mapping[str, Mapping[int, float]], category: Mapping[int, str], seed: int = 0
) -> list[dict[str, Any]]:
    """Return a paired test of success for each agent and each category of goals (20 or more)."""
    found = []
    for name in episodes:
        base = base_of(name, episodes)
        if base == name:
            continue
        for kind in sorted(set(category.values())):
            shared = [g for g in episodes[base] if category.get(g) == kind and g in episodes[name]]
            if len(shared) >= _LEAST:
                a = [float(episodes[base][g] == 1.0) for g in shared]
                b = [float(episodes[name][g] == 1.0) for g in shared]
                test = {**vars(paired(a, b, seed)), "none": mean(a), "with": mean(b)}
                found.append({"subset": kind, "a": base, "b": name, "metric": "success", **test})
    return found


def moves(
    steps: Sequence[Mapping[str, Any]], episodes: Mapping[str, Mapping[int, float]]
) -> list[dict[str, Any]]:
    """Return what following each kind of advice did: goals better and worse than without.

    A goal counts under a move if advice of that move changed a decision in it; so a goal may count
    under several moves.
    """
    touched: dict[tuple[str, str], set[int]] = {}
    for row in steps:
        reason = str(row.get("reason") or "")
        if reason.startswith("advice ("):
            move = reason.removeprefix("advice (").partition(")")[0]
            touched.setdefault((row["agent"], move), set()).add(row["goal"])
    found = []
    for (name, move), goals in sorted(touched.items()):
        base = base_of(name, episodes)
        pairs = [(episodes[base][g], episodes[name][g]) for g in goals if g in episodes[base]]
        found.append(
            {
                "agent": name, "move": move, "goals": len(pairs),
                "better": sum(b > a for a, b in pairs), "worse": sum(b < a for a, b in pairs),
                "score_difference": mean([b - a for a, b in pairs]),
            }
        )  # fmt: skip
    return found


def base_of(name: str, episodes: Mapping[str, Any]) -> str:
    """Return the agent without experience that ``name`` is compared with: the same inner builder."""
    lead, colon, _ = name.rpartition(": ")
    base = f"{lead}{colon}none"
    return base if base in episodes else "none"


def _categories(config: Any, overrides: Sequence[str], goals: Sequence[int]) -> dict[int, str]:
    from graph.build import build_graph
    from graph.config import load_config

    agent = build_graph(load_config(config, overrides), checkpointer=False).agent  # type: ignore[attr-defined]
    known = getattr(agent.bound().world, "goals", None)
    return {goal: str(known[goal].get("category", "")) for goal in goals} if known else {}


def main(argv: Sequence[str] | None = None) -> None:
    """Run from the command line (see the module's docstring)."""
    parser = argparse.ArgumentParser(
        "evals.experience",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--config", default="webshop-experience", help="preset or YAML file")
    parser.add_argument("--state-bank", help="bank from other products than the goals'")
    parser.add_argument("--trace-bank")
    parser.add_argument("--same-state-bank", help="bank from the goals' own products, labelled so")
    parser.add_argument("--same-trace-bank")
    parser.add_argument("--goals", default="0-299", help="0-499 or 3,5,8")
    parser.add_argument("--inner", default="full", help="context kinds, such as full,compress")
    parser.add_argument("--only", default="", help="agents, such as state,gated")
    parser.add_argument("--set", action="append", default=[], help="override for every agent")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", required=True, help="run directory; resumed if it exists")
    words = list(sys.argv[1:] if argv is None else argv)
    given = parser.parse_args(words)
    banks: dict[str, tuple[str | None, str | None]] = {"": (given.state_bank, given.trace_bank)}
    if given.same_state_bank or given.same_trace_bank:
        banks["same-products"] = (given.same_state_bank, given.same_trace_bank)
    with mistakes_in_one_line():
        summary = run_experience(
            given.config,
            parse_goals(given.goals),
            given.out,
            banks,
            given.inner.split(","),
            given.set,
            [name for name in given.only.split(",") if name],
            given.seed,
            ["python", "-m", "evals.experience", *words],
        )
    from evals.report import table

    sys.stdout.write(table(summary["rows"]) + "\n")


if __name__ == "__main__":
    main()
