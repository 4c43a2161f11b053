"""Trajectories as tensors: inputs of a state model, and at each decision the action class."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from nodes.protocols import Embedder
from nodes.update_state.action_classes import ACTION_CLASSES, action_class
from nodes.update_state.views import inputs_of
from stores.traces import Event
from stores.traces.trajectories import Trajectory


@dataclass(frozen=True)
class Sequenced:
    """One episode: inputs (rows of the text table, types), and where decisions were made.

    ``places[i]`` is the input after which the i-th decision was made (the state has then seen that
    decision's own page, as at inference), ``labels[i]`` its action class, ``observations[i]`` the
    index of its OBS event among the trajectory's OBS events, ``choices[i]`` the action itself.
    """

    trajectory: Trajectory
    texts: tuple[int, ...]
    types: tuple[int, ...]
    places: tuple[int, ...]
    labels: tuple[int, ...]
    observations: tuple[int, ...]
    choices: tuple[str, ...]


class TextTable:
    """Every text of a data set once, with its embedding (float32, (n, d))."""

    def __init__(self) -> None:
        self.index: dict[str, int] = {}
        self.vectors = torch.zeros(0, 0)

    def add(self, text: str) -> int:
        """Return the row of ``text``, a new one if need be."""
        return self.index.setdefault(text, len(self.index))

    def embed(self, embedder: Embedder) -> None:
        """Embed all texts (those that the cache knows cost nothing)."""
        texts = list(self.index)
        rows = []
        with tqdm(total=len(texts), desc="embed texts", unit="text", disable=None) as bar:
            for start in range(0, len(texts), 64):
                rows.append(embedder.embed(texts[start : start + 64]))
                bar.update(len(rows[-1]))
        self.vectors = torch.from_numpy(np.concatenate(rows))


def sequence(trajectory: Trajectory, table: TextTable) -> Sequenced:
    """Read one trajectory; only decisions on a page that is shown count."""
    texts: list[int] = []
    types: list[int] = []
    places: list[int] = []
    labels: list[int] = []
    observations: list[int] = []
    choices: list[str] = []
    page, seen = "", -1
    waiting: list[Event] = []
    for event in trajectory.events:
        if event.kind == "ACT" and page:
            places.append(len(texts) - 1)
            labels.append(ACTION_CLASSES.index(action_class(page, event.text)))
            observations.append(seen)
            choices.append(event.text)
        if event.kind == "ACT":  # read as the agent reads it: together with the page it leads to
            waiting.append(event)
            continue
        for type_, text in inputs_of([*waiting, event]):
            texts.append(table.add(text))
            types.append(type_)
        waiting.clear()
        if event.kind == "OBS":
            page, seen = event.text, seen + 1
    return Sequenced(
        trajectory, tuple(texts), tuple(types), tuple(places), tuple(labels),
        tuple(observations), tuple(choices),
    )  # fmt: skip


@dataclass(frozen=True)
class Batch:
    """Padded episodes: ``texts`` (B, T, d), ``types`` (B, T); decisions flat over the batch."""

    texts: Tensor
    types: Tensor
    rows: Tensor
    places: Tensor
    labels: Tensor
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
        length = max(len(e.texts) for e in chosen)
        texts = torch.zeros(len(chosen), length, table.vectors.shape[1])
        types = torch.zeros(len(chosen), length, dtype=torch.long)
        for i, episode in enumerate(chosen):
            texts[i, : len(episode.texts)] = table.vectors[list(episode.texts)]
            types[i, : len(episode.types)] = torch.tensor(episode.types)
        rows = torch.tensor([i for i, e in enumerate(chosen) for _ in e.places])
        places = torch.tensor([p for e in chosen for p in e.places])
        labels = torch.tensor([label for e in chosen for label in e.labels])
        yield Batch(
            texts.to(device), types.to(device), rows.to(device), places.to(device),
            labels.to(device), chosen,
        )  # fmt: skip
