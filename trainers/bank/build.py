"""Build banks from recorded episodes; a build that was killed goes on where it stopped."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from stategate.nodes.experience.adapter import ExperienceAdapter
from stategate.nodes.experience.episode import Episode, states_of
from stategate.nodes.experience.grow import add_episode, make_of
from stategate.nodes.models.embedders import embed_ahead
from stategate.stores.bank.bank import Entry, Row
from stategate.stores.bank.search import StateBank, TraceBank
from stategate.stores.progress import Progress
from stategate.stores.workers import Crew

if TYPE_CHECKING:
    from stategate.nodes.resources import Resources


@dataclass
class Built:
    """What a build did: new rows, episodes read now and before, problems one a line."""

    rows: int = 0
    read: int = 0
    skipped: int = 0
    problems: list[str] = field(default_factory=list)


def build_state_bank(
    folder: str | Path,
    episodes: Sequence[Episode],
    resources: "Resources",
    crew: Crew | None = None,
) -> Built:
    """Add ``episodes`` to the state bank in ``folder``, made if it is not there.

    Worth and words come from the episodes' returns (``nodes.experience.episode``). An episode is added
    whole or not at all; one that was added before is skipped. Raises ``UserError`` where the bank was
    built with another embedder.

    A ``crew`` embeds the states; rows are added here, one episode after another, because a state that
    is there already is folded into its row.
    """
    embedder, adapter = resources.embedder, resources.experience
    bank = StateBank(folder, make_of(embedder), create=True)
    todo = [episode for episode in episodes if not bank.bank.is_read(episode.id)]
    built = Built(read=len(todo), skipped=len(episodes) - len(todo))
    if crew is not None:
        texts = [text for episode in todo for text in states_of(episode, adapter)]
        embed_ahead(resources.embedder_params, texts, crew)
    with closing(bank.bank):
        for episode in Progress(todo, "build", unit="episode"):
            built.rows += add_episode(bank, episode, embedder, adapter)
    return built


def build_trace_bank(
    folder: str | Path,
    episodes: Sequence[Episode],
    resources: "Resources",
    crew: Crew | None = None,
) -> Built:
    """Add ``episodes`` to the trace bank in ``folder``: one row each, found by what was asked.

    Made if it is not there; goes on where it stopped.
    """
    embedder, adapter = resources.embedder, resources.experience
    bank = TraceBank(folder, make_of(embedder), create=True)
    todo = [episode for episode in episodes if not bank.bank.is_read(episode.id)]
    built = Built(skipped=len(episodes) - len(todo))
    if crew is not None:
        embed_ahead(resources.embedder_params, [episode.question for episode in todo], crew)
    with closing(bank.bank):
        for episode in Progress(todo, "build", unit="episode"):
            if not episode.question:
                built.problems.append(f"{episode.id}: there is no question to find it by")
                continue
            vectors = np.asarray(embedder.embed([episode.question]))
            entry = Entry(trace_row(episode, adapter), vectors)
            built.rows += bank.bank.add([entry], episode.id)
            built.read += 1
    return built


def trace_row(episode: Episode, adapter: ExperienceAdapter) -> Row:
    """Return the row of an episode: its question and its moves, without repeats in a row."""
    plan: list[str] = []
    for step in episode.steps:
        move = adapter.move_of(episode.question, step.action)
        if not plan or plan[-1] != move:
            plan.append(move)
    actions = [step.action for step in episode.steps]
    data = {
        "question": episode.question,
        "plan": plan,
        "lessons": list(adapter.lessons(episode.question, actions)),
        "reward": episode.reward,
        "correct": episode.correct,
        "steps": len(episode.steps),
        "episode": episode.id,
        "source": episode.source,
        "trust": episode.trust,
    }
    return Row(id=episode.id, task=episode.task_id, q=10.0 * episode.reward, data=data)
