"""Does it help to ask in another way? The gradient of a question's other forms, on ``.dev``.

    python -m evals.rico_forms --scores runs/rerank-dev --limit 20 --out runs/rico-forms

``question`` is as asked. ``typed`` says before the question, outside the loss, what kind of thing the
answer is (from the question's own words, such as *a person*). ``other words`` and ``statement`` are
written by the embedded chat model, which sees the question alone. ``a+b`` adds z-scores;
``bm25_stem`` and ``minilm`` come from the reranking run, and always read the question as asked.
"""

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evals.multihop import Question
from evals.rerank_metrics import AVERAGE, compare, measure, rows_by_dataset
from evals.rerank_scores import Scored, read_scores
from evals.run_directory import RunDirectory, provenance, shown_path
from nodes.build_context.rico.backend import Query
from nodes.build_context.rico.fusion import fuse_named, parts_of
from stores.errors import mistakes_in_one_line

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

PARTNERS = ("bm25_stem", "minilm")
ASKED = {
    "other words": "Say the question in other words. Keep every name. Write only the question.",
    "statement": "Turn the question into a statement that leaves the answer out. Keep every name. "
    "Write only the statement.",
}
FORMS = ("question", "typed", *ASKED, "question+other words", "question+other words+statement")
_KINDS = (
    (r"how (?:many|much|old|long|far|tall|large)", "a number"),
    (r"(?:what|which) (?:year|date|day|month|century)|when", "a date"),
    (r"(?:what|which) (?:city|town|country|county|state|place|province|district|region)|where",
     "a place"),
    (r"who(?:m|se)?", "a person"),
    (r"(?:what|which) (\w+)", None),  # the word itself
)  # fmt: skip


def answer_kind(question: str) -> str:
    """Return what kind of thing ``question`` asks for, by its first words that say so."""
    for pattern, kind in _KINDS:
        found = re.search(rf"\b{pattern}\b", question, re.IGNORECASE)
        if found and (kind or found[1].lower() not in {"is", "was", "are", "were", "did", "does"}):
            return kind or f"a {found[1].lower()}"
    return "a name"


def run_forms(
    scores: str | Path,
    out: str | Path,
    limit: int,
    chat: "BaseChatModel",
    chat_name: str,
    model: str = "smollm2-135m",
    data: str | None = None,
    command: Sequence[str] = ("run_forms",),
) -> dict[str, Any]:
    """Score the run's questions in every form, and return the summary; goes on where it stopped."""
    from tqdm import tqdm

    from nodes.build_context.rico.index import build_states, open_states, read_states
    from nodes.build_context.rico.loading import load_backend
    from nodes.build_context.rico.rankers import rank

    scored = read_scores(scores, PARTNERS, limit, data)
    args = {
        **provenance(command), "seed": 0, "checkpoints": {}, "model": shown_path(model),
        "chat": chat_name, "split": scored.args["split"], "limit": limit, "asked": ASKED,
    }  # fmt: skip
    run = RunDirectory(out, args)
    done = {(row["dataset"], row["id"]) for row in run.rows("forms")}
    if done:
        run.note_resumption(args)
    backend = load_backend(model, loss=scored.args.get("loss", "content"))
    store = open_states(backend)
    for question in tqdm(scored.questions, unit="question", disable=None):
        if (question.dataset, question.id) in done:
            continue
        asked, kind = question.question, answer_kind(question.question)
        queries = {"question": Query(asked), "typed": Query(asked, lead=f"(asks for {kind})")}
        queries |= {name: Query(_said(chat, how, asked)) for name, how in ASKED.items()}
        build_states(backend, store, question.documents, quiet=True)
        states = read_states(store, question.documents)
        found = {n: rank("single_gradient", backend, states, q) for n, q in queries.items()}
        run.append("forms", {
            "dataset": question.dataset, "id": question.id, "kind": kind,
            "said": {name: queries[name].question for name in ASKED},
            "scores": {n: [float(f"{s:.7g}") for s in r.scores] for n, r in found.items()},
        })  # fmt: skip
    return _summarise(run, scored)


def _said(chat: "BaseChatModel", how: str, question: str) -> str:
    """Return the chat model's version, or the question itself where it says nothing."""
    reply = chat.invoke([("system", how), ("user", question)])
    return " ".join(str(reply.text).split()) or question


def _summarise(run: RunDirectory, scored: Scored) -> dict[str, Any]:
    asked = {(q.dataset, q.id): q for q in scored.questions}
    fused = [f"{'+'.join(PARTNERS)}+{form}" for form in FORMS]
    values: dict[str, dict[str, list[float]]] = {name: {} for name in (*FORMS, *fused)}
    for row in run.rows("forms"):
        question: Question = asked[row["dataset"], row["id"]]
        own = {name: scored.of(question, name) for name in PARTNERS} | row["scores"]
        for name, groups in values.items():
            ranking = fuse_named(name, {part: own[part] for part in parts_of(name)})
            ndcg = measure(list(ranking), question.relevant)["ndcg"]
            groups.setdefault(question.dataset, []).append(ndcg)
    rows: list[dict[str, Any]] = []
    for name, groups in values.items():
        rows += rows_by_dataset(name, "form_ndcg", groups)
    tests = [
        {"a": names[0], "b": name, "metric": "ndcg", "dataset": AVERAGE,
         **compare(values[names[0]], values[name])}
        for names in (FORMS, fused) for name in names[1:]
    ]  # fmt: skip
    return run.summarise(rows, tests)


def main(argv: Sequence[str] | None = None) -> None:
    """Run from the command line (see the module's docstring)."""
    parser = argparse.ArgumentParser(
        "evals.rico_forms",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--scores", required=True, help="folder of a reranking run of .dev")
    parser.add_argument("--out", required=True)
    parser.add_argument("--limit", type=int, default=20, help="questions of each dataset")
    parser.add_argument("--chat", default="default", help="model of the embedded server")
    parser.add_argument("--threads", type=int, help="cores of the embedded server")
    words = list(sys.argv[1:] if argv is None else argv)
    given = parser.parse_args(words)
    command = ["python", "-m", "evals.rico_forms", *words]
    with mistakes_in_one_line():
        from nodes.models.llms import EmbeddedLlm
        from nodes.resources import Resources

        params = EmbeddedLlm(model=given.chat, n_ctx=1024, threads=given.threads, max_tokens=80)
        summary = run_forms(
            given.scores, given.out, given.limit, params.build(Resources()),
            params.model_file().stem, command=command,
        )  # fmt: skip
    for row in summary["rows"]:
        if row["dataset"] == AVERAGE:
            sys.stdout.write(f"{row['agent']:50} nDCG@10 {row['form_ndcg']:.3f}\n")


if __name__ == "__main__":
    main()
