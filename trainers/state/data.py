"""Trajectories as tensors: inputs of a state model, and where decisions were made."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from tqdm import tqdm

from envs.protocols import Observation, View
from nodes.protocols import Embedder
from nodes.update_state.learned import type_of
from stores.traces import Event
from stores.traces.trajectories import Trajectory


@dataclass(frozen=True)
class Sequenced:
    """One episode: inputs (rows of the text table, types), and where decisions were made.

    ``places[i]`` is the input after which the i-th decision was made (the state has then seen that
    decision's own page, as at inference), ``labels[i]`` its action class, ``pages[i]`` its page,
    ``before[i]`` how many events came before that page, ``choices[i]`` the action itself.
    """

    trajectory: Trajectory
    texts: tuple[int, ...]
    types: tuple[int, ...]
    places: tuple[int, ...]
    labels: tuple[str, ...]
    pages: tuple[Observation, ...]
    before: tuple[int, ...]
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
        """Embed the texts that were added since the last time."""
        texts = list(self.index)[len(self.vectors) :]
        rows = [self.vectors] if len(self.vectors) else []
        with tqdm(total=len(texts), desc="embed texts", unit="text", disable=None) as bar:
            for start in range(0, len(texts), 64):
                vectors = embedder.embed(texts[start : start + 64])
                rows.append(torch.from_numpy(vectors))
                bar.update(len(vectors))
        self.vectors = torch.cat(rows)


def sequence(trajectory: Trajectory, table: TextTable, view: View) -> Sequenced:
    """Read one trajectory; only decisions on a page that is shown count."""
    texts: list[int] = []
    types: list[int] = []
    decisions: list[tuple[int, str, Observation, int, str]] = []
    page, before = Observation("", ()), 0
    affordances = iter(trajectory.actions)
    waiting: list[Event] = []
    for number, recorded in enumerate(trajectory.events):
        event = Event(recorded.kind, recorded.text, recorded.t, trajectory.instruction)
        if event.kind == "ACT":  # read as the agent reads it: together with the page it leads to
            if page.text:
                label = view.actions.class_of(page.text, event.text)
                decisions.append((len(texts) - 1, label, page, before, event.text))
            waiting.append(event)
            continue
        for row in (row for one in (*waiting, event) for row in view.inputs(one)):
            texts.append(table.add(row.text))
            types.append(type_of(row))
        waiting.clear()
        if event.kind == "OBS":
            page, before = Observation(event.text, next(affordances, ())), number
    columns = zip(*decisions, strict=True) if decisions else [()] * 5
    return Sequenced(trajectory, tuple(texts), tuple(types), *(tuple(c) for c in columns))


@dataclass(frozen=True)
class Batch:
    """Padded episodes: ``texts`` (B, T, d), ``types`` (B, T); decisions flat over the batch."""

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
        length = max(len(e.texts) for e in chosen)
        texts = torch.zeros(len(chosen), length, table.vectors.shape[1])
        types = torch.zeros(len(chosen), length, dtype=torch.long)
        for i, episode in enumerate(chosen):
            texts[i, : len(episode.texts)] = table.vectors[list(episode.texts)]
            types[i, : len(episode.types)] = torch.tensor(episode.types)
        rows = torch.tensor([i for i, e in enumerate(chosen) for _ in e.places])
        places = torch.tensor([p for e in chosen for p in e.places])
        yield Batch(texts.to(device), types.to(device), rows.to(device), places.to(device), chosen)
