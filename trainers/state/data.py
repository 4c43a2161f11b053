"""Trajectories as tensors: the inputs of a state model, and the decisions made on the way."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from stategate.envs.protocols import Observation, View
from stategate.nodes.protocols import Embedder
from stategate.nodes.update_state.learned import type_of
from stategate.stores.progress import Progress
from stategate.stores.traces import Event, Trajectory
from stategate.trainers.episodes import read_sides, view_of
from stategate.trainers.settings import RecordedSettings


class Choice(NamedTuple):
    """An action of ``label``'s class on a page, before which ``before`` events came.

    ``place`` is the input after which it was made: the state has then seen the page itself, as at
    inference.
    """

    place: int
    label: str
    page: Observation
    before: int
    action: str


@dataclass(frozen=True)
class Sequenced:
    """One episode: inputs (rows of the text table, types), and the choices made."""

    trajectory: Trajectory
    texts: tuple[int, ...]
    types: tuple[int, ...]
    choices: tuple[Choice, ...]


class TextTable:
    """Every text of a data set once, with its embedding (float32, (n, d))."""

    def __init__(self) -> None:
        self.index: dict[str, int] = {}
        self.vectors = torch.zeros(0, 0)

    def add(self, text: str) -> int:
        """Return the row of ``text``, a new one if need be."""
        return self.index.setdefault(text, len(self.index))

    def embed(self, embedder: Embedder) -> None:
        """Embed the texts that were added since the last time."""
        texts = list(self.index)[len(self.vectors) :]
        rows = [self.vectors] if len(self.vectors) else []
        with Progress(what="embed texts", total=len(texts), unit="text") as bar:
            for start in range(0, len(texts), 64):
                vectors = embedder.embed(texts[start : start + 64])
                rows.append(torch.from_numpy(vectors))
                bar.update(len(vectors))
        self.vectors = torch.cat(rows)


def read_sequences(settings: RecordedSettings) -> tuple[View, TextTable, list[list[Sequenced]]]:
    """Read the episodes of each side (see ``read_sides``), their world's view, their texts."""
    sides = read_sides(settings)
    table, view = TextTable(), view_of(settings, sides)
    return view, table, [[sequence(t, table, view) for t in side] for side in sides]


def sequence(trajectory: Trajectory, table: TextTable, view: View) -> Sequenced:
    """Read one trajectory; only choices on a page that is shown count."""
    texts: list[int] = []
    types: list[int] = []
    choices: list[Choice] = []
    page, before = Observation("", ()), 0
    affordances = iter(trajectory.actions)
    waiting: list[Event] = []
    for number, recorded in enumerate(trajectory.events):
        event = Event(recorded.kind, recorded.text, recorded.t, trajectory.instruction)
        if event.kind == "ACT":  # read as the agent reads it: together with the page it leads to
            if page.text:
                label = view.actions.class_of(page.text, event.text)
                choices.append(Choice(len(texts) - 1, label, page, before, event.text))
            waiting.append(event)
            continue
        for row in (row for one in (*waiting, event) for row in view.inputs(one)):
            texts.append(table.add(row.text))
            types.append(type_of(row))
        waiting.clear()
        if event.kind == "OBS":
            page, before = Observation(event.text, next(affordances, ())), number
    return Sequenced(trajectory, tuple(texts), tuple(types), tuple(choices))


@dataclass(frozen=True)
class Batch:
    """Padded episodes: ``texts`` (B, T, d), ``types`` (B, T); choices flat over the batch."""

    texts: Tensor
    types: Tensor
    rows: Tensor
    places: Tensor
    episodes: tuple[Sequenced, ...]


def batches(
    episodes: Sequence[Sequenced],
    table: TextTable,
    size: int,
    device: torch.device,
    generator: torch.Generator | None = None,
) -> Iterator[Batch]:
    """Yield batches, in random order if there is a ``generator``."""
    order = list(range(len(episodes)))
    if generator is not None:
        order = torch.randperm(len(episodes), generator=generator).tolist()
    for start in range(0, len(order), size):
        chosen = tuple(episodes[i] for i in order[start : start + size])
        texts = pad_sequence([table.vectors[list(e.texts)] for e in chosen], batch_first=True)
        types = pad_sequence([torch.tensor(e.types) for e in chosen], batch_first=True)
        rows = torch.tensor([i for i, e in enumerate(chosen) for _ in e.choices])
        places = torch.tensor([c.place for e in chosen for c in e.choices])
        yield Batch(texts.to(device), types.to(device), rows.to(device), places.to(device), chosen)


def summary_row(
    agent: str, metrics: Mapping[str, NDArray[np.float64]], groups: Sequence[str]
) -> dict[str, Any]:
    """Return the means over decisions; standard errors are of whole ``groups`` drawn 200 times anew."""
    names, places = np.unique(groups, return_inverse=True)
    drawn = np.random.default_rng(0).integers(0, len(names), (200, len(names)))
    counts = np.bincount(places)[drawn].sum(1)
    row: dict[str, Any] = {"agent": agent, "n": len(groups), "groups": len(names)}
    for metric, values in metrics.items():
        sums = np.bincount(places, values)[drawn].sum(1)
        row |= {metric: float(values.mean()), f"{metric}_se": float(np.std(sums / counts, ddof=1))}
    return row
