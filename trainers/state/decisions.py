"""Decisions for the retriever and the allocator: the page's chunks, and what the frozen state knew."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from envs.protocols import View
from nodes.build_context.query import done_in
from nodes.protocols import Embedder
from nodes.retrieval.align import match
from nodes.retrieval.page import describe
from nodes.update_state.learned import load_model
from nodes.update_state.state_models import StateModel
from stores.assets.weights import require_match
from stores.errors import UserError
from stores.runs import RunDirectory
from trainers.episodes import read_sides, resources_of
from trainers.fitting import pick_device
from trainers.settings import AllocatorSettings, RetrieverSettings, open_run
from trainers.state.data import Sequenced, TextTable, batches, sequence


@dataclass(frozen=True)
class Decisions:
    """Decisions as tensors: ``readouts`` (n, d_state), ``wishes`` (n, d_text), ``pages`` (n, m).

    A row of ``pages`` names rows of the text table, the right chunk first, -1 behind; ``features``
    (n, m, k) are what each chunk and the wish have in common (``nodes.retrieval.align``).
    """

    readouts: Tensor
    wishes: Tensor
    pages: Tensor
    features: Tensor

    def __len__(self) -> int:
        return len(self.readouts)


#: A decision's number, the chunks' rows with the right one first, their features (m, k).
Choice = tuple[int, list[int], Tensor]


@dataclass(frozen=True)
class Frozen:
    """What the second phase starts from: a trained state model, and what it knew at each decision."""

    device: torch.device
    model: StateModel
    state: dict[str, Any]
    embedder: Embedder
    view: View
    run: RunDirectory
    table: TextTable
    episodes: tuple[Sequenced, ...]
    fitted: Decisions
    validation: Decisions
    reported: Decisions

    @property
    def facts(self) -> dict[str, Any]:
        """What a checkpoint says of the state model and the world that it was trained for."""
        return {
            "embedder": self.embedder.name, "world": self.view.name,
            "state_sha256": self.state["sha256"], "state": self.state["architecture"]["kind"],
        }  # fmt: skip


def freeze(settings: RetrieverSettings | AllocatorSettings, command: Sequence[str]) -> Frozen:
    """Read episodes, run the state model over them. Raises ``UserError`` where they hold too little."""
    device = pick_device(settings.device)
    model, state = load_model(settings.state)
    sides = read_sides(settings)
    resources = resources_of(settings, sides)
    embedder, view = resources.embedder, resources.view
    require_match(settings.state, state, "embedder", embedder.name, "set its embedder")
    run = open_run(settings, command)
    table = TextTable()
    sets = [[sequence(t, table, view) for t in side] for side in sides]
    pages = [[choices_of(episode, table, view) for episode in side] for side in sets]
    for trajectory in (t for side in sides for t in side):
        table.add(trajectory.instruction)
    table.embed(embedder)
    model.to(device)
    known = [
        _gather(side, page, model, table, device)
        for side, page in zip(sets, pages, strict=True)
        if any(page)
    ]
    if not any(pages[0]) or not any(pages[1]):
        raise UserError(
            f"'{settings.data}' holds no decision on a page whose actions are known, or too few: "
            "record more episodes"
        )
    every = tuple(episode for side in sets for episode in side)
    return Frozen(
        device, model, state, embedder, view, run, table, every, known[0], known[1], known[-1]
    )


def choices_of(episode: Sequenced, table: TextTable, view: View) -> list[Choice]:
    """Return each decision for an action that a chunk of its page carries."""
    trajectory = episode.trajectory
    found: list[Choice] = []
    for i, (page, action) in enumerate(zip(episode.pages, episode.choices, strict=True)):
        if action not in page.actions:
            continue
        candidates = [c for c in view.chunks(page) if c.role != "frame" and describe(view, c)]
        right = next((j for j, c in enumerate(candidates) if action in c.actions), None)
        if right is None:
            continue
        done = done_in(trajectory.events[: episode.before[i]])
        features = match(view, trajectory.instruction, candidates, done)
        order = [right, *(j for j in range(len(candidates)) if j != right)]
        rows = [table.add(describe(view, candidates[j])) for j in order]
        found.append((i, rows, torch.from_numpy(features[order])))
    return found


def _gather(
    episodes: Sequence[Sequenced], pages: Sequence[list[Choice]],
    model: StateModel, table: TextTable, device: torch.device,
) -> Decisions:  # fmt: skip
    """Run the frozen state model over ``episodes`` and keep what was known at each decision."""
    readouts: list[Tensor] = []
    wishes: list[int] = []
    rows: list[list[int]] = []
    features: list[Tensor] = []
    choices = {id(episode): found for episode, found in zip(episodes, pages, strict=True)}
    with torch.inference_mode():
        for batch in batches(episodes, table, 64, device):
            states = model(batch.texts, batch.types)
            for i, episode in enumerate(batch.episodes):
                for decision, page, matched in choices[id(episode)]:
                    readouts.append(states[i, episode.places[decision]].cpu())
                    wishes.append(table.add(episode.trajectory.instruction))
                    rows.append(page)
                    features.append(matched)
    width = max(len(page) for page in rows)
    padded = torch.tensor([[*page, *[-1] * (width - len(page))] for page in rows])
    matches = torch.nn.utils.rnn.pad_sequence(features, batch_first=True)
    return Decisions(torch.stack(readouts).clone(), table.vectors[wishes], padded, matches)
