"""Retrieval table: does the query find the chunk that the expert clicked? Recall@1/3/5.

python -m evals.retrieval --data runs/trajectories/real/heldout.jsonl --out runs/retrieval
python -m evals.retrieval --data runs/trajectories/real/heldout.jsonl --updater ssm --out runs/ret-ssm

Candidates are the chunks of the page on which the expert clicked. Queries: the trained projection of
the state, the zero-shot query from the action head, the instruction, and the last event. Intervals
resample episodes.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tqdm import tqdm

from envs.protocols import Observation
from evals.run_directory import RunDirectory, provenance, shown_path
from nodes.build_context.query import (
    NO_FEATURES,
    Query,
    rank_by,
    trained_query,
    zero_shot_query,
)
from nodes.build_context.query_rag import FRAME
from nodes.build_context.render import describe
from nodes.observe.webshop import chunk_page
from nodes.protocols import Chunk, ContextRequest, Vector
from nodes.resources import Resources
from nodes.retrieval.page import PageSource
from nodes.update_state.views import read_page, summary
from stores.errors import UserError, mistakes_in_one_line
from stores.traces import Event
from trainers.episodes.trajectories import Trajectory, file_hash, read_trajectories

CUTOFFS = (1, 3, 5)


@dataclass(frozen=True)
class Click:
    """A click decision: the request as a builder would see it, and the chunks to choose among."""

    episode: str
    request: ContextRequest
    candidates: tuple[Chunk, ...]
    wanted: str


def clicks(trajectory: Trajectory, resources: Resources) -> Iterator[Click]:
    """Yield the click decisions of an episode; the state has seen each decision's own page."""
    updater = resources.updater
    state = updater.initial() if updater else None
    waiting: list[Event] = []
    acts: list[Event] = []
    page: Observation | None = None
    affordances = iter(trajectory.actions)
    for event in trajectory.events:
        if event.kind == "ACT":
            click = _click(trajectory, page, event, state, acts, resources)
            if click is not None:
                yield click
            waiting = [event]
            acts.append(event)
        elif event.kind == "OBS":
            page = Observation(event.text, next(affordances, ()))
            if updater is not None:
                state = updater.update(state, [*waiting, event])
            waiting = []


def _click(
    trajectory: Trajectory, page: Observation | None, event: Event, state: Vector | None,
    acts: Sequence[Event], resources: Resources,
) -> Click | None:  # fmt: skip
    action = event.text.lower()
    if page is None or not action.startswith("click[") or action not in page.actions:
        return None
    chunks = chunk_page(page)
    candidates = tuple(c for c in chunks if c.kind not in FRAME and describe(c))
    wanted = next((c.id for c in candidates if action in c.actions), None)
    if wanted is None:
        return None
    instruction = trajectory.instruction or read_page(page.text).instruction
    source = PageSource(candidates, lambda: resources.embedder, describe)
    last = Event("OBS", summary(read_page(page.text)), event.t)
    request = ContextRequest(instruction, page, source, (*acts, last), 2000, state)
    return Click(trajectory.episode_id, request, candidates, wanted)


def measure(
    trajectories: Sequence[Trajectory], resources: Resources, seed: int = 0
) -> list[dict[str, Any]]:
    """Return a summary row for each query."""
    decisions = [
        click
        for trajectory in tqdm(trajectories, desc="read episodes", unit="episode", disable=None)
        for click in clicks(trajectory, resources)
    ]
    if not decisions:
        raise UserError("these trajectories hold no click on a page whose affordances are known")
    embed = resources.embedder.embed
    queries: dict[str, Query] = {}
    if resources.updater is not None:
        trained = trained_query(resources, "", "retrieve")
        zero = zero_shot_query(resources, "retrieve")
        queries = {"trained": trained, "zero-shot": zero}
    queries["instruction query"] = lambda request: (embed([request.instruction])[0], NO_FEATURES)
    queries["last-event query"] = lambda request: (embed([request.events[-1].text])[0], NO_FEATURES)
    rows = []
    for name, query in queries.items():
        ranks = np.array([_rank(c, query) for c in decisions])
        rows.append(_row(name, decisions, ranks, seed))
    chance = [[min(k / len(c.candidates), 1.0) for k in CUTOFFS] for c in decisions]
    rows.append(
        {"agent": "random order", "n": len(decisions)}
        | {f"recall@{k}": float(np.mean([row[i] for row in chance])) for i, k in enumerate(CUTOFFS)}
    )
    return rows


def _rank(click: Click, query: Query) -> int:
    ranked, _ = rank_by(click.request, query, len(click.candidates))
    return [chunk.id for chunk in ranked].index(click.wanted)


def _row(name: str, decisions: Sequence[Click], ranks: Any, seed: int) -> dict[str, Any]:
    row: dict[str, Any] = {"agent": name, "n": len(ranks)}
    episodes: dict[str, list[int]] = {}
    for i, click in enumerate(decisions):
        episodes.setdefault(click.episode, []).append(i)
    groups = [np.array(places) for places in episodes.values()]
    row["episodes"] = len(groups)
    rng = np.random.default_rng(seed)
    draws = [
        ranks[np.concatenate([groups[i] for i in rng.integers(0, len(groups), len(groups))])]
        for _ in range(1000)
    ]
    for k in CUTOFFS:
        values = [float(np.mean(draw < k)) for draw in draws]
        low, high = np.quantile(values, [0.025, 0.975])
        row |= {
            f"recall@{k}": float(np.mean(ranks < k)),
            f"recall@{k}_se": float(np.std(values, ddof=1)),
            f"recall@{k}_low": float(low),
            f"recall@{k}_high": float(high),
        }
    by_kind: dict[str, list[int]] = {}
    for click, rank in zip(decisions, ranks, strict=True):
        kind = next(c.kind for c in click.candidates if c.id == click.wanted)
        by_kind.setdefault(kind, []).append(int(rank))
    for kind, own in sorted(by_kind.items()):
        row[f"recall@1 {kind} (n={len(own)})"] = float(np.mean(np.array(own) < 1))
    return row


def run_retrieval(
    data: str, out: str, updater: str = "gru", seed: int = 0, command: Sequence[str] = ("run",)
) -> dict[str, Any]:
    """Measure and write the run directory; return the summary."""
    from nodes.models.embedders import MiniLM
    from nodes.registry import registry

    params: Any = registry().parse("updater", updater)
    resources = Resources(None, MiniLM(), params)
    trajectories = read_trajectories(data)
    hashes = {}
    if resources.updater is not None:
        from stores.assets.weights import read_meta

        names = (f"state-{updater}", f"retriever-{updater}")
        hashes = {name: read_meta(name)["sha256"] for name in names}
    args = {
        **provenance(command), "data": {"name": shown_path(data), "sha256": file_hash(data)},
        "updater": updater, "checkpoints": hashes, "seed": seed,
    }  # fmt: skip
    run = RunDirectory(out, args)
    return run.summarise(measure(trajectories, resources, seed), [])


def main(argv: Sequence[str] | None = None) -> None:
    """Run from the command line (see the module's docstring)."""
    parser = argparse.ArgumentParser(
        "evals.retrieval", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", required=True, help="held-out trajectories, JSON lines")
    parser.add_argument("--updater", default="gru", help="gru, ssm or none")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", required=True, help="a new run directory")
    words = list(sys.argv[1:] if argv is None else argv)
    given = parser.parse_args(words)
    command = ["python", "-m", "evals.retrieval", *words]
    with mistakes_in_one_line():
        summary = run_retrieval(given.data, given.out, given.updater, given.seed, command)
    from evals.report import figures

    sys.stdout.write(figures(summary["rows"]) + "\n")


if __name__ == "__main__":
    main()
