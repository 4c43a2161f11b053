"""Train ``state``: a GRU over an episode's events that predicts the class of the next action.

Reports the accuracy on held-out episodes, beside that of the majority class.
"""

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor
from torch.nn.functional import cross_entropy, dropout
from torch.nn.utils.rnn import pad_sequence

from stategate.envs.protocols import Observation, View
from stategate.graph.config import load_config
from stategate.nodes.protocols import Embedder
from stategate.nodes.resources import Resources
from stategate.nodes.update_state.learned import type_of
from stategate.nodes.update_state.state_models import StateModel
from stategate.stores.errors import UserError
from stategate.stores.runs import with_errors
from stategate.stores.traces import Event, Trajectory, read_trajectories
from stategate.trainers.settings import RecordedSettings, StateSettings
from stategate.trainers.trainer import Trainer, TrainingRun, file_hashes, in_batches, shuffled


class Choice(NamedTuple):
    """An action on a page, its class ``label``, and the number of events before the page.

    ``last_input`` is the index of the last input before it: the state has then read the page itself,
    as at inference.
    """

    last_input: int
    label: str
    page: Observation
    events_before: int
    action: str


#: The embedding (d_text,) of each text.
Vectors = Mapping[str, Tensor]


@dataclass(frozen=True)
class EncodedEpisode:
    """One episode as the state model reads it (texts, types), and its choices, which it predicts."""

    trajectory: Trajectory
    texts: tuple[str, ...]
    types: tuple[int, ...]
    choices: tuple[Choice, ...]


def embedded(texts: Iterable[str], embedder: Embedder) -> Vectors:
    """Return the embedding of each text; equal texts are embedded once."""
    distinct = [*dict.fromkeys(texts)]
    return dict(zip(distinct, torch.from_numpy(embedder.embed(distinct)), strict=True))


def stacked(texts: Sequence[str], vectors: Vectors) -> Tensor:
    """Return the embeddings (len(texts), d_text) of texts."""
    return torch.stack([vectors[text] for text in texts])


def read_sequences(settings: RecordedSettings) -> tuple[View, Embedder, list[list[EncodedEpisode]]]:
    """Return the world's view, the embedder, and the training, validation and held-out episodes.

    There may be no held-out ones. Raises ``UserError`` for too few groups, or unless all episodes
    name one world.
    """
    recorded = read_trajectories(settings.data)
    fitted, validation = split_by_group(recorded, settings.validation, settings.seed)
    if not fitted or not validation:
        raise UserError(f"'{settings.data}' is too small to split: record more episodes")
    heldout = read_trajectories(settings.heldout) if settings.heldout else []
    worlds = sorted({str(t.task.get("env", "")) for t in (*recorded, *heldout)})
    if len(worlds) != 1 or not worlds[0]:
        raise UserError(f"'{settings.data}': give episodes of one world, not of {worlds}")
    config = load_config({"env": worlds[0], "embedder": settings.embedder})
    view, sides = config.env.view(), (fitted, validation, heldout)
    embedder = Resources(*config.models).embedder
    encoded = [[encode_episode(trajectory, view) for trajectory in side] for side in sides]
    # An episode without inputs has nothing to predict from.
    return view, embedder, [[episode for episode in side if episode.texts] for side in encoded]


def split_by_group(
    trajectories: Sequence[Trajectory], share: float, seed: int
) -> tuple[list[Trajectory], list[Trajectory]]:
    """Split into (training, validation): about ``share`` of the groups validate."""
    groups = sorted(set(map(group_of, trajectories)))
    random.Random(seed).shuffle(groups)
    count = max(1, round(share * len(groups))) if len(groups) > 1 else 0
    validation = set(groups[:count])
    return (
        [t for t in trajectories if group_of(t) not in validation],
        [t for t in trajectories if group_of(t) in validation],
    )


def group_of(trajectory: Trajectory) -> str:
    """Return the episode's group, which no split parts: the one its agent names, else its own id."""
    return str(trajectory.agent.get("group") or trajectory.episode_id)


def encode_episode(trajectory: Trajectory, view: View) -> EncodedEpisode:
    """Return one trajectory's inputs and choices; actions without a page before them are no choices."""
    texts: list[str] = []
    types: list[int] = []
    choices: list[Choice] = []
    page, events_before = Observation("", ()), 0
    affordances = iter(trajectory.actions)
    waiting: list[Event] = []
    for number, recorded in enumerate(trajectory.events):
        event = Event(recorded.kind, recorded.text, recorded.t, trajectory.instruction)
        if event.kind == "ACT":  # read as the agent reads it: together with the page it leads to
            if page.text:
                label = view.actions.class_of(page.text, event.text)
                choices.append(Choice(len(texts) - 1, label, page, events_before, event.text))
            waiting.append(event)
            continue
        for row in (row for e in (*waiting, event) for row in view.inputs(e)):
            texts.append(row.text)
            types.append(type_of(row))
        waiting.clear()
        if event.kind == "OBS":
            page = Observation(event.text, next(affordances, ()))
            events_before = number
    return EncodedEpisode(trajectory, tuple(texts), tuple(types), tuple(choices))


def readouts(
    model: StateModel, episodes: Sequence[EncodedEpisode], vectors: Vectors, dropped: float = 0.0
) -> Tensor:
    """Return the state (choices, d_state) before each choice; ``dropped`` is the inputs' dropout."""
    texts = pad_sequence([stacked(e.texts, vectors) for e in episodes], batch_first=True)
    types = pad_sequence([torch.tensor(e.types) for e in episodes], batch_first=True)
    states = model(dropout(texts, dropped), types)
    rows = [i for i, e in enumerate(episodes) for _ in e.choices]
    chosen: Tensor = states[rows, [c.last_input for e in episodes for c in e.choices]]
    return chosen


def train(settings: StateSettings) -> dict[str, Any]:
    """Train, report, and write the checkpoint; return the summary."""
    view, embedder, (fitted, validation, heldout) = read_sequences(settings)
    run = TrainingRun(settings, file_hashes(settings.data, settings.heldout))
    episodes, reported = (*fitted, *validation, *heldout), heldout or validation
    vectors = embedded((text for e in episodes for text in e.texts), embedder)
    labels = {c.label for e in episodes for c in e.choices}
    classes = tuple(view.actions.classes) or tuple(sorted(labels))
    sizes = {"classes": len(classes), "d_text": embedder.dimension}
    sizes |= {"d_event": settings.d_event, "d_state": settings.d_state}
    model = StateModel(**sizes)

    def labels_of(episodes: Sequence[EncodedEpisode]) -> Tensor:
        """Return the class of each choice, an index into ``classes``."""
        return torch.tensor([classes.index(c.label) for e in episodes for c in e.choices])

    def data(generator: Generator) -> Iterator[list[EncodedEpisode]]:
        return shuffled(fitted, settings.batch, generator, lambda e: len(e.texts))

    def loss(batch: Sequence[EncodedEpisode]) -> Tensor:
        states = readouts(model, batch, vectors, settings.drop_inputs)
        return cross_entropy(model.classify(states), labels_of(batch))

    @torch.no_grad()
    def hits(episodes: Sequence[EncodedEpisode]) -> NDArray[np.float64]:
        """Return 1 for each choice whose class is predicted right, else 0."""
        logits = [model.classify(readouts(model, batch, vectors)) for batch in in_batches(episodes)]
        return (torch.cat(logits).argmax(-1) == labels_of(episodes)).double().numpy()

    def metric() -> dict[str, float]:
        return {"accuracy": float(hits(validation).mean())}

    history = Trainer(data, model, loss, metric).fit(settings)
    majority = labels_of([*fitted, *validation]).bincount().argmax()
    majority_hits = (labels_of(reported) == majority).double().numpy()
    groups = [group_of(episode.trajectory) for episode in reported for _ in episode.choices]
    rows = [
        group_means("gru", {"accuracy": hits(reported)}, groups),
        group_means("majority class", {"accuracy": majority_hits}, groups),
    ]
    facts = {
        "embedder": embedder.name,
        "world": view.name,
        "classes": list(classes),
        "epochs": len(history) - 1,
    }
    return run.finish("state", sizes, model.state_dict(), rows, facts)


def group_means(
    agent: str, metrics: Mapping[str, NDArray[np.float64]], groups: Sequence[str]
) -> dict[str, Any]:
    """Return a summary row: the mean of the groups' means, with standard errors."""
    numbers = np.unique(groups, return_inverse=True)[1]
    sizes = np.bincount(numbers)
    means = {name: np.bincount(numbers, values) / sizes for name, values in metrics.items()}
    errors = with_errors({name: values.tolist() for name, values in means.items()})
    return {"agent": agent, "n": len(groups), "groups": len(sizes), **errors}
