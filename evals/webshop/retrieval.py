"""Retrieval table: does the query find the chunk that the expert clicked? Recall@1/3/5.

    stategate eval retrieval --data runs/trajectories/real/heldout.jsonl --out runs/retrieval
    stategate eval retrieval --data runs/trajectories/real/heldout.jsonl --updater ssm --out runs/ssm

Candidates are the chunks of the page on which the expert clicked. Queries: the trained projection of
the state, the zero-shot query from the action head, the instruction, and the last event. Intervals
resample episodes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from envs.protocols import Observation
from evals.core.statistics import interval
from evals.core.task import Attempt, Row, Sample, Solver, Summary, Task, run_task
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
from stores.errors import UserError
from stores.runs import mean, provenance, shown_path
from stores.traces import Event
from stores.traces.trajectories import Trajectory, file_hash, read_trajectories

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


def queries_of(resources: Resources) -> dict[str, Query]:
    """Return the queries to compare by name. Raises ``UserError`` where checkpoints do not fit."""
    embed = resources.embedder.embed
    queries: dict[str, Query] = {}
    if resources.updater is not None:
        queries["trained"] = trained_query(resources, "", "retrieve")
        queries["zero-shot"] = zero_shot_query(resources, "retrieve")
    queries["instruction query"] = lambda request: (embed([request.instruction])[0], NO_FEATURES)
    queries["last-event query"] = lambda request: (embed([request.events[-1].text])[0], NO_FEATURES)
    return queries


def run_retrieval(
    data: str, out: str, updater: str = "gru", seed: int = 0, command: Sequence[str] = ("run",)
) -> dict[str, Any]:
    """Rank the candidates of every click by every query; resumes. Returns the summary."""
    from nodes.models.embedders import MiniLM
    from nodes.registry import registry

    params: Any = registry().parse("updater", updater)
    resources = Resources(None, MiniLM(), params)
    queries = queries_of(resources)
    hashes = {}
    if resources.updater is not None:
        from stores.assets.weights import read_meta

        names = (f"state-{updater}", f"retriever-{updater}")
        hashes = {name: read_meta(name)["sha256"] for name in names}
    args = {
        **provenance(command), "data": {"name": shown_path(data), "sha256": file_hash(data)},
        "updater": updater, "checkpoints": hashes, "seed": seed,
    }  # fmt: skip
    decisions = [click for one in read_trajectories(data) for click in clicks(one, resources)]
    if not decisions:
        raise UserError("these trajectories hold no click on a page whose affordances are known")
    samples = [
        Sample({"click": number}, click, ({"rank": len(click.candidates)},))
        for number, click in enumerate(decisions)
    ]

    def solver(name: str) -> Solver:
        def solve(sample: Sample, attempt: Attempt) -> None:
            click: Click = sample.data
            ranked, _ = rank_by(click.request, queries[name], len(click.candidates))
            attempt.rows[0]["rank"] = [chunk.id for chunk in ranked].index(click.wanted)

        return solve

    def scorer(rows: Sequence[Row]) -> Summary:
        return [
            *(
                _row(name, decisions, [r for r in rows if r["agent"] == name], seed)
                for name in queries
            ),
            _chance(decisions),
        ], []

    task = Task(list(queries), lambda _: samples, solver, scorer, "clicks", "click")
    return run_task(task, out, args)


def _row(
    name: str, decisions: Sequence[Click], rows: Sequence[Mapping[str, Any]], seed: int
) -> Row:
    """Return a query's row: recalls with intervals that resample episodes, then by kind of chunk."""
    ranks = [int(row["rank"]) for row in sorted(rows, key=lambda row: int(row["click"]))]
    episodes = [click.episode for click in decisions]
    row: Row = {"agent": name, "n": len(ranks), "episodes": len(set(episodes))}
    for k in CUTOFFS:
        found = interval([float(rank < k) for rank in ranks], seed, clusters=episodes)
        row |= {f"recall@{k}": found.mean, f"recall@{k}_se": found.error}
        row |= {f"recall@{k}_low": found.low, f"recall@{k}_high": found.high}
    by_kind: dict[str, list[int]] = {}
    for click, rank in zip(decisions, ranks, strict=True):
        kind = next(c.kind for c in click.candidates if c.id == click.wanted)
        by_kind.setdefault(kind, []).append(rank)
    for kind, own in sorted(by_kind.items()):
        row[f"recall@1 {kind} (n={len(own)})"] = mean([float(rank < 1) for rank in own])
    return row


def _chance(decisions: Sequence[Click]) -> Row:
    recalls = {
        f"recall@{k}": mean([min(k / len(click.candidates), 1.0) for click in decisions])
        for k in CUTOFFS
    }
    return {"agent": "random order", "n": len(decisions), **recalls}
