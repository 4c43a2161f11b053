"""``stategate rank``: which documents a question needs, by the model's own gradient."""

from typing import TYPE_CHECKING, Any

from stategate.stores.settings import CommaList, JsonFile, Settings, argument, option
from stategate.ui.cli.output import bar, check_target, console, say, write_json
from stategate.ui.cli.settings_command import command, single

if TYPE_CHECKING:
    from stategate.nodes.build_context.rico.rankers import Weighed
    from stategate.nodes.models.decoders.backend import Document

app = single()
_PARTNERS = ("bm25", "bm25_stem", "embedder")
_CORPUS = "An ingested corpus, sample, or a folder or file, as `ingest` reads them."


class RankSettings(Settings):
    """Which documents, by which scores."""

    question: str = argument(..., "What the documents should explain.")
    corpus: str = option(..., _CORPUS, metavar="NAME|PATH")
    top: int = option(10, "How many documents to show.", ge=1)
    ranker: str = option("single_gradient", "single_gradient, multistep, loss, …")
    fuse_with: CommaList = option(("bm25_stem", "embedder"), "Scores to add: bm25, …", "--with")
    alone: bool = option(False, "The ranker's own score only.")
    candidates: int = option(20, "Weigh only so many, the BM25-best.", ge=1)
    model: str = option("smollm2-135m", "Asset, folder, .gguf file, hub name.")
    answer: bool = option(False, "Also answer from the mixed state.")
    json_target: JsonFile = None


@command(
    app,
    """stategate rank "Who wrote the song Counterparts?" --corpus notes/ --top 3""",
    """stategate rank "Which film is older?" --corpus films.json --answer --json -""",
)
def rank(settings: RankSettings) -> None:
    """Weigh documents for a question by how much attending to them would help predict it."""
    from stategate.nodes.build_context.rico.rankers import Weigher, documents_of
    from stategate.nodes.models.decoders.loading import DocumentMemory, shared_backend
    from stategate.nodes.models.embedders import MiniLM
    from stategate.nodes.resources import Resources
    from stategate.stores.errors import UserError

    question, partners, json_target = settings.question, settings.fuse_with, settings.json_target
    unknown = [name for name in partners if name not in _PARTNERS]
    if unknown:
        raise UserError(f"--with knows {', '.join(_PARTNERS)}, not '{unknown[0]}'")
    if not question.strip():
        raise UserError("the question is empty: ask something")
    check_target(json_target)
    documents = _first_stage(question, documents_of(settings.corpus), settings.candidates)
    if not documents:
        raise UserError(
            f"there is no text in '{settings.corpus}': put a file into it, or name another"
        )
    weigher = Weigher(
        DocumentMemory(lambda: shared_backend(settings.model)),
        lambda: MiniLM().build(Resources()),
        settings.ranker,
        () if settings.alone else partners,  # type: ignore[arg-type]
    )
    weighed = weigher.weigh(question, documents, quiet=False)
    order = weighed.order()[: settings.top]
    reply = _answer(weigher, question, documents, weighed) if settings.answer else None
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
    told = {"question": question, "documents": rows, "losses": losses, "answer": reply}
    if json_target is not None:
        write_json(json_target, told)
    if json_target != "-":
        _show(told)


def _first_stage(question: str, documents: "list[Document]", candidates: int) -> "list[Document]":
    """Return the ``candidates`` documents that BM25 puts first, in the corpus's order."""
    if len(documents) <= candidates:
        return documents
    import numpy as np

    from stategate.nodes.retrieval.ranking import bm25

    scores = bm25(question, [document.shown() for document in documents], stemmed=True)
    best = sorted(np.argsort(-scores, kind="stable")[:candidates])
    return [documents[i] for i in best]


def _answer(weigher: Any, question: str, documents: "list[Document]", weighed: "Weighed") -> str:
    import torch

    states = weigher.memory.states(documents)
    weights = torch.tensor(weighed.weights, dtype=torch.float32)
    return str(weigher.memory.backend.generate(states, weights, question))


def _show(told: dict[str, Any]) -> None:
    from rich.table import Table
    from rich.text import Text

    rows = told["documents"]
    table = Table("weight", "", "document", box=None, pad_edge=False)
    for name in rows[0]["parts"] if rows else ():
        table.add_column(name, justify="right", style="dim", no_wrap=True)
    highest = max((row["weight"] for row in rows), default=1.0) or 1.0
    for row in rows:
        title = Text(" ".join((row["title"] or row["text"]).split())[:28])
        own = [f"{score:.2f}" for score in row["parts"].values()]
        table.add_row(f"{row['weight']:.3f}", bar(row["weight"], highest), title, *own)
    console().print(table)
    if told["losses"]:
        shown = " → ".join(f"{value:.3f}" for value in told["losses"][:8])
        say(f"question's loss: {shown} nats a token", "dim")
    if told["answer"] is not None:
        say(f"answer from the mixed state: {told['answer']}")
