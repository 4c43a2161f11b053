"""The motivating examples of RICO, with pictures: which of them hold on a backend, which do not.

    python -m evals.rico_examples --out runs/rico-examples
    python -m evals.rico_examples --out runs/rico-examples --model AntonV/mamba2-130m-hf

Writes ``args.json``, ``summary.json`` (a row an example and ranker) and ``examples.png``.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from evals.run_directory import RunDirectory, provenance, shown_path
from nodes.build_context.rico.backend import Backend, Document, Query
from nodes.build_context.rico.fusion import softmax, z_scores
from nodes.build_context.rico.lexical import bm25
from nodes.build_context.rico.rankers import Options, rank
from stores.errors import mistakes_in_one_line

RANKERS = ("single_gradient", "zero_state", "multistep", "loss")
_GRID = 10


@dataclass(frozen=True)
class Example:
    """A question, candidates, and what should happen: the documents that should get most weight."""

    name: str
    claim: str
    question: str
    documents: tuple[Document, ...]
    wanted: tuple[int, ...]


EXAMPLES = (
    Example(
        "other language",
        "a French document that holds the answer outweighs English ones that do not",
        "In which year was the Eiffel Tower opened?",
        (
            Document("Tour Eiffel", "La tour Eiffel, à Paris, a été inaugurée et ouverte en 1889."),
            Document(
                "Big Ben", "The clock tower in London was finished in the nineteenth century."
            ),
            Document("Bakery", "The bakery on the corner opened its doors early in the morning."),
        ),
        (0,),
    ),
    Example(
        "redundancy",
        "both hops of the question outweigh a second copy of the first hop",
        "Who directed the film in which Anna Verel played the sailor?",
        (
            Document("Salt Road", "In Salt Road, Anna Verel played the sailor Mira."),
            Document(
                "Salt Road (film)", "Anna Verel played the sailor Mira in the film Salt Road."
            ),
            Document("Directors", "The film Salt Road was directed by Tomas Linde."),
            Document("Harbour", "The harbour was deepened twice to let larger ships in."),
        ),
        (0, 2),
    ),
    Example(
        "repeated question",
        "a document that only repeats the question does not win over one that answers it",
        "What is the capital of the island of Lorren?",
        (
            Document(
                "Lorren", "Lorren is an island whose capital, Port Adel, lies on its east coast."
            ),
            Document("Quiz", "What is the capital of the island of Lorren?"),
            Document("Maren", "Maren is a mountain village known for cheese."),
        ),
        (0,),
    ),
)


def run_examples(
    backend: Backend, out: str | Path, command: Sequence[str] = ("run_examples",), model: str = ""
) -> dict[str, Any]:
    """Weigh every example with every ranker, draw the pictures, and return the summary."""
    args = {**provenance(command), "seed": 0, "model": shown_path(model), "checkpoints": {}}
    run = RunDirectory(out, args)
    rows: list[dict[str, Any]] = []
    for example in EXAMPLES:
        texts = [document.shown() for document in example.documents]
        lexical = softmax(z_scores(bm25(example.question, texts)))
        rows.append(_row(example, "bm25", lexical))
        states = backend.encode(example.documents)
        for name in RANKERS:
            options = Options(steps=20, learning_rate=0.1)
            found = rank(name, backend, states, Query(example.question), options)
            rows.append({**_row(example, name, found.weights), "losses": list(found.losses)})
    landscape = loss_landscape(backend, EXAMPLES[2])
    summary = run.summarise(rows, [])
    run.append("landscape", *landscape)
    draw(rows, landscape, run.folder / "examples.png")
    return summary


def loss_landscape(backend: Backend, example: Example) -> list[dict[str, float]]:
    """Return the question's loss over a grid of weights of the example's three documents."""
    import torch

    states = backend.encode(example.documents[:3])
    rows = []
    for a in range(_GRID + 1):
        for b in range(_GRID + 1 - a):
            weights = torch.tensor([a, b, _GRID - a - b]) / _GRID
            with torch.no_grad():
                loss = float(backend.loss(states, weights, Query(example.question)))
            rows.append({"w0": a / _GRID, "w1": b / _GRID, "loss": round(loss, 4)})
    return rows


def draw(
    rows: Sequence[Mapping[str, Any]], landscape: Sequence[Mapping[str, float]], path: Path
) -> None:
    """Draw a panel of weights an example, and the landscape of the last."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(EXAMPLES) + 1, figsize=(5 * len(EXAMPLES) + 4, 3.8))
    names = ("bm25", *RANKERS)
    for axis, example in zip(axes, EXAMPLES, strict=False):
        mine = {row["agent"]: row for row in rows if row["example"] == example.name}
        places = np.arange(len(example.documents))
        for number, name in enumerate(names):
            axis.bar(places + (number - 2) * 0.16, mine[name]["weights"], 0.16, label=name)
        labels = [
            ("★ " if i in example.wanted else "") + document.title
            for i, document in enumerate(example.documents)
        ]
        axis.set_xticks(places, labels, fontsize=8)
        axis.set(title=example.name, ylabel="weight", ylim=(0, 1))
    axes[0].legend(fontsize=7)
    last = axes[-1]
    drawn = last.tricontourf(
        [row["w0"] for row in landscape],
        [row["w1"] for row in landscape],
        [row["loss"] for row in landscape],
        levels=16,
    )
    figure.colorbar(drawn, ax=last, label="question's loss (nats a token)")
    last.set(
        title="loss landscape, repeated question",
        xlabel="weight of the answer",
        ylabel="weight of the repeated question",
    )
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _row(example: Example, name: str, weights: "np.ndarray[Any, Any]") -> dict[str, Any]:
    order = np.argsort(-weights, kind="stable")[: len(example.wanted)]
    return {
        "agent": name,
        "example": example.name,
        "claim": example.claim,
        "weights": [round(float(w), 4) for w in weights],
        "wanted": list(example.wanted),
        "holds": bool(set(order.tolist()) == set(example.wanted)),
        "n": 1,
    }


def main(argv: Sequence[str] | None = None) -> None:
    """Run from the command line (see the module's docstring)."""
    parser = argparse.ArgumentParser(
        "evals.rico_examples",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", required=True)
    parser.add_argument("--model", default="smollm2-135m")
    words = list(sys.argv[1:] if argv is None else argv)
    given = parser.parse_args(words)
    with mistakes_in_one_line():
        from nodes.build_context.rico.loading import load_backend

        command = ["python", "-m", "evals.rico_examples", *words]
        summary = run_examples(load_backend(given.model), given.out, command, given.model)
    for row in summary["rows"]:
        word = "holds" if row["holds"] else "fails"
        sys.stdout.write(f"{row['example']:18} {row['agent']:16} {word}  {row['weights']}\n")


if __name__ == "__main__":
    main()
