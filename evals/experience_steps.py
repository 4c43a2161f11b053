"""Show ten real steps of a run: the state, what was retrieved for it, and whether it helped.

python -m evals.experience_steps runs/exp --bank banks/state --set env.data=official --out page.md

The steps are drawn by seed from those of ``--agent`` that had advice: steps where advice changed the
decision of an episode that then earned more than without experience ("helped"), less ("hurt"), or the
same ("no difference"), in turns, each from another goal. States are made again by replaying the
recorded actions in the world, with the serialiser that the agent used.
"""

import argparse
import random
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evals.experience import base_of
from evals.read_run import read_run
from nodes.experience.states import states_of
from nodes.experience.trajectory import Step, Trajectory, parse_action
from stores.bank.state_bank import StateBank
from stores.errors import UserError, mistakes_in_one_line

VERDICTS = ("helped", "hurt", "no difference")


def judged(
    steps: Sequence[Mapping[str, Any]], episodes: Mapping[str, Mapping[int, float]], agent: str
) -> dict[str, list[dict[str, Any]]]:
    """Return the advised steps of ``agent`` by verdict (see above)."""
    if agent not in episodes:
        raise UserError(f"no agent '{agent}' in this run: {', '.join(episodes)}")
    base = episodes[base_of(agent, episodes)]
    found: dict[str, list[dict[str, Any]]] = {verdict: [] for verdict in VERDICTS}
    for row in steps:
        if row["agent"] != agent or not row.get("advice") or row["goal"] not in base:
            continue
        gain = episodes[agent][row["goal"]] - base[row["goal"]]
        bent = str(row.get("reason") or "").startswith("advice (")
        verdict = "no difference" if not bent or gain == 0 else "helped" if gain > 0 else "hurt"
        found[verdict].append({**row, "without": base[row["goal"]], "gain": gain, "bent": bent})
    return found


def drawn(
    found: Mapping[str, Sequence[Mapping[str, Any]]], count: int, seed: int = 0
) -> list[tuple[str, Mapping[str, Any]]]:
    """Return up to ``count`` (verdict, step), the verdicts in turns, no goal twice."""
    rng = random.Random(seed)
    left = {verdict: rng.sample(list(rows), len(rows)) for verdict, rows in found.items()}
    chosen: list[tuple[str, Mapping[str, Any]]] = []
    while len(chosen) < count and any(left.values()):
        for verdict, rows in left.items():
            goals = {row["goal"] for _, row in chosen}
            while rows and rows[-1]["goal"] in goals:
                rows.pop()
            if rows and len(chosen) < count:
                chosen.append((verdict, rows.pop()))
    return chosen


def page(
    run: Path,
    folder: str,
    agent: str,
    count: int = 10,
    seed: int = 0,
    overrides: Sequence[str] = (),
) -> str:
    """Return the page as markdown; ``overrides`` such as ``env.data`` (a run tells its name only)."""
    from graph.build import build_graph
    from graph.config import load_config

    played = read_run(run)
    args, steps, episodes = played.args, played.tables.get("steps", []), played.rewards
    found = judged(steps, episodes, agent)
    config = {"env": args["agents"][agent]["env"]}
    world = build_graph(load_config(config, overrides), checkpointer=False).agent.bound().world  # type: ignore[attr-defined]
    bank = StateBank(folder).bank
    counts = ", ".join(f"{len(rows)} {verdict}" for verdict, rows in found.items())
    parts = [
        "# Ten steps, looked at closely",
        f"From the run `{run.name}`, agent `{agent}`, goals {args['goals'][0]}–{args['goals'][-1]}; "
        f"drawn by seed {seed}, the verdicts in turns, among all advised steps ({counts}). A step "
        "*helped* if advice changed its decision and the episode then earned more than the same "
        "goal without experience, *hurt* if less. One changed step is seldom the only difference.",
    ]
    for number, (verdict, row) in enumerate(drawn(found, count, seed), 1):
        actions = [
            str(other["action"])
            for other in sorted(steps, key=lambda other: int(other["step"]))
            if other["agent"] == agent and other["goal"] == row["goal"]
        ]
        state = states_of(replayed(world, row["goal"], actions[: row["step"] + 1]))[-1]
        row_id = str(row["advice_row"]).removeprefix("experience:")
        past = (
            bank.row(row_id) if bank.query("select n from rows where id = ?", (row_id,)) else None
        )
        parts += [_shown(number, verdict, row, state, past)]
    return "\n\n".join(parts) + "\n"


def replayed(world: Any, goal: int, actions: Sequence[str]) -> Trajectory:
    """Return the trajectory that ``actions`` make from the start of ``goal``."""
    session, seen = world.reset({"goal": goal})
    question, steps = str(world.instruction(session)), []
    for action in actions:
        before = seen.text
        session, seen = world.step(session, action)
        steps.append(Step(*parse_action(action), before, seen.text))
    return Trajectory(f"goal {goal}", f"goal {goal}", question, tuple(steps), 0.0, False)


def _shown(number: int, verdict: str, row: Mapping[str, Any], state: str, past: Any) -> str:
    told = f"likeness {row['likeness']:.2f}" if row.get("likeness") is not None else ""
    lines = [f"## {number}. Goal {row['goal']}, step {row['step'] + 1}: {verdict}", ""]
    lines += ["The state:", "", *_quoted(state), ""]
    if past is not None:
        worth = f"worth {past.q:.1f} of 10, seen {past.data.get('seen', 1)} times"
        lines += [f"The past state that was retrieved ({told}; {worth}):", ""]
        lines += [*_quoted(str(past.data["state"])), ""]
    lines += [f"Advice: *{str(row['advice']).removeprefix('Experience: ')}*", ""]
    why = str(row.get("reason") or "").partition(", not: ")[2]
    instead = f" (its own reason would have been: {why})" if row["bent"] and why else ""
    changed = "changed the decision to" if row["bent"] else "changed nothing; the agent did"
    lines += [
        f"It {changed} `{row['action']}`{instead}. The episode earned "
        f"{row['without'] + row['gain']:.2f}; without experience {row['without']:.2f}."
    ]
    return "\n".join(lines)


def _quoted(text: str) -> list[str]:
    return ["```text", *text.replace("```", "'''").splitlines(), "```"]


def main(argv: Sequence[str] | None = None) -> None:
    """Run from the command line (see the module's docstring)."""
    parser = argparse.ArgumentParser(
        "evals.experience_steps",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("run", type=Path, help="a run directory of evals.experience")
    parser.add_argument("--bank", required=True, help="the state bank that the run used")
    parser.add_argument("--agent", default="gated")
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--set", action="append", default=[], help="such as env.data=FOLDER")
    parser.add_argument("--out", type=Path, help="a markdown file; by default printed")
    given = parser.parse_args(argv)
    with mistakes_in_one_line():
        text = page(given.run, given.bank, given.agent, given.count, given.seed, given.set)
    if given.out is None:
        sys.stdout.write(text)
    else:
        given.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
