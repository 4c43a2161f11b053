"""Episodes that others played: is what they clicked found, and what they did foreseen.

    stategate data convert react react_davinci002_webshop_500.jsonl --out runs/react.jsonl
    stategate data convert human mturk/ --out runs/human.jsonl
    stategate eval strangers --data runs/react.jsonl,runs/human.jsonl --out runs/strangers

Others: ``--set updater.checkpoint=A --set context.kind=retrieve --set context.checkpoint=B``.

Clicks: the chunk that was acted on among those of its page, ranked by the trained query, by BM25 and by
the sentence model with the instruction as query, in the page's own order, and at random. Next action:
the class of every legal action, by the state and by the class that is commonest on that kind of page in
these very episodes (a page's kind: which kinds of chunks it has). Intervals draw whole episodes.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stategate.evals.core.statistics import paired, with_interval
from stategate.evals.core.task import Attempt, Row, Sample, Solver, Summary, Task, run_task
from stategate.evals.worlds.live import checkpoint_hashes
from stategate.evals.worlds.retrieval import Decision, acted, decisions_of, place_of
from stategate.graph.config import load_config
from stategate.nodes.build_context.query import NO_FEATURES, Query, trained_query
from stategate.nodes.resources import Resources
from stategate.nodes.retrieval.page import describe
from stategate.nodes.retrieval.ranking import bm25
from stategate.stores.assets.downloads import sha256
from stategate.stores.errors import UserError
from stategate.stores.runs import mean, public_path
from stategate.stores.traces.trajectories import Trajectory, read_trajectories

CUTOFFS = (1, 5)
FORESEEN, COMMONEST = "state", "page kind's commonest"
Ranker = Callable[[Decision], int]  # to the place of what was clicked


@dataclass(frozen=True)
class Move:
    """A legal action: the kind of its page, its class, the classes' probabilities by the state."""

    page: tuple[str, ...]
    action: str
    expected: str


def moves_of(trajectory: Trajectory, resources: Resources) -> Iterator[Move]:
    """Yield the legal actions of an episode; the state has seen each one's own page."""
    updater, view = resources.updater, resources.view
    if updater is None:
        return
    for event, page, state in acted(trajectory, resources):
        if page is not None and page.text and view.actions.accepts(event.text, page):
            kinds = tuple(dict.fromkeys(chunk.kind for chunk in view.chunks(page)))
            chances = updater.predict(state)  # type: ignore[attr-defined]
            label = view.actions.class_of(page.text, event.text)
            yield Move(kinds, label, max(chances, key=lambda name: chances[name]))


def rankers_of(resources: Resources, retriever: str) -> dict[str, Ranker]:
    """Return what ranks a page's chunks, by name; ``retriever`` is the trained one's checkpoint."""
    embed = resources.embedder.embed

    def by_query(query: Query) -> Ranker:
        return lambda one: place_of(one, query)

    def by_words(one: Decision) -> int:
        texts = [describe(one.request.view, chunk) for chunk in one.candidates]
        scores = bm25(one.request.instruction, texts)
        order = sorted(range(len(texts)), key=lambda i: -scores[i])
        return [one.candidates[i].id for i in order].index(one.wanted)

    return {
        "trained": by_query(trained_query(resources, retriever, "retrieve")),
        "bm25": by_words,
        "minilm": by_query(lambda request: (embed([request.instruction])[0], NO_FEATURES)),
        "page order": lambda one: [chunk.id for chunk in one.candidates].index(one.wanted),
    }


def run_strangers(
    data: Sequence[str],
    out: str,
    config: str = "webshop",
    overrides: Sequence[str] = (),
    limit: int | None = None,
    seed: int = 0,
    clicks: bool = True,
) -> dict[str, Any]:
    """Measure trained query (with ``clicks``) and state on the episodes of each file; resumes."""
    settled = load_config(config, overrides)
    resources = Resources(None, settled.embedder, settled.updater, settled.env)
    if resources.updater is None or not hasattr(resources.updater, "predict"):
        raise UserError("this measures a learned state: set updater.kind=gru or ssm")
    retrieves = load_config(config, [*overrides, "context.kind=retrieve"])
    rankers: dict[str, Ranker] = {}
    if clicks:
        rankers = rankers_of(resources, getattr(retrieves.context, "checkpoint", ""))
    files = {Path(path).stem: read_trajectories(path)[:limit] for path in data}
    args = {
        "seed": seed,
        "limit": limit,
        "data": {public_path(path): sha256(Path(path)) for path in data},
        "checkpoints": {
            **checkpoint_hashes([settled]),
            **(checkpoint_hashes([retrieves]) if clicks else {}),
        },
    }
    samples = [
        Sample({"source": source, "episode": one.episode_id}, one, ({"clicks": [], "moves": []},))
        for source, own in files.items()
        for one in own
    ]

    def solver(_: str) -> Solver:
        def solve(sample: Sample, attempt: Attempt) -> None:
            clicked = [
                {"n": len(one.candidates), "kind": _kind_of(one)}
                | {name: rank(one) for name, rank in rankers.items()}
                for one in (decisions_of(sample.data, resources) if clicks else ())
            ]
            moves = [
                {"page": "+".join(m.page), "action": m.action, "state": m.expected}
                for m in moves_of(sample.data, resources)
            ]
            attempt.rows[0] |= {"clicks": clicked, "moves": moves}

        return solve

    def scorer(rows: Sequence[Row]) -> Summary:
        parts = [(s, [r for r in rows if r["source"] == s]) for s in files]
        shown: list[Row] = []
        if clicks:
            shown += [r for source, own in parts for r in _clicked(source, own, [*rankers], seed)]
        shown += [row for source, own in parts for row in _moved(source, own, seed)]
        return shown, [test for source, own in parts for test in _tests(source, own, rankers, seed)]

    task = Task([settled.updater.kind], lambda _: samples, solver, scorer)
    return run_task(task, out, args)


def _kind_of(one: Decision) -> str:
    return next(chunk.kind for chunk in one.candidates if chunk.id == one.wanted)


def _all(rows: Sequence[Row], table: str) -> list[tuple[str, dict[str, Any]]]:
    return [(str(row["episode"]), one) for row in rows for one in row[table]]


def _clicked(source: str, rows: Sequence[Row], names: Sequence[str], seed: int) -> list[Row]:
    clicks = _all(rows, "clicks")
    episodes = [episode for episode, _ in clicks]
    found: list[Row] = []
    for name in [*names, "random order"]:
        row: Row = {"agent": f"{name}@{source}", "n": len(clicks), "episodes": len(set(episodes))}
        for k in CUTOFFS:
            hits = [
                min(k / c["n"], 1.0) if name not in c else float(c[name] < k) for _, c in clicks
            ]
            row |= with_interval(f"recall@{k}", hits, seed, episodes)
        if name in names:
            by_kind: dict[str, list[float]] = defaultdict(list)
            for _, one in clicks:
                by_kind[str(one["kind"])].append(float(one[name] < 1))
            row |= {f"recall@1 {k} (n={len(v)})": mean(v) for k, v in sorted(by_kind.items())}
        found.append(row)
    return found


def _moved(source: str, rows: Sequence[Row], seed: int) -> list[Row]:
    moves = _all(rows, "moves")
    episodes = [episode for episode, _ in moves]
    found: list[Row] = []
    for name, hits in _foreseen([move for _, move in moves]).items():
        row: Row = {"agent": f"{name}@{source}", "n": len(moves), "episodes": len(set(episodes))}
        found.append(row | with_interval("accuracy", hits, seed, episodes))
    return found


def _foreseen(moves: Sequence[dict[str, Any]]) -> dict[str, list[float]]:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for move in moves:
        counts[move["page"]][move["action"]] += 1
    return {
        FORESEEN: [float(m["state"] == m["action"]) for m in moves],
        COMMONEST: [float(counts[m["page"]].most_common(1)[0][0] == m["action"]) for m in moves],
    }


def _tests(source: str, rows: Sequence[Row], rankers: Collection[str], seed: int) -> list[Row]:
    clicks, moves = _all(rows, "clicks"), _all(rows, "moves")
    tests: list[Row] = []
    for name in [name for name in rankers if name != "trained"] if clicks else []:
        for k in CUTOFFS:
            other, trained = ([float(c[w] < k) for _, c in clicks] for w in (name, "trained"))
            test = vars(paired(other, trained, seed, [episode for episode, _ in clicks]))
            head = {"a": f"{name}@{source}", "b": f"trained@{source}", "metric": f"recall@{k}"}
            tests.append({**head, **test})
    if moves:
        hits = _foreseen([move for _, move in moves])
        both = (hits[COMMONEST], hits[FORESEEN])
        test = vars(paired(*both, seed, [episode for episode, _ in moves]))
        head = {"a": f"{COMMONEST}@{source}", "b": f"{FORESEEN}@{source}", "metric": "accuracy"}
        tests.append({**head, **test})
    return tests
