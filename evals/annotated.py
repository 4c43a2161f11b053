"""Annotated transcripts: won and failed episodes, with what the actor thought and what went wrong.

python -m evals.annotated runs/policy-failures --live runs/policy-full --data ../shared/data/webshop \
    --out docs/results/actor_transcripts.md

Takes the run directories of ``evals.failures`` and of the live evaluation behind it, and plays the
chosen episodes again: the first five that were won and the first five that failed, each kind of failure
before any comes twice. A step shows the action and the likeliest alternatives with probabilities.
"""

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from graph import build_graph
from graph.config import load_config
from stores.errors import mistakes_in_one_line

_SAID = {
    "won": "Won: full reward.",
    "search": "Failed at *search*: the wanted product was on no page that was shown.",
    "product": "Failed at *product*: the wanted one was listed, another one was bought.",
    "option": "Failed at *option*: the right product with an option wrong or missing.",
    "buy": "Failed at *buy*: the wanted product was listed, nothing was bought.",
    "ceiling": "Failed at the *ceiling*: all done right, and the goal itself pays less than 1.",
}


def choose(rows: Sequence[Mapping[str, Any]], each: int = 5) -> list[Mapping[str, Any]]:
    """Return ``each`` won episodes and ``each`` failures, the kinds of failure in turn."""
    won = [row for row in rows if row["kind"] == "won"][:each]
    kinds: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        if row["kind"] != "won":
            kinds.setdefault(row["kind"], []).append(row)
    failed: list[Mapping[str, Any]] = []
    while len(failed) < each and any(kinds.values()):
        failed += [own.pop(0) for own in kinds.values() if own]
    return [*won, *failed[:each]]


def transcript(graph: Any, world: Any, row: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of one episode, played again."""
    goal = world.goals[row["goal"]]
    yield f"## Goal {row['goal']}: {row['kind']}\n"
    yield f"> {goal['instruction_text'].strip()}\n"
    thread = {"configurable": {"thread_id": f"annotated/{row['goal']}"}}
    page, parts = "search", None
    for update in graph.stream({"task": {"goal": row["goal"]}}, thread, stream_mode="updates"):
        if (change := update.get("act")) is None:
            continue
        chances = sorted(change["decision"]["probabilities"].items(), key=lambda p: -p[1])
        others = [f"`{_short(a)}` {p:.2f}" for a, p in chances if a != change["action"]][:3]
        own = dict(chances).get(change["action"])
        told = f" {own:.2f}" if own is not None else f" ({change['decision']['fallback']})"
        rest = f"; else {', '.join(others)}" if others else ""
        yield f"- on *{page}*: **`{_short(change['action'])}`**{told}{rest}"
        page = str(change["session"]["page"])
        parts = change["info"].get("reward") or parts
    wanted = ", ".join(f"{k} = {v}" for k, v in dict(goal["goal_options"]).items()) or "no options"
    yield f"\n{_SAID[row['kind']]} Reward {row['reward']:.2f}."
    yield f"Wanted: `{goal['asin'].lower()}` {goal['name'][:90]} ({wanted})."
    if row["bought"] and row["bought"] != goal["asin"]:
        yield f"Bought: `{row['bought'].lower()}` {world.products[row['bought']].name[:90]}."
    if parts:
        names = ("r_type", "r_att", "r_option", "r_price")
        yield "Parts: " + ", ".join(f"{n} {float(parts[n]):.2f}" for n in names if n in parts) + "."
    yield ""


def _short(action: str) -> str:
    return action if len(action) < 70 else action[:67] + "…]"


def write_page(failures: Path, live: Path, data: str, out: Path, agent: str = "") -> None:
    """Write the page of ``agent`` (the run's first if empty)."""
    args = json.loads((live / "args.json").read_text("utf-8"))
    name = agent or next(iter(args["agents"]))
    config = load_config("webshop", [f"env.data={data}"]).model_dump(mode="json")
    config |= {k: v for k, v in args["agents"][name].items() if k != "env"}
    config["env"] = {**args["agents"][name]["env"], "data": data}
    graph = build_graph(config, checkpointer=False)
    world = graph.agent.bound().world  # type: ignore[attr-defined]
    lines = (failures / "episodes.jsonl").read_text("utf-8").splitlines()
    rows = sorted((json.loads(line) for line in lines), key=lambda row: row["goal"])
    head = [
        "# Ten episodes of the `policy` actor\n",
        f"Agent `{name}` of the run `{live.name}`: the first five won and the first five failed,",
        "each kind of failure before any comes twice. Behind an action stands its probability,",
        "then the likeliest alternatives. Made by `evals.annotated`.\n",
    ]
    body = [line for row in choose([r for r in rows if r["agent"] == name])
            for line in transcript(graph, world, row)]  # fmt: skip
    out.write_text("\n".join([*head, *body]).rstrip() + "\n", "utf-8")


def main(argv: Sequence[str] | None = None) -> None:
    """Run from the command line (see the module's docstring)."""
    parser = argparse.ArgumentParser(
        "evals.annotated", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("failures", type=Path, help="run directory of evals.failures")
    parser.add_argument("--live", type=Path, required=True, help="run directory of evals.live")
    parser.add_argument("--data", default="sample", help="'sample' or the folder it was played on")
    parser.add_argument("--agent", default="", help="by default the first of the live run")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args(argv)
    with mistakes_in_one_line(OSError):
        write_page(given.failures, given.live, given.data, given.out, given.agent)


if __name__ == "__main__":
    main()
