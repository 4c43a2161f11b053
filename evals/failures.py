"""Where episodes fail: a live evaluation's episodes are played again and each failure named.

python -m evals.failures runs/policy-full --data ../shared/data/webshop --out runs/policy-failures

In the order of an episode: *search* (the wanted product was on no page that was shown), *product*
(listed, and another one bought), *option* (the wanted product bought with an option wrong or missing),
*buy* (listed, nothing bought), *ceiling* (all done right, and still no full reward: the goal's own
flaw). What is *won* got a reward of 1, with whichever product.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from envs.webshop import WebShop
from evals.report import figures
from evals.run_directory import RunDirectory, provenance, shown_path
from evals.statistics import mean, standard_error
from stores.errors import UserError, mistakes_in_one_line

KINDS = ("won", "search", "product", "option", "buy", "ceiling")


def classify(world: WebShop, goal: int, actions: Sequence[str]) -> dict[str, Any]:
    """Play ``actions`` again; return the ``kind`` of outcome, the reward, and what was bought."""
    wanted = world.goals[goal]
    target = f"click[{wanted['asin'].lower()}]"
    session, page = world.reset(goal=goal)
    was_listed = was_opened = False
    before = session
    for action in actions:
        before = session
        session, page = world.step(session, action)
        was_listed = was_listed or target in page.actions
        was_opened = was_opened or session["asin"] == wanted["asin"]
    bought = before["asin"] if page.done else None
    told = {"goal": goal, "reward": page.reward, "bought": bought, "listed": was_listed}
    return {**told, "opened": was_opened, "kind": _kind(world, goal, page.reward, before, told)}


def _kind(
    world: WebShop, goal: int, reward: float, session: Mapping[str, Any], told: Mapping[str, Any]
) -> str:
    wanted = world.goals[goal]
    if reward == 1.0:
        return "won"
    if told["bought"] == wanted["asin"]:
        asked = {str(k): str(v).lower() for k, v in dict(wanted["goal_options"]).items()}
        chosen = {str(k): str(v).lower() for k, v in session["options"].items()}
        return "option" if any(chosen.get(k) != v for k, v in asked.items()) else "ceiling"
    if not told["listed"]:
        return "search"
    return "product" if told["bought"] is not None else "buy"


def run_failures(
    live: Path, data: str, out: str, command: Sequence[str] = ("run_failures",)
) -> dict[str, Any]:
    """Classify every episode of the live run in ``live``; a row an agent."""
    import json

    args = json.loads((live / "args.json").read_text("utf-8"))
    world = WebShop.load(data)
    if world.catalogue.fingerprint != args["data"]["sha256"]:
        raise UserError(f"'{live}' was played on other data than '{data}': name that folder")
    described = {**provenance(command), "data": args["data"], "seed": args["seed"]}
    run = RunDirectory(out, {**described, "live": shown_path(str(live))})
    played: dict[tuple[str, int], list[tuple[int, str]]] = {}
    for line in (live / "steps.jsonl").read_text("utf-8").splitlines():
        step = json.loads(line)
        played.setdefault((step["agent"], step["goal"]), []).append((step["step"], step["action"]))
    found: dict[str, list[dict[str, Any]]] = {}
    for (agent, goal), steps in tqdm(played.items(), unit="episode", disable=None):
        actions = [action for _, action in sorted(steps)]
        row = {"agent": agent, **classify(world, goal, actions), "actions": actions}
        found.setdefault(agent, []).append(row)
    known = {(row["agent"], row["goal"]) for row in run.rows("episodes")}
    run.append("episodes", *(r for rows in found.values() for r in rows
                             if (r["agent"], r["goal"]) not in known))  # fmt: skip
    return run.summarise([_row(agent, rows) for agent, rows in found.items()], [])


def _row(agent: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    told: dict[str, Any] = {"agent": agent, "n": len(rows)}
    for kind in KINDS:
        share = [100.0 * (row["kind"] == kind) for row in rows]
        told |= {f"{kind} %": mean(share), f"{kind} %_se": standard_error(share)}
    left = [100.0 * (row["kind"] == "product" and row["opened"]) for row in rows]
    return {**told, "opened and left %": mean(left)}


def main(argv: Sequence[str] | None = None) -> None:
    """Run from the command line (see the module's docstring)."""
    parser = argparse.ArgumentParser(
        "evals.failures", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("live", type=Path, help="run directory of evals.live")
    parser.add_argument("--data", default="sample", help="'sample' or the folder it was played on")
    parser.add_argument("--out", required=True, help="a new run directory")
    words = list(sys.argv[1:] if argv is None else argv)
    given = parser.parse_args(words)
    with mistakes_in_one_line():
        command = ["python", "-m", "evals.failures", *words]
        try:
            summary = run_failures(given.live, given.data, given.out, command)
        except OSError as error:
            raise UserError(f"'{given.live}' is no live run ({error.strerror})") from None
    sys.stdout.write(figures(summary["rows"]) + "\n")


if __name__ == "__main__":
    main()
