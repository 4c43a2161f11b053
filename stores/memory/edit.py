"""Correcting a remembered fact by hand. Where it came from stays: its turns are not rewritten."""

import time
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from stores.errors import UserError
from stores.memory import schema as tables
from stores.memory.long_term import LongTerm, Namespace

Embed = Callable[[Sequence[str]], NDArray[np.float32]]


def edit_fact(
    memory: LongTerm,
    namespace: Namespace,
    fact: int,
    *,
    question: str,
    answer: str,
    salience: float,
    embed: Embed,
    embedder: str,
) -> None:
    """Say something else in fact number ``fact`` of ``namespace``; it is found by the new words.

    Raises ``UserError`` for an unknown fact, empty words, or a salience that is no share.
    """
    question, answer = question.strip(), answer.strip()
    if not question or not answer:
        raise UserError("a fact needs a question and an answer: forget it instead")
    if not 0 <= salience <= 1:
        raise UserError(f"salience is a share from 0 to 1, not {salience}")
    rows = np.asarray(embed([question, answer]), dtype=np.float32)
    f = tables.facts.c
    with memory.transaction(namespace) as db:
        done = db.execute(
            tables.facts.update()
            .where(f.id == fact, f.user == namespace.user, f.agent == namespace.agent)
            .values(
                question=question, answer=answer, salience=salience, success=True,
                updated=time.time(), embedder=embedder, vector=rows.astype("<f2").tobytes(),
            )
        )  # fmt: skip
        if not done.rowcount:
            raise UserError(f"no fact {fact} in this memory: it may have been forgotten")
