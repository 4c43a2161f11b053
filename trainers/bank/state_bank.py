"""Build a state bank from recorded episodes: annotate, embed, add; goes on where it stopped.

stategate bank build runs/traces.sqlite --out banks/state
stategate bank build traces.jsonl --out banks/state --include-incorrect --annotator hindsight
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from nodes.experience.episode import Episode
from nodes.experience.grow import SAME, add_episode, make_of, updater_make
from nodes.experience.returns import Annotation, annotate
from stores.bank.state_bank import StateBank
from stores.errors import UserError

if TYPE_CHECKING:
    from nodes.protocols import UpdaterParams
    from nodes.resources import Resources

#: Yields (episode, its annotations or the reason why there are none) as they are made, in any order.
Annotator = Callable[
    [Sequence[Episode]], Iterable[tuple[Episode, Sequence[Annotation] | str]]
]


@dataclass
class Built:
    """What a build did: new rows, episodes read now and before, problems one a line."""

    rows: int = 0
    read: int = 0
    known: int = 0
    leaks: int = 0
    problems: list[str] = field(default_factory=list)


def by_returns(
    episodes: Sequence[Episode],
) -> Iterable[tuple[Episode, Sequence[Annotation] | str]]:
    """Annotate without a model (see ``nodes.experience.returns``)."""
    for episode in episodes:
        yield episode, annotate(episode)


def build_state_bank(
    folder: str | Path,
    episodes: Sequence[Episode],
    resources: "Resources",
    annotator: Annotator = by_returns,
    updater: "UpdaterParams | None" = None,
    same: float = SAME,
    progress: bool = True,
) -> Built:
    """Add ``episodes`` to the bank in ``folder``, made if it is not there.

    An episode is added whole or not at all; one that was added before is skipped. Raises
    ``UserError`` where the bank was built with another embedder or updater.
    """
    from tqdm import tqdm

    embedder = resources.embedder
    hidden = resources.get(updater) if updater is not None and updater.kind != "none" else None
    make = updater_make(updater) if updater is not None else None
    bank = StateBank(folder, make_of(embedder), make, create=True)
    if hidden is None and "state" in bank.bank.makes():
        raise UserError(f"the bank in '{folder}' has recurrent states: give the same --updater")
    todo = [episode for episode in episodes if not bank.bank.is_read(episode.id)]
    built = Built(known=len(episodes) - len(todo))
    try:
        with tqdm(total=len(todo), unit="episode", disable=None if progress else True) as bar:
            for episode, notes in annotator(todo):
                if isinstance(notes, str):
                    built.problems.append(f"{episode.id}: {notes}")
                else:
                    kept, leaks = without_leaks(episode, notes)
                    built.leaks += leaks
                    built.rows += add_episode(bank, episode, kept, embedder, hidden, same)
                    built.read += 1
                bar.update()
        bank.refresh()
    finally:
        bank.bank.close()
    return built


def without_leaks(episode: Episode, notes: Sequence[Annotation]) -> tuple[list[Annotation], int]:
    """Empty the advice that tells the episode's answer; returns the rest and how many leaked."""
    answers = [_folded(answer) for answer in episode.answers]
    # Whole words: the answer "4" is in "a 4 pack", not in "40 dollars".
    answers = [f" {answer} " for answer in answers if answer]
    kept = []
    leaks = 0
    for note in notes:
        told = f" {_folded(note.experience)} "
        if any(answer in told for answer in answers):
            note = Annotation(note.q, "", note.by)
            leaks += 1
        kept.append(note)
    return kept, leaks


def _folded(text: str) -> str:
    return " ".join("".join(c.lower() if c.isalnum() else " " for c in text).split())
