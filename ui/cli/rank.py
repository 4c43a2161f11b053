"""``stategate rank``: which documents a question needs, by the model's own gradient."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ui.cli.output import JsonFile, bar, check_target, console, examples, write_json

if TYPE_CHECKING:
    from nodes.build_context.rico.rankers import Weighed
    from nodes.models.decoders.backend import Document

EXAMPLES = examples(
    """stategate rank "Why does a brinicle grow?" --corpus sample""",
    """stategate rank "Who wrote the song Counterparts?" --corpus notes/""",
    """stategate rank "When was she born?" --corpus docs.jsonl --alone --top 3""",
    """stategate rank "Which film is older?" --corpus films.json --answer --json -""",
)
_PARTNERS = ("bm25", "bm25_stem", "embedder")


def rank(
    question: Annotated[str, typer.Argument(help="What the documents should explain.")],
    corpus: Annotated[
        str,
        typer.Option(
            metavar="NAME|PATH",
            help="An ingested corpus, sample, or a folder or file of .txt, .md, .json, .jsonl.",
        ),
    ],
    top: Annotated[int, typer.Option(min=1, help="How many documents to show.")] = 10,
    ranker: Annotated[
        str, typer.Option(help="single_gradient, multistep, loss, leave_one_out, …")
    ] = "single_gradient",
    fuse_with: Annotated[
        str,
        typer.Option("--with", help="Scores to add, comma-separated: bm25, bm25_stem, embedder."),
    ] = "bm25_stem,embedder",
    alone: Annotated[bool, typer.Option("--alone", help="The ranker's own score only.")] = False,
    candidates: Annotated[
        int, typer.Option(min=1, help="Weigh the BM25-best so many of a larger corpus.")
    ] = 20,
    model: Annotated[
        str, typer.Option(help="Asset (also qwen2.5-coder-0.5b), folder, .gguf file, hub name.")
    ] = "smollm2-135m",
    answer: Annotated[
        bool, typer.Option("--answer", help="Also answer from the mixed state (learned_state).")
    ] = False,
    json_target: JsonFile = None,
) -> None:
    """Weigh documents for a question by how much attending to them would help predict it."""
    from nodes.build_context.rico.rankers import Weigher, documents_of
    from nodes.models.decoders.loading import DocumentMemory, shared_backend
    from nodes.models.embedders import MiniLM
    from nodes.resources import Resources
    from stores.errors import UserError

    partners = [name.strip() for name in fuse_with.split(",") if name.strip()]
    unknown = [name for name in partners if name not in _PARTNERS]
    if unknown:
        raise UserError(f"--with knows {', '.join(_PARTNERS)}, not '{unknown[0]}'")
    if not question.strip():
        raise UserError("the question is empty: ask something")
    check_target(json_target)
    documents = _first_stage(question, documents_of(corpus), candidates)
    weigher = Weigher(
        DocumentMemory(lambda: shared_backend(model)),
        lambda: MiniLM().build(Resources()),
        ranker,
        () if alone else partners,  # type: ignore[arg-type]
    )
    weighed = weigher.weigh(question, documents, quiet=False)
    order = weighed.order()[:top]
    reply = _answer(weigher, question, documents, weighed) if answer else None
    if json_target is not None:
        write_json(json_target, _as_json(question, documents, weighed, order, reply))
    if json_target != "-":
        _show(documents, weighed, order, reply)


def _first_stage(question: str, documents: "list[Document]", candidates: int) -> "list[Document]":
    """Return the ``candidates`` documents that BM25 puts first, in the corpus's order."""
    if len(documents) <= candidates:
        return documents
    import numpy as np

    from nodes.retrieval.ranking import bm25

    scores = bm25(question, [document.shown() for document in documents], stemmed=True)
    best = sorted(np.argsort(-scores, kind="stable")[:candidates])
    return [documents[i] for i in best]


def _answer(weigher: Any, question: str, documents: "list[Document]", weighed: "Weighed") -> str:
    import torch

    states = weigher.memory.states(documents)
    weights = torch.tensor(weighed.weights, dtype=torch.float32)
    return str(weigher.memory.backend.generate(states, weights, question))


def _show(
    documents: "list[Document]", weighed: "Weighed", order: list[int], reply: str | None
) -> None:
    from rich.table import Table
    from rich.text import Text

    out = console()
    table = Table(box=None, pad_edge=False)
    table.add_column("weight", justify="right")
    table.add_column("", no_wrap=True)
    table.add_column("document", no_wrap=True)
    for name in weighed.parts:
        table.add_column(name, justify="right", style="dim", no_wrap=True)
    highest = max((float(weighed.weights[i]) for i in order), default=1.0) or 1.0
    for i in order:
        weight = float(weighed.weights[i])
        title = documents[i].title or documents[i].text
        own = [f"{float(scores[i]):.2f}" for scores in weighed.parts.values()]
        table.add_row(
            f"{weight:.3f}", bar(weight, highest), Text(" ".join(title.split())[:28]), *own
        )
    out.print(table)
    if weighed.ranking and weighed.ranking.losses:
        shown = " → ".join(f"{value:.3f}" for value in weighed.ranking.losses[:8])
        out.print(f"question's loss: {shown} nats a token", style="dim")
    if reply is not None:
        out.print(Text(f"answer from the mixed state: {reply}"))


def _as_json(
    question: str,
    documents: "list[Document]",
    weighed: "Weighed",
    order: list[int],
    reply: str | None,
) -> dict[str, Any]:
    rows = [
        {
            "title": documents[i].title,
            "text": documents[i].text,
            "weight": float(weighed.weights[i]),
            "score": float(weighed.scores[i]),
            "parts": {name: float(scores[i]) for name, scores in weighed.parts.items()},
        }
        for i in order
    ]
    losses = list(weighed.ranking.losses) if weighed.ranking else []
    return {"question": question, "documents": rows, "losses": losses, "answer": reply}
