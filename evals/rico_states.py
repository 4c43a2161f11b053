"""What smaller document states cost: bytes a document and nDCG@10 of the gradient, by form.

    python -m evals.rico_states --limit 20 --out runs/rico-states
    python -m evals.rico_states --limit 5 --exact --out runs/rico-states-exact
    python -m evals.rico_states --pairs FOLDER --limit 100 --out runs/rico-projection

The first packs the states of ``.dev`` documents, as the index keeps them (fp16), in each form; with
``--exact`` the documents are read anew and fp32 is a form too (slow). The last is about random
projection, which only states that add up allow: a small Mamba-2 on keys and values (such as
``tests/nodes/rico/ssm_pairs``), scored at the empty state (``zero_state``).
"""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from evals.multihop import data_folder, data_hash, datasets_in, load_questions
from evals.rerank_metrics import AVERAGE, compare, interval, measure
from evals.run_directory import RunDirectory, provenance, shown_path
from nodes.build_context.rico.backend import Backend, Document, Query, State
from nodes.build_context.rico.loading import load_backend
from nodes.build_context.rico.rankers import rank
from stores.errors import mistakes_in_one_line
from stores.states.documents import Dtype, pack, unpack

#: How much of a state is kept: a name, and the layers as shares of the model's depth.
SUBSETS: dict[str, Callable[[int], list[int]]] = {
    "all layers": lambda n: list(range(n)),
    "last half": lambda n: list(range(n // 2, n)),
    "last third": lambda n: list(range(n - max(n // 3, 1), n)),
    "every third": lambda n: list(range(min(2, n - 1), n, 3)),
}
FORMS: tuple[tuple[str, Dtype], ...] = (
    ("all layers", "fp32"), ("all layers", "fp16"), ("all layers", "int8"),
    ("last half", "fp16"), ("last third", "fp16"), ("every third", "fp16"), ("last third", "int8"),
)  # fmt: skip
SKETCHES = (16, 64, 256, 1024)


@dataclass(frozen=True)
class Case:
    """One question, its candidates and the relevant ones (indices)."""

    dataset: str
    id: str
    query: Query
    documents: Sequence[Document]
    relevant: Sequence[int]


def run_states(
    out: str | Path,
    limit: int,
    model: str = "smollm2-135m",
    exact: bool = False,
    data: str | None = None,
    command: Sequence[str] = ("run_states",),
) -> dict[str, Any]:
    """Score ``.dev`` questions from states of every form; goes on where it stopped."""
    forms = FORMS if exact else FORMS[1:]
    folder = data_folder(data)
    names = datasets_in(folder, "dev")
    found = load_questions(folder, "dev", names, limit)
    cases = [
        Case(q.dataset, q.id, Query(q.question, q.answer), q.documents, q.relevant) for q in found
    ]
    args = {"split": "dev", "data": {"sha256": data_hash(folder, "dev", names)}, "limit": limit}
    args["exact"] = exact
    whole = load_backend(model)
    kept = {name: load_backend(model, layers=cut(whole.layers)) for name, cut in SUBSETS.items()}

    def score(case: Case) -> dict[str, tuple[list[float], float]]:
        states = whole.encode(case.documents) if exact else _kept_states(whole, case.documents)
        scored = {}
        for subset, dtype in forms:
            layers = SUBSETS[subset](whole.layers)
            packed = [_packed(_cut(state, layers, whole.layers), dtype) for state in states]
            ranking = rank("single_gradient", kept[subset], [s for s, _ in packed], case.query)
            size = float(np.mean([size for _, size in packed]))
            scored[f"{subset}, {dtype}"] = ([float(x) for x in ranking.scores], size)
        return scored

    names = [f"{subset}, {dtype}" for subset, dtype in forms]
    return _run(out, cases, names, score, {**args, "model": shown_path(model)}, command)


def run_projection(
    out: str | Path, limit: int, model: str, command: Sequence[str] = ("run_projection",)
) -> dict[str, Any]:
    """Score key-value questions from whole states and from projections of them."""
    from trainers.mamba2.tasks import Pairs

    whole = load_backend(model, loss="mean")
    sketched = {size: load_backend(model, loss="mean", projection=size) for size in SKETCHES}
    backends: dict[str, Any] = {"whole states": whole}
    backends |= {f"{size} numbers a layer and part": backend for size, backend in sketched.items()}

    def score(case: Case) -> dict[str, tuple[list[float], float]]:
        scored = {}
        read = whole.encode(case.documents)
        for name, backend in backends.items():
            states = [backend.projected(state) for state in read]
            ranking = rank("zero_state", backend, states, case.query)
            size = float(np.mean([_packed(state, "fp32")[1] for state in states]))
            scored[name] = ([float(x) for x in ranking.scores], size)
        return scored

    args = {"limit": limit, "model": shown_path(model), "split": "new questions"}
    rng = np.random.default_rng(1)
    drawn = [Pairs().draw(rng, 8) for _ in range(limit)]
    cases = [
        Case("pairs", str(number), Query(x.question), x.documents, [x.relevant])
        for number, x in enumerate(drawn)
    ]
    return _run(out, cases, list(backends), score, args, command)


def _run(
    out: str | Path,
    cases: Sequence[Case],
    forms: Sequence[str],
    score: Callable[[Case], Mapping[str, tuple[list[float], float]]],
    args: Mapping[str, Any],
    command: Sequence[str],
) -> dict[str, Any]:
    from tqdm import tqdm

    run = RunDirectory(out, {**provenance(command), "seed": 0, "checkpoints": {}, **args})
    done = {(row["dataset"], row["id"]) for row in run.rows("forms")}
    if done:
        run.note_resumption(provenance(command))
    for case in tqdm(cases, unit="question", disable=None):
        if (case.dataset, case.id) not in done:
            about = {"dataset": case.dataset, "id": case.id}
            for form, (scores, size) in score(case).items():
                metrics = measure(scores, case.relevant)
                run.append("forms", {**about, "form": form, "bytes": size, **metrics})
    return _summarise(run, forms)


def _summarise(run: RunDirectory, forms: Sequence[str]) -> dict[str, Any]:
    values: dict[str, dict[str, list[float]]] = {form: {} for form in forms}
    sizes: dict[str, list[float]] = {form: [] for form in forms}
    for row in run.rows("forms"):
        values[row["form"]].setdefault(row["dataset"], []).append(row["ndcg"])
        sizes[row["form"]].append(row["bytes"])
    rows = []
    for form in forms:
        mean, error, low, high = interval(values[form])
        rows.append({
            "agent": form, "dataset": AVERAGE, "n": len(sizes[form]),
            "bytes": float(np.mean(sizes[form])), "ndcg": mean, "ndcg_se": error,
            "ndcg_low": low, "ndcg_high": high,
        })  # fmt: skip
    tests = [
        {"a": forms[0], "b": form, "metric": "ndcg", "dataset": AVERAGE,
         **compare(values[forms[0]], values[form])}
        for form in forms[1:]
    ]  # fmt: skip
    return run.summarise(rows, tests)


def _kept_states(backend: Backend, documents: Sequence[Document]) -> list[State]:
    from nodes.build_context.rico.index import build_states, open_states, read_states

    store = open_states(backend)
    build_states(backend, store, documents, quiet=True)
    return read_states(store, documents)


def _cut(state: State, layers: Sequence[int], count: int) -> State:
    return state if len(layers) == count else {k: v[list(layers)] for k, v in state.items()}


def _packed(state: State, dtype: Dtype) -> tuple[State, int]:
    """Return a state as it comes back from the index, and its size there."""
    import torch

    kept, size = {}, 0
    for name, tensor in state.items():
        blob = pack(tensor.numpy(), dtype)
        array, _ = unpack(np.frombuffer(blob, dtype=np.uint8), tuple(tensor.shape), dtype)
        kept[name] = torch.from_numpy(array.copy())
        size += len(blob)
    return kept, size


def main(argv: Sequence[str] | None = None) -> None:
    """Run from the command line (see the module's docstring)."""
    parser = argparse.ArgumentParser(
        "evals.rico_states",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", required=True)
    parser.add_argument("--limit", type=int, default=20, help="questions (of each dataset)")
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--pairs", metavar="FOLDER", help="a model of keys and values: projections")
    parser.add_argument("--exact", action="store_true", help="read documents anew, for fp32")
    words = list(sys.argv[1:] if argv is None else argv)
    given = parser.parse_args(words)
    command = ["python", "-m", "evals.rico_states", *words]
    with mistakes_in_one_line():
        if given.pairs:
            summary = run_projection(given.out, given.limit, given.pairs, command)
        else:
            summary = run_states(given.out, given.limit, given.model, given.exact, command=command)
    for row in summary["rows"]:
        sys.stdout.write(f"{row['agent']:24} {row['bytes']:12,.0f} bytes  nDCG {row['ndcg']:.3f}\n")


if __name__ == "__main__":
    main()
