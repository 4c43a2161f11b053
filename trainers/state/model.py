"""Phase 1: train a state model to foresee the class of the next action.

Reports accuracy and macro-F1 on held-out episodes beside the majority class and a classifier of the
last page's words. Resumes after a stop; runs on the GPU if there is one.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Generator
from torch.nn.functional import cross_entropy, dropout
from torch.optim import Optimizer

from nodes.update_state.learned import make_model
from nodes.update_state.state_models import StateModel
from stores.assets.weights import save_weights
from trainers.episodes import read_sides, resources_of
from trainers.fitting import Figures, descend, fit, pick_device
from trainers.settings import StateSettings, open_run, result
from trainers.state.data import Sequenced, TextTable, batches, sequence


def train(settings: StateSettings, command: Sequence[str]) -> dict[str, Any]:
    """Train, report, and write the checkpoint; return the summary."""
    device = pick_device(settings.device)
    sides = read_sides(settings)
    resources = resources_of(settings, sides)
    embedder, view = resources.embedder, resources.view
    run = open_run(settings, command)
    table = TextTable()
    sets = [[sequence(t, table, view) for t in side] for side in sides]
    table.embed(embedder)
    # A world that does not count its classes has those that were seen.
    seen = sorted({label for side in sets for episode in side for label in episode.labels})
    classes = tuple(view.actions.classes) or tuple(seen)
    torch.manual_seed(settings.seed)
    sizes = {"d_text": embedder.dimension, "d_event": settings.d_event, "d_state": settings.d_state}
    model = make_model({"kind": settings.model, "classes": len(classes), **sizes})
    model.to(device)

    def train_epoch(optimizer: Optimizer, generator: Generator) -> Iterator[Figures]:
        for batch in batches(sets[0], table, settings.batch, device, generator):
            texts = dropout(batch.texts, settings.drop_inputs, training=True)
            readouts = model(texts, batch.types)[batch.rows, batch.places]
            labels = torch.cat([torch.from_numpy(truth(e, classes)) for e in batch.episodes])
            loss = cross_entropy(model.classify(readouts), labels.to(device))
            yield {"train_loss": descend(model, loss, optimizer)}

    def guessed(episodes: Sequence[Sequenced]) -> list[Predicted]:
        return predictions(model, episodes, classes, table, device)

    def validate() -> dict[str, float]:
        right = [hit for _, guess, true in guessed(sets[1]) for hit in guess == true]
        return {"accuracy": float(np.mean(right))}

    history = fit(model, settings, "accuracy", train_epoch, validate)
    reported = sets[2] or sets[1]
    rows = [
        scored(settings.model, guessed(reported)),
        *baselines(sets[0] + sets[1], reported, classes),
    ]
    meta = {"kind": "state", "architecture": model.architecture, "embedder": embedder.name}
    meta |= {"world": view.name, "classes": list(classes)}
    meta |= result(settings, command, len(history) - 1, rows[0])
    save_weights(settings.checkpoint, model.state_dict(), meta)
    return run.summarise(rows, [])


def truth(episode: Sequenced, classes: Sequence[str]) -> "np.ndarray[Any, Any]":
    """Return the class (its place in ``classes``) of each decision."""
    return np.array([classes.index(label) for label in episode.labels], dtype=np.int64)


Predicted = tuple[Sequenced, "np.ndarray[Any, Any]", "np.ndarray[Any, Any]"]


def predictions(
    model: StateModel,
    episodes: Sequence[Sequenced],
    classes: Sequence[str],
    table: TextTable,
    device: torch.device,
) -> list[Predicted]:
    """Return (episode, predicted classes, true classes) of each episode."""
    found: list[Predicted] = []
    with torch.inference_mode():
        for batch in batches(episodes, table, 64, device):
            readouts = model(batch.texts, batch.types)[batch.rows, batch.places]
            guesses = model.classify(readouts).argmax(-1).cpu().numpy()
            rows = batch.rows.cpu().numpy()
            for i, episode in enumerate(batch.episodes):
                found.append((episode, guesses[rows == i], truth(episode, classes)))
    return found


def scored(name: str, predicted: Sequence[Predicted]) -> dict[str, Any]:
    """Return a summary row: accuracy and macro-F1, standard errors over episodes (bootstrap)."""
    row: dict[str, Any] = {"agent": name, "n": len(predicted)}
    row["decisions"] = sum(len(labels) for _, _, labels in predicted)
    rng = np.random.default_rng(0)
    draws = [
        [predicted[i] for i in rng.integers(0, len(predicted), len(predicted))] for _ in range(200)
    ]
    for metric, measure in (("accuracy", _accuracy), ("macro_f1", _macro_f1)):
        row[metric] = measure(predicted)
        row[f"{metric}_se"] = float(np.std([measure(draw) for draw in draws], ddof=1))
    for mode in sorted({str(e.trajectory.agent.get("mode", "")) for e, _, _ in predicted} - {""}):
        own = [p for p in predicted if p[0].trajectory.agent.get("mode") == mode]
        row[f"accuracy_{mode}"] = _accuracy(own)
    return row


def baselines(
    training: Sequence[Sequenced], reported: Sequence[Sequenced], classes: Sequence[str]
) -> list[dict[str, Any]]:
    """Return rows for the majority class and for a linear classifier of the last page's words."""
    from sklearn.dummy import DummyClassifier
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    words = CountVectorizer(max_features=20_000, binary=True)
    rows = []
    for name, model in (
        ("majority class", DummyClassifier(strategy="most_frequent")),
        ("bag of last observation", make_pipeline(words, LogisticRegression(max_iter=300))),
    ):
        labels = np.concatenate([truth(e, classes) for e in training])
        model.fit([page.text for e in training for page in e.pages], labels)
        told = [e for e in reported if e.labels]
        guesses = [model.predict([page.text for page in e.pages]) for e in told]
        made = zip(told, guesses, strict=True)
        rows.append(scored(name, [(e, guess, truth(e, classes)) for e, guess in made]))
    return rows


def _accuracy(predicted: Sequence[Predicted]) -> float:
    return float(np.mean(np.concatenate([guess == true for _, guess, true in predicted])))


def _macro_f1(predicted: Sequence[Predicted]) -> float:
    from sklearn.metrics import f1_score

    guesses = np.concatenate([guess for _, guess, _ in predicted])
    truths = np.concatenate([true for _, _, true in predicted])
    return float(f1_score(truths, guesses, labels=np.unique(truths), average="macro"))
