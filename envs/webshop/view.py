"""How an agent reads WebShop: pages as chunks, wishes as clauses, short texts for state models."""

from collections.abc import Sequence
from pathlib import Path

from stategate.envs.protocols import (
    ActionVocabulary,
    Chunk,
    Clause,
    Observation,
    StateInput,
    StatusLine,
    View,
    chosen_line,
)
from stategate.envs.webshop.actions import WebShopActions
from stategate.envs.webshop.chunks import chunk_page
from stategate.envs.webshop.reading import clauses, inputs_of
from stategate.stores.text import one_line
from stategate.stores.traces import Event


class WebShopView(View):
    """WebShop's pages in either observation mode."""

    name = "webshop"
    actions: ActionVocabulary = WebShopActions()
    brief = Path(__file__).with_name("brief.txt").read_text("utf-8").strip()

    def clauses(self, instruction: str) -> Sequence[Clause]:
        """Return the parts that the aligner finds (see ``reading``)."""
        return clauses(instruction)

    def chunks(self, observation: Observation) -> Sequence[Chunk]:
        """Split a page into chunks (see ``envs.webshop.chunks``)."""
        return chunk_page(observation)

    def status(self, observation: Observation, shown: Sequence[Chunk]) -> Sequence[StatusLine]:
        """Return what is chosen, and, on pages that mark choices at all, what is not."""
        choices = [chunk.choice for chunk in shown if chunk.choice is not None]
        lines = [chosen_line(choice.name, choice.chosen) for choice in choices if choice.chosen]
        waiting = [one_line(choice.name) for choice in choices if not choice.chosen]
        marks = "[button]" in observation.text or "You have clicked " in observation.text
        if waiting and marks:
            lines.append(StatusLine(f"Not chosen yet: {', '.join(waiting)}", is_settled=False))
        return lines

    def inputs(self, event: Event) -> Sequence[StateInput]:
        """Return one line a page, and facts about the asked options (see ``reading``)."""
        return inputs_of(event)
