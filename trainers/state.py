"""Train the recurrent state: a GRU over an episode that foresees the class of the next action.

Episodes become the inputs that a state model reads, and the choices made on the way. Reports the share
of held-out choices that are foreseen, beside that of the commonest class.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor
from torch.nn.functional import cross_entropy, dropout
from torch.nn.utils.rnn import pad_sequence

from stategate.envs.protocols import Observation, View
from stategate.nodes.protocols import Embedder
from stategate.nodes.update_state.learned import type_of
from stategate.nodes.update_state.state_models import StateModel
from stategate.stores.progress import Progress
from stategate.stores.runs import with_errors
from stategate.stores.traces import Event, Trajectory
from stategate.trainers.episodes import embedder_of, group_of, read_sides, view_of
from stategate.trainers.settings import (
    RecordedSettings,
    StateSettings,
    data_hashes,
    open_run,
    save_checkpoint,
)
from stategate.trainers.trainer import Trainer, in_parts, shuffled


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
            for part in in_parts(texts):
                rows.append(torch.from_numpy(embedder.embed(part)))
                bar.update(len(part))
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


def readouts(
    model: StateModel, episodes: Sequence[Sequenced], table: TextTable, dropped: float = 0.0
) -> Tensor:
    """Return the readout (choices, d_state) at each choice; ``dropped`` is of inputs in training."""
    texts = pad_sequence([table.vectors[list(e.texts)] for e in episodes], batch_first=True)
    types = pad_sequence([torch.tensor(e.types) for e in episodes], batch_first=True)
    states = model(dropout(texts, dropped), types)
    rows = [i for i, e in enumerate(episodes) for _ in e.choices]
    chosen: Tensor = states[rows, [c.place for e in episodes for c in e.choices]]
    return chosen


def train(settings: StateSettings) -> dict[str, Any]:
    """Train, report, and write the checkpoint; return the summary."""
    embedder = embedder_of(settings)
    view, table, (fitted, validation, heldout) = read_sequences(settings)
    run = open_run(settings, {"data": data_hashes(settings)})
    table.embed(embedder)
    reported = heldout or validation
    seen = {c.label for e in (*fitted, *validation, *heldout) for c in e.choices}
    classes = tuple(view.actions.classes) or tuple(sorted(seen))
    torch.manual_seed(settings.seed)
    sizes = {"classes": len(classes), "d_text": embedder.dimension}
    sizes |= {"d_event": settings.d_event, "d_state": settings.d_state}
    model = StateModel(**sizes)

    def labels_of(episodes: Sequence[Sequenced]) -> Tensor:
        """Return the class (its place in ``classes``) of each choice."""
        return torch.tensor([classes.index(c.label) for e in episodes for c in e.choices])

    def data(generator: Generator) -> Iterator[list[Sequenced]]:
        return shuffled(fitted, settings.batch, generator, lambda e: len(e.texts))

    def loss(batch: Sequence[Sequenced]) -> Tensor:
        states = readouts(model, batch, table, settings.drop_inputs)
        return cross_entropy(model.classify(states), labels_of(batch))

    @torch.no_grad()
    def hits(episodes: Sequence[Sequenced]) -> NDArray[np.float64]:
        """Return 1 for each choice that the model foresees, else 0."""
        logits = [model.classify(readouts(model, part, table)) for part in in_parts(episodes)]
        return (torch.cat(logits).argmax(-1) == labels_of(episodes)).double().numpy()

    def metric() -> dict[str, float]:
        return {"accuracy": float(hits(validation).mean())}

    history = Trainer(data, model, loss, metric).fit(settings)
    commonest = labels_of([*fitted, *validation]).bincount().argmax()
    of_commonest = (labels_of(reported) == commonest).double().numpy()
    groups = [group_of(episode.trajectory) for episode in reported for _ in episode.choices]
    rows = [
        group_means("gru", {"accuracy": hits(reported)}, groups),
        group_means("majority class", {"accuracy": of_commonest}, groups),
    ]
    save_checkpoint(
        settings,
        "state",
        sizes,
        model.state_dict(),
        embedder=embedder.name,
        world=view.name,
        classes=list(classes),
        data=data_hashes(settings),
        metrics=rows[0],
        epochs=len(history) - 1,
    )
    return run.summarise(rows, [])


def group_means(
    agent: str, metrics: Mapping[str, NDArray[np.float64]], groups: Sequence[str]
) -> dict[str, Any]:
    """Return a summary row: the means over ``groups`` of their choices' means, with standard errors."""
    places = np.unique(groups, return_inverse=True)[1]
    means = {m: np.bincount(places, values) / np.bincount(places) for m, values in metrics.items()}
    errors = with_errors({metric: own.tolist() for metric, own in means.items()})
    return {"agent": agent, "n": len(groups), "groups": int(places.max()) + 1, **errors}
