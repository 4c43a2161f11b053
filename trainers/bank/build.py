"""Build banks from recorded episodes; a build that was killed goes on where it stopped."""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from stategate.nodes.experience.adapter import ExperienceAdapter
from stategate.nodes.experience.episode import Episode
from stategate.nodes.experience.grow import add_episode, make_of
from stategate.stores.bank.bank import Entry, Row
from stategate.stores.bank.search import StateBank, TraceBank
from stategate.stores.progress import Progress

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
    folder: str | Path, episodes: Sequence[Episode], resources: "Resources"
) -> Built:
    """Add ``episodes`` to the state bank in ``folder``, made if it is not there.

    Worth and words come from the episodes' returns (``nodes.experience.episode``). Raises ``UserError``
    where the bank was built with another embedder.
    """
    embedder, adapter = resources.embedder, resources.experience
    bank = StateBank(folder, make_of(embedder), create=True)
    return _build(bank, episodes, lambda episode: add_episode(bank, episode, embedder, adapter))


def build_trace_bank(
    folder: str | Path, episodes: Sequence[Episode], resources: "Resources"
) -> Built:
    """Add ``episodes`` to the trace bank in ``folder``: one row each, found by what was asked."""
    embedder, adapter = resources.embedder, resources.experience
    bank = TraceBank(folder, make_of(embedder), create=True)

    def add(episode: Episode) -> int:
        vectors = np.asarray(embedder.embed([episode.question]))
        return bank.bank.add([Entry(trace_row(episode, adapter), vectors)], episode.id)

    built = _build(bank, [episode for episode in episodes if episode.question], add)
    unnamed = (episode.id for episode in episodes if not episode.question)
    built.problems += [f"{name}: there is no question to find it by" for name in unnamed]
    return built


def _build(
    bank: StateBank | TraceBank, episodes: Sequence[Episode], add: Callable[[Episode], int]
) -> Built:
    """Add each episode whole or not at all; one that was added before is skipped."""
    todo = [episode for episode in episodes if not bank.bank.is_read(episode.id)]
    built = Built(read=len(todo), skipped=len(episodes) - len(todo))
    with closing(bank.bank):
        for episode in Progress(todo, "build", unit="episode"):
            built.rows += add(episode)
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
