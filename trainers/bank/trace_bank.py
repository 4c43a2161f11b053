"""Build a trace bank: one row an episode, found by its question, its caption and rewordings of it."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from nodes.experience.episode import Episode
from nodes.experience.grow import make_of
from nodes.experience.returns import move_of
from stores.bank.bank import Entry, Row
from stores.bank.trace_bank import TraceBank
from trainers.bank.state_bank import Built

if TYPE_CHECKING:
    from nodes.resources import Resources


def build_trace_bank(
    folder: str | Path,
    episodes: Sequence[Episode],
    resources: "Resources",
    progress: bool = True,
) -> Built:
    """Add ``episodes`` to the bank in ``folder``, made if it is not there; goes on where it stopped."""
    from tqdm import tqdm

    embedder = resources.embedder
    bank = TraceBank(folder, make_of(embedder), create=True)
    todo = [episode for episode in episodes if not bank.bank.is_read(episode.id)]
    built = Built(known=len(episodes) - len(todo))
    try:
        for episode in tqdm(todo, unit="episode", disable=None if progress else True):
            texts = [text for text in (episode.question, episode.caption, episode.task) if text]
            if not texts:
                built.problems.append(f"{episode.id}: there is no question to find it by")
                continue
            vectors = np.asarray(embedder.embed(list(dict.fromkeys(texts))))
            built.rows += bank.bank.add([Entry(row_of(episode), {"text": vectors})], episode.id)
            built.read += 1
        bank.refresh()
    finally:
        bank.bank.close()
    return built


def row_of(episode: Episode) -> Row:
    """Return the row of an episode: its question and its moves, without repeats in a row."""
    plan: list[str] = []
    for step in episode.steps:
        move = move_of(episode.question, step)
        if not plan or plan[-1] != move:
            plan.append(move)
    data = {
        "question": episode.question,
        "plan": plan,
        "reward": episode.reward,
        "correct": episode.correct,
        "steps": len(episode.steps),
        "episode": episode.id,
        "source": episode.source,
    }
    return Row(id=episode.id, task=episode.task_id, q=10.0 * episode.reward, data=data)
