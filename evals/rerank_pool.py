"""Which documents a question's rankers may choose from."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evals.multihop import Question
from nodes.build_context.rico.backend import Document
from nodes.build_context.rico.lexical import Bm25


@dataclass(frozen=True)
class Pool:
    """Candidates, which of them are relevant (indices), and how many relevant ones are missing."""

    documents: tuple[Document, ...]
    relevant: tuple[int, ...]
    missed: int = 0


def given_pool(question: Question) -> Pool:
    """Return the candidates that come with the question."""
    return Pool(question.documents, question.relevant)


def retrieved_pool(questions: Sequence[Question], depth: int) -> list[Pool]:
    """Return for each question the ``depth`` best of all documents of its dataset, by BM25.

    A relevant document that BM25 does not bring counts as missed in every metric.
    """
    pools: dict[int, Pool] = {}
    for dataset in dict.fromkeys(question.dataset for question in questions):
        mine = [(n, q) for n, q in enumerate(questions) if q.dataset == dataset]
        corpus = list(dict.fromkeys(d for _, q in mine for d in q.documents))
        index = Bm25([document.shown() for document in corpus], stemmed=True)
        for number, question in mine:
            best = np.argsort(-index.scores(question.question), kind="stable")[:depth]
            found = tuple(corpus[i] for i in best)
            wanted = {question.documents[i] for i in question.relevant}
            relevant = tuple(i for i, document in enumerate(found) if document in wanted)
            pools[number] = Pool(found, relevant, len(wanted) - len(relevant))
    return [pools[number] for number in range(len(questions))]
