"""Build banks from recorded episodes, and better their advice later; goes on where it stopped."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from tqdm import tqdm

from stategate.nodes.experience.adapter import ExperienceAdapter
from stategate.nodes.experience.episode import Annotation, Episode, annotate, states_of
from stategate.nodes.experience.grow import add_episode, make_of
from stategate.stores.bank.bank import Entry, Row
from stategate.stores.bank.search import StateBank, TraceBank
from stategate.stores.workers import Crew

if TYPE_CHECKING:
    from stategate.nodes.resources import Resources

#: An episode with its annotations, or with the reason why there are none.
Annotated = tuple[Episode, Sequence[Annotation] | str]
#: Yields annotated episodes as they are made, in any order.
Annotator = Callable[[Sequence[Episode]], Iterable[Annotated]]


@dataclass
class Built:
    """What a build did: new rows, episodes read now and before, problems one a line."""

    rows: int = 0
    read: int = 0
    known: int = 0
    leaks: int = 0
    problems: list[str] = field(default_factory=list)


def build_state_bank(
    folder: str | Path,
    episodes: Sequence[Episode],
    resources: "Resources",
    annotator: Annotator | None = None,
    crew: Crew | None = None,
) -> Built:
    """Add ``episodes`` to the state bank in ``folder``, made if it is not there.

    Without an ``annotator``, worth and words come from the episodes' returns, without a model
    (``nodes.experience.episode``). An episode is added whole or not at all; one that was added before
    is skipped. Raises ``UserError`` where the bank was built with another embedder.

    A ``crew`` embeds the states; rows are added here, one episode after another, because a state that
    is there already is folded into its row.
    """
    embedder, told = resources.embedder, resources.experience
    bank = StateBank(folder, make_of(embedder), create=True)
    todo = [episode for episode in episodes if not bank.bank.is_read(episode.id)]
    built = Built(known=len(episodes) - len(todo))
    _embed_ahead(resources, (text for e in todo for text in states_of(e, told)), crew)
    annotated = ((e, annotate(e, told)) for e in todo) if annotator is None else annotator(todo)
    with closing(bank.bank):
        for episode, notes in _useful(annotated, len(todo), told, built):
            built.rows += add_episode(bank, episode, notes, embedder, told)
        bank.refresh()
    return built


def build_trace_bank(
    folder: str | Path,
    episodes: Sequence[Episode],
    resources: "Resources",
    crew: Crew | None = None,
) -> Built:
    """Add ``episodes`` to the trace bank in ``folder``: one row each, found by what was asked.

    Question, caption and rewordings each find it. Made if it is not there; goes on where it stopped.
    """
    embedder, told = resources.embedder, resources.experience
    bank = TraceBank(folder, make_of(embedder), create=True)
    todo = [episode for episode in episodes if not bank.bank.is_read(episode.id)]
    built = Built(known=len(episodes) - len(todo))
    _embed_ahead(resources, (text for episode in todo for text in _found_by(episode)), crew)
    with closing(bank.bank):
        for episode in tqdm(todo, unit="episode", disable=None):
            texts = _found_by(episode)
            if not texts:
                built.problems.append(f"{episode.id}: there is no question to find it by")
                continue
            vectors = np.asarray(embedder.embed(list(dict.fromkeys(texts))))
            entry = Entry(trace_row(episode, told), {"text": vectors})
            built.rows += bank.bank.add([entry], episode.id)
            built.read += 1
        bank.refresh()
    return built


def _found_by(episode: Episode) -> list[str]:
    return [text for text in (episode.question, episode.caption, episode.task) if text]


def _embed_ahead(resources: "Resources", texts: Iterable[str], crew: Crew | None) -> None:
    if crew is not None:
        from stategate.nodes.models.embedders import embed_ahead

        embed_ahead(resources.embedder_params, list(texts), crew)


def trace_row(episode: Episode, told: ExperienceAdapter) -> Row:
    """Return the row of an episode: its question and its moves, without repeats in a row."""
    plan: list[str] = []
    for step in episode.steps:
        move = told.move_of(episode.question, step.action)
        if not plan or plan[-1] != move:
            plan.append(move)
    actions = [step.action for step in episode.steps]
    data = {
        "question": episode.question,
        "plan": plan,
        "lessons": list(told.lessons(episode.question, actions)),
        "reward": episode.reward,
        "correct": episode.correct,
        "steps": len(episode.steps),
        "episode": episode.id,
        "source": episode.source,
        "trust": episode.trust,
    }
    return Row(id=episode.id, task=episode.task_id, q=10.0 * episode.reward, data=data)


def _useful(
    annotated: Iterable[Annotated], total: int, told: ExperienceAdapter, built: Built
) -> Iterable[tuple[Episode, list[Annotation]]]:
    """Yield episodes with annotations that give nothing away; count the rest in ``built``."""
    for episode, notes in tqdm(annotated, total=total, unit="episode", disable=None):
        if isinstance(notes, str):
            built.problems.append(f"{episode.id}: {notes}")
            continue
        kept, leaks = without_leaks(episode, notes, told)
        built.leaks += leaks
        built.read += 1
        yield episode, kept


def without_leaks(
    episode: Episode, notes: Sequence[Annotation], told: ExperienceAdapter
) -> tuple[list[Annotation], int]:
    """Empty the advice that tells the episode's answer; returns the rest and how many leaked."""
    outcomes = told.outcomes([step.action for step in episode.steps])
    # Whole words: the answer "4" is in "a 4 pack", not in "40 dollars".
    folded = map(_folded, (*episode.answers, *outcomes))
    answers = [f" {answer} " for answer in folded if answer]
    kept: list[Annotation] = []
    leaks = 0
    for note in notes:
        leaks_it = any(answer in f" {_folded(note.experience)} " for answer in answers)
        kept.append(replace(note, experience="") if leaks_it else note)
        leaks += leaks_it
    return kept, leaks


def _folded(text: str) -> str:
    return " ".join("".join(c.lower() if c.isalnum() else " " for c in text).split())
