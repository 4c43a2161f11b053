"""Retrieval table: does the query find the chunk that the expert acted on? Recall@1/3/5.

Candidates are the chunks of the page on which the expert took one of the actions shown there. Queries:
the trained projection of the state, the zero-shot query from the action head, the instruction, and the
last event. Intervals resample episodes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stategate.envs.protocols import Chunk, Observation
from stategate.evals.core.statistics import with_interval
from stategate.evals.core.task import Attempt, Row, Sample, Solver, Summary, Task, run_task
from stategate.graph.config import load_config
from stategate.nodes.build_context.query import (
    NO_FEATURES,
    Query,
    rank_by,
    trained_query,
    zero_shot_query,
)
from stategate.nodes.protocols import ContextRequest, Vector
from stategate.nodes.resources import Resources
from stategate.nodes.retrieval.page import PageSource, render
from stategate.stores.assets.downloads import sha256
from stategate.stores.errors import UserError
from stategate.stores.runs import mean, public_path
from stategate.stores.traces import Event
from stategate.stores.traces.trajectories import Trajectory, read_trajectories

CUTOFFS = (1, 3, 5)


@dataclass(frozen=True)
class Decision:
    """An expert's action: the request as a builder would see it, and the chunks to choose among."""

    episode: str
    request: ContextRequest
    candidates: tuple[Chunk, ...]
    wanted: str


def decisions_of(trajectory: Trajectory, resources: Resources) -> Iterator[Decision]:
    """Yield the decisions of an episode; the state has seen each decision's own page."""
    acts: list[Event] = []
    for event, page, state in acted(trajectory, resources):
        decision = _decision(trajectory, page, event, state, acts, resources)
        if decision is not None:
            yield decision
        acts.append(event)


def acted(
    trajectory: Trajectory, resources: Resources
) -> Iterator[tuple[Event, Observation | None, Vector | None]]:
    """Yield each action, its page, and the state that has seen this page."""
    updater = resources.updater
    state = updater.initial() if updater else None
    waiting: list[Event] = []
    page: Observation | None = None
    affordances = iter(trajectory.actions)
    for recorded in trajectory.events:
        # As in a live episode, the state model knows what was asked when it reads an event.
        event = Event(recorded.kind, recorded.text, recorded.t, trajectory.instruction)
        if event.kind == "ACT":
            yield event, page, state
            waiting = [event]
        elif event.kind == "OBS":
            page = Observation(event.text, next(affordances, ()))
            if updater is not None:
                state = updater.update(state, [*waiting, event])
            waiting = []


def _decision(
    trajectory: Trajectory,
    page: Observation | None,
    event: Event,
    state: Vector | None,
    acts: Sequence[Event],
    resources: Resources,
) -> Decision | None:
    action = event.text.lower()
    if page is None or action not in page.actions:
        return None
    view = resources.view
    source = PageSource(view, page, lambda: resources.embedder)
    candidates = tuple(c for c in source.all() if c.role != "frame" and render(view, c))
    wanted = next((c.id for c in candidates if action in c.actions), None)
    if wanted is None:
        return None
    seen = view.inputs(Event("OBS", page.text, event.t, trajectory.instruction))
    last = Event("OBS", " ".join(one.text for one in seen), event.t)
    request = ContextRequest(trajectory.instruction, page, source, (*acts, last), 2000, state, view)
    return Decision(trajectory.episode_id, request, candidates, wanted)


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


def place_of(decision: Decision, query: Query) -> int:
    """Return the place of the chunk that was acted on, as ``query`` ranks the candidates."""
    ranked, _ = rank_by(decision.request, query, len(decision.request.source.all()))
    known = {chunk.id for chunk in decision.candidates}
    return [chunk.id for chunk in ranked if chunk.id in known].index(decision.wanted)


def run_retrieval(
    data: str,
    out: str,
    updater: str = "gru",
    config: str | Mapping[str, Any] = "webshop",
    seed: int = 0,
) -> dict[str, Any]:
    """Rank the candidates of every decision by every query; resumes. Returns the summary.

    ``config`` says of which world the trajectories are, and which embedder to use.
    """
    trajectories = read_trajectories(data)
    settled = load_config(config, [f"updater.kind={updater}"])
    resources = Resources(None, settled.embedder, settled.updater, settled.env)
    queries = queries_of(resources)
    hashes = {}
    if resources.updater is not None:
        from stategate.stores.assets.weights import read_meta

        names = (f"state-{updater}", f"retriever-{updater}")
        hashes = {name: read_meta(name)["sha256"] for name in names}
    args = {
        "data": {"name": public_path(data), "sha256": sha256(Path(data))},
        "updater": updater,
        "checkpoints": hashes,
        "seed": seed,
    }
    decisions = [one for each in trajectories for one in decisions_of(each, resources)]
    if not decisions:
        raise UserError("these trajectories hold no action that a page with known actions offered")
    samples = [
        Sample({"decision": number}, one, ({"rank": len(one.candidates)},))
        for number, one in enumerate(decisions)
    ]

    def solver(name: str) -> Solver:
        def solve(sample: Sample, attempt: Attempt) -> None:
            attempt.rows[0]["rank"] = place_of(sample.data, queries[name])

        return solve

    def scorer(rows: Sequence[Row]) -> Summary:
        parts = {name: [r for r in rows if r["agent"] == name] for name in queries}
        ranked = [_row(name, decisions, own, seed) for name, own in parts.items()]
        return [*ranked, _chance(decisions)], []

    task = Task(list(queries), lambda _: samples, solver, scorer, "decisions", "decision")
    return run_task(task, out, args)


def _row(
    name: str, decisions: Sequence[Decision], rows: Sequence[Mapping[str, Any]], seed: int
) -> Row:
    """Return a query's row: recalls with intervals that resample episodes, then by kind of chunk."""
    ranks = [int(row["rank"]) for row in sorted(rows, key=lambda row: int(row["decision"]))]
    episodes = [one.episode for one in decisions]
    row: Row = {"agent": name, "n": len(ranks), "episodes": len(set(episodes))}
    for k in CUTOFFS:
        row |= with_interval(f"recall@{k}", [float(rank < k) for rank in ranks], seed, episodes)
    by_kind: dict[str, list[int]] = {}
    for one, rank in zip(decisions, ranks, strict=True):
        kind = next(c.kind for c in one.candidates if c.id == one.wanted)
        by_kind.setdefault(kind, []).append(rank)
    for kind, own in sorted(by_kind.items()):
        row[f"recall@1 {kind} (n={len(own)})"] = mean([float(rank < 1) for rank in own])
    return row


def _chance(decisions: Sequence[Decision]) -> Row:
    recalls = {
        f"recall@{k}": mean([min(k / len(one.candidates), 1.0) for one in decisions])
        for k in CUTOFFS
    }
    return {"agent": "random order", "n": len(decisions), **recalls}
