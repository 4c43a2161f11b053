"""Train the recurrent state: a GRU over an episode that foresees the class of the next action.

Episodes become the inputs that a state model reads, and the choices made on the way. Reports the share
of held-out choices that are foreseen, beside that of the commonest class.
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
from stategate.trainers.trainer import Trainer, TrainingRun, file_hashes, in_parts, shuffled


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


#: The embedding (d_text,) of each text.
Vectors = Mapping[str, Tensor]


@dataclass(frozen=True)
class Sequenced:
    """One episode: inputs (texts, types), and the choices made."""

    trajectory: Trajectory
    texts: tuple[str, ...]
    types: tuple[int, ...]
    choices: tuple[Choice, ...]


def embedded(texts: Iterable[str], embedder: Embedder) -> Vectors:
    """Return the embedding of each text, which is made once."""
    every = [*dict.fromkeys(texts)]
    return dict(zip(every, torch.from_numpy(embedder.embed(every)), strict=True))


def stacked(texts: Sequence[str], vectors: Vectors) -> Tensor:
    """Return the embeddings (len(texts), d_text) of texts."""
    return torch.stack([vectors[text] for text in texts])


def read_sequences(settings: RecordedSettings) -> tuple[View, Embedder, list[list[Sequenced]]]:
    """Read the episodes to fit, to choose by and to report on (perhaps none).

    Returns their world's view, the embedder and the sides. Raises ``UserError`` where there are too few
    groups, or unless all name one world.
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
    sequences = [[sequence(t, view) for t in side] for side in sides]
    # An episode that shows nothing teaches nothing.
    return view, embedder, [[one for one in side if one.texts] for side in sequences]


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
    """Return what an episode hangs together with: the group that its agent names, else itself."""
    return str(trajectory.agent.get("group") or trajectory.episode_id)


def sequence(trajectory: Trajectory, view: View) -> Sequenced:
    """Read one trajectory; only choices on a page that is shown count."""
    texts: list[str] = []
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
            texts.append(row.text)
            types.append(type_of(row))
        waiting.clear()
        if event.kind == "OBS":
            page, before = Observation(event.text, next(affordances, ())), number
    return Sequenced(trajectory, tuple(texts), tuple(types), tuple(choices))


def readouts(
    model: StateModel, episodes: Sequence[Sequenced], vectors: Vectors, dropped: float = 0.0
) -> Tensor:
    """Return the readout (choices, d_state) at each choice; ``dropped`` is of inputs in training."""
    texts = pad_sequence([stacked(e.texts, vectors) for e in episodes], batch_first=True)
    types = pad_sequence([torch.tensor(e.types) for e in episodes], batch_first=True)
    states = model(dropout(texts, dropped), types)
    rows = [i for i, e in enumerate(episodes) for _ in e.choices]
    chosen: Tensor = states[rows, [c.place for e in episodes for c in e.choices]]
    return chosen


def train(settings: StateSettings) -> dict[str, Any]:
    """Train, report, and write the checkpoint; return the summary."""
    view, embedder, (fitted, validation, heldout) = read_sequences(settings)
    run = TrainingRun(settings, file_hashes(settings.data, settings.heldout))
    every, reported = (*fitted, *validation, *heldout), heldout or validation
    vectors = embedded((text for e in every for text in e.texts), embedder)
    seen = {c.label for e in every for c in e.choices}
    classes = tuple(view.actions.classes) or tuple(sorted(seen))
    sizes = {"classes": len(classes), "d_text": embedder.dimension}
    sizes |= {"d_event": settings.d_event, "d_state": settings.d_state}
    model = StateModel(**sizes)

    def labels_of(episodes: Sequence[Sequenced]) -> Tensor:
        """Return the class (its place in ``classes``) of each choice."""
        return torch.tensor([classes.index(c.label) for e in episodes for c in e.choices])

    def data(generator: Generator) -> Iterator[list[Sequenced]]:
        return shuffled(fitted, settings.batch, generator, lambda e: len(e.texts))

    def loss(batch: Sequence[Sequenced]) -> Tensor:
        states = readouts(model, batch, vectors, settings.drop_inputs)
        return cross_entropy(model.classify(states), labels_of(batch))

    @torch.no_grad()
    def hits(episodes: Sequence[Sequenced]) -> NDArray[np.float64]:
        """Return 1 for each choice that the model foresees, else 0."""
        logits = [model.classify(readouts(model, part, vectors)) for part in in_parts(episodes)]
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
    """Return a summary row: the means over ``groups`` of their choices' means, with standard errors."""
    places = np.unique(groups, return_inverse=True)[1]
    means = {m: np.bincount(places, values) / np.bincount(places) for m, values in metrics.items()}
    errors = with_errors({metric: own.tolist() for metric, own in means.items()})
    return {"agent": agent, "n": len(groups), "groups": int(places.max()) + 1, **errors}
