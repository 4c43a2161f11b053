"""Later, in the background: replace return-based advice in a bank by a model's hindsight."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nodes.experience.episode import Episode
from nodes.experience.returns import NAME
from stores.bank.state_bank import StateBank
from trainers.bank.state_bank import Annotator, Built, without_leaks

if TYPE_CHECKING:
    from stores.bank.bank import Row


def waiting_in(folder: str | Path) -> set[str]:
    """Return the ids of the episodes whose rows in the bank are return-based."""
    bank = StateBank(folder).bank
    try:
        return {str(row.data["episode"]) for row in bank.rows() if row.data.get("by") == NAME}
    finally:
        bank.close()


def upgrade(folder: str | Path, episodes: Sequence[Episode], annotator: Annotator) -> Built:
    """Annotate again the rows that are return-based and whose episode is among ``episodes``.

    Safe while agents write to the bank; what was upgraded is not asked again.
    """
    from tqdm import tqdm

    bank = StateBank(folder).bank
    waiting: dict[str, dict[int, Row]] = {}
    for row in bank.rows():
        if row.data.get("by") == NAME:
            waiting.setdefault(str(row.data["episode"]), {})[int(row.data["step"])] = row
    todo = [episode for episode in episodes if episode.id in waiting]
    built = Built(known=len(episodes) - len(todo))
    try:
        for episode, notes in tqdm(annotator(todo), total=len(todo), unit="episode", disable=None):
            if isinstance(notes, str):
                built.problems.append(f"{episode.id}: {notes}")
                continue
            kept, leaks = without_leaks(episode, notes)
            built.leaks += leaks
            built.read += 1
            for step, row in waiting[episode.id].items():
                if step < len(kept):
                    note = kept[step]
                    bank.change(row.id, q=note.q, experience=note.experience, by=note.by)
                    built.rows += 1
    finally:
        bank.close()
    return built
