"""Phase 1: train a state model to foresee the class of the next action.

Reports accuracy on held-out episodes beside the majority class. Resumes after a stop; runs
on the GPU if there is one.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor
from torch.nn.functional import cross_entropy, dropout

from stategate.envs.protocols import View
from stategate.nodes.update_state.learned import make_model
from stategate.nodes.update_state.state_models import StateModel
from stategate.stores.assets.weights import save_weights
from stategate.trainers.episodes import embedder_of, group_of
from stategate.trainers.settings import StateSettings, open_run, result
from stategate.trainers.state.data import (
    Batch,
    Sequenced,
    TextTable,
    batches,
    error_over_groups,
    read_sequences,
)
from stategate.trainers.trainer import Trainer, pick_device


def train(settings: StateSettings) -> dict[str, Any]:
    """Train, report, and write the checkpoint; return the summary."""
    device = pick_device(settings.device)
    embedder = embedder_of(settings)
    table, sets = read_sequences(settings)
    run = open_run(settings)
    table.embed(embedder)
    worlds = {episode.view.name: episode.view for side in sets for episode in side}
    classes = classes_of(worlds, [episode for side in sets for episode in side])
    torch.manual_seed(settings.seed)
    sizes = {"d_text": embedder.dimension, "d_event": settings.d_event, "d_state": settings.d_state}
    model = make_model({"kind": settings.model, "classes": len(classes), **sizes})
    model.to(device)

    def data(generator: Generator) -> Iterator[Batch]:
        return batches(sets[0], table, settings.batch, device, generator)

    def loss(batch: Batch) -> Tensor:
        texts = dropout(batch.texts, settings.drop_inputs, training=True)
        readouts = model(texts, batch.types)[batch.rows, batch.places]
        labels = torch.cat([torch.from_numpy(truth(e, classes)) for e in batch.episodes])
        return cross_entropy(model.classify(readouts), labels.to(device))

    def guessed(episodes: Sequence[Sequenced]) -> list[Predicted]:
        return predictions(model, episodes, classes, table, device)

    def metric() -> dict[str, float]:
        right = [hit for _, guess, true in guessed(sets[1]) for hit in guess == true]
        return {"accuracy": float(np.mean(right))}

    history = Trainer(data, model, loss, metric).fit(settings)
    reported = sets[2] or sets[1]
    rows: list[dict[str, Any]] = []
    for name in worlds:
        of = f" on {name}" if len(worlds) > 1 else ""
        own = [episode for episode in reported if episode.view.name == name]
        learnt = [e for e in (*sets[0], *sets[1]) if e.view.name == name]
        if not own:
            continue
        rows.append(scored(settings.model + of, guessed(own)))
        if learnt:
            row = majority(learnt, own, classes)
            rows.append({**row, "agent": row["agent"] + of})
    meta = {"kind": "state", "architecture": model.architecture, "embedder": embedder.name}
    meta |= {"world": ", ".join(worlds), "classes": list(classes)}
    meta |= result(settings, len(history) - 1, rows[0])
    save_weights(settings.checkpoint, model.state_dict(), meta)
    return run.summarise(rows, [])


def classes_of(worlds: Mapping[str, View], episodes: Sequence[Sequenced]) -> tuple[str, ...]:
    """Return the classes of all ``worlds``; one that does not count them has those seen."""
    classes: dict[str, None] = {}
    for name, view in worlds.items():
        seen = {c.label for e in episodes if e.view.name == name for c in e.choices}
        classes |= dict.fromkeys(tuple(view.actions.classes) or sorted(seen))
    return tuple(classes)


def truth(episode: Sequenced, classes: Sequence[str]) -> "Labels":
    """Return the class (its place in ``classes``) of each decision."""
    return np.array([classes.index(choice.label) for choice in episode.choices], dtype=np.int64)


Labels = NDArray[np.int64]  # of one episode's decisions
Predicted = tuple[Sequenced, Labels, Labels]


def predictions(
    model: StateModel,
    episodes: Sequence[Sequenced],
    classes: Sequence[str],
    table: TextTable,
    device: torch.device,
) -> list[Predicted]:
    """Return (episode, predicted classes, true classes) of each episode."""
    labelled: list[Predicted] = []
    with torch.inference_mode():
        for batch in batches(episodes, table, 64, device):
            readouts = model(batch.texts, batch.types)[batch.rows, batch.places]
            guesses = model.classify(readouts).argmax(-1).cpu().numpy()
            rows = batch.rows.cpu().numpy()
            for i, episode in enumerate(batch.episodes):
                labelled.append((episode, guesses[rows == i], truth(episode, classes)))
    return labelled


def scored(name: str, predicted: Sequence[Predicted]) -> dict[str, Any]:
    """Return a summary row: accuracy, its standard error over groups (bootstrap)."""
    groups = [group_of(episode.trajectory) for episode, _, _ in predicted]
    return {
        "agent": name,
        "n": len(predicted),
        "decisions": sum(len(labels) for _, _, labels in predicted),
        "groups": len(set(groups)),
        "accuracy": _accuracy(predicted),
        "accuracy_se": error_over_groups(predicted, groups, _accuracy),
    }


def majority(
    training: Sequence[Sequenced], reported: Sequence[Sequenced], classes: Sequence[str]
) -> dict[str, Any]:
    """Return the row of the baseline that always predicts the commonest class of ``training``."""
    counts = np.bincount(np.concatenate([truth(e, classes) for e in training]))
    labelled = [(e, truth(e, classes)) for e in reported if e.choices]
    guessed = [(e, np.full_like(true, counts.argmax()), true) for e, true in labelled]
    return scored("majority class", guessed)


def _accuracy(predicted: Sequence[Predicted]) -> float:
    return float(np.mean(np.concatenate([guess == true for _, guess, true in predicted])))
