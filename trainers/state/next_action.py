"""Phase 1: train a state model to foresee the class of the next action.

python -m trainers.state.next_action --config configs/train/next_action.yaml
python -m trainers.state.next_action --config next_action_sample      (the sample catalogue, minutes)
python -m trainers.state.next_action --config next_action_ssm

Reports accuracy and macro-F1 on held-out episodes beside the majority class and a classifier of the
last page's words. Resumes after a stop; runs on the GPU if there is one.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from pydantic import Field
from torch.nn.functional import cross_entropy, dropout

from nodes.protocols import Embedder
from nodes.update_state.action_classes import ACTION_CLASSES
from nodes.update_state.state_model import StateModel, make_model
from stores.assets.weights import save_weights
from stores.runs import RunDirectory, mean, provenance, shown_config
from stores.traces.trajectories import file_hash, read_trajectories
from trainers.episodes.split import split_by_group
from trainers.fitting import fit, pick_device
from trainers.settings import Settings, command_line
from trainers.state.data import Sequenced, TextTable, batches, sequence


class NextActionSettings(Settings):
    """Settings of phase 1."""

    model: Literal["gru", "ssm"] = "gru"
    d_state: int = Field(default=512, ge=8)
    d_event: int = Field(default=256, ge=8)
    drop_inputs: float = Field(default=0.1, ge=0, lt=1, description="share of input numbers zeroed")


def train(
    settings: NextActionSettings, command: Sequence[str], embedder: Embedder | None = None
) -> dict[str, Any]:
    """Train, report, and write the checkpoint; return the summary."""
    device = pick_device(settings.device)
    training = read_trajectories(settings.data)
    heldout = read_trajectories(settings.heldout) if settings.heldout else []
    run = RunDirectory(settings.run, {**provenance(command), **_args(settings)})
    embedder = embedder or _embedder()
    table = TextTable()
    fitted, validation = split_by_group(training, settings.validation, settings.seed)
    sets = [[sequence(t, table) for t in part] for part in (fitted, validation, heldout)]
    table.embed(embedder)
    torch.manual_seed(settings.seed)
    sizes = {"d_text": embedder.dimension, "d_event": settings.d_event, "d_state": settings.d_state}
    model = make_model({"kind": settings.model, **sizes}).to(device)

    def train_epoch(
        optimizer: torch.optim.Optimizer, generator: torch.Generator
    ) -> dict[str, float]:
        losses = []
        for batch in batches(sets[0], table, settings.batch, device, generator):
            texts = dropout(batch.texts, settings.drop_inputs, training=True)
            readouts = model(texts, batch.types)[batch.rows, batch.places]
            loss = cross_entropy(model.classify(readouts), batch.labels)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
        return {"train_loss": mean(losses)}

    def validate() -> dict[str, float]:
        right = [hit for e in predictions(model, sets[1], table, device) for hit in e[1] == e[2]]
        return {"accuracy": float(np.mean(right))}

    history = fit(
        model, folder=run.folder, epochs=settings.epochs, patience=settings.patience,
        seed=settings.seed, learning_rate=settings.learning_rate, train_epoch=train_epoch,
        validate=validate, metric="accuracy",
    )  # fmt: skip
    reported = sets[2] or sets[1]
    rows = [
        scored(settings.model, predictions(model, reported, table, device)),
        *baselines(sets[0] + sets[1], reported),
    ]
    summary = run.summarise(rows, [])
    meta = {
        "kind": "state", "architecture": model.architecture, "embedder": embedder.name,
        "data": {"name": Path(settings.data).name, "sha256": file_hash(settings.data)},
        "classes": list(ACTION_CLASSES), "metrics": rows[0], "epochs": len(history) - 1,
        "seed": settings.seed, **provenance(command),
    }  # fmt: skip
    save_weights(settings.checkpoint, model.state_dict(), meta)
    return summary


Predicted = tuple[Sequenced, "np.ndarray[Any, Any]", "np.ndarray[Any, Any]"]


def predictions(
    model: StateModel, episodes: Sequence[Sequenced], table: TextTable, device: torch.device
) -> list[Predicted]:
    """Return (episode, predicted classes, true classes) of each episode."""
    found: list[Predicted] = []
    with torch.inference_mode():
        for batch in batches(episodes, table, 64, device):
            readouts = model(batch.texts, batch.types)[batch.rows, batch.places]
            guesses = model.classify(readouts).argmax(-1).cpu().numpy()
            rows = batch.rows.cpu().numpy()
            for i, episode in enumerate(batch.episodes):
                found.append((episode, guesses[rows == i], np.array(episode.labels)))
    return found


def scored(name: str, predicted: Sequence[Predicted]) -> dict[str, Any]:
    """Return a summary row: accuracy and macro-F1, standard errors over episodes (bootstrap)."""
    row: dict[str, Any] = {"agent": name, "n": len(predicted)}
    row["decisions"] = sum(len(labels) for _, _, labels in predicted)
    row |= {"accuracy": _accuracy(predicted), "macro_f1": _macro_f1(predicted)}
    rng = np.random.default_rng(0)
    draws = [
        [predicted[i] for i in rng.integers(0, len(predicted), len(predicted))] for _ in range(200)
    ]
    for metric, measure in (("accuracy", _accuracy), ("macro_f1", _macro_f1)):
        row[f"{metric}_se"] = float(np.std([measure(draw) for draw in draws], ddof=1))
    for mode in sorted({str(e.trajectory.agent.get("mode", "")) for e, _, _ in predicted} - {""}):
        own = [p for p in predicted if p[0].trajectory.agent.get("mode") == mode]
        row[f"accuracy_{mode}"] = _accuracy(own)
    return row


def baselines(training: Sequence[Sequenced], reported: Sequence[Sequenced]) -> list[dict[str, Any]]:
    """Return rows for the majority class and for a linear classifier of the last page's words."""
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression

    labels = np.concatenate([e.labels for e in training])
    majority = int(np.bincount(labels).argmax())
    constant = [(e, np.full(len(e.labels), majority), np.array(e.labels)) for e in reported]
    words = CountVectorizer(max_features=20_000, binary=True)
    model = LogisticRegression(max_iter=300)
    model.fit(words.fit_transform([p for e in training for p in _pages(e)]), labels)
    bag = [
        (e, model.predict(words.transform(_pages(e))), np.array(e.labels))
        for e in reported
        if e.labels
    ]
    return [scored("majority class", constant), scored("bag of last observation", bag)]


def _pages(episode: Sequenced) -> list[str]:
    shown = [event.text for event in episode.trajectory.events if event.kind == "OBS"]
    return [shown[i] for i in episode.observations]


def _accuracy(predicted: Sequence[Predicted]) -> float:
    return float(np.mean(np.concatenate([guess == true for _, guess, true in predicted])))


def _macro_f1(predicted: Sequence[Predicted]) -> float:
    guesses = np.concatenate([guess for _, guess, _ in predicted])
    truths = np.concatenate([true for _, _, true in predicted])
    scores = []
    for label in np.unique(truths):
        both = float(np.sum((guesses == label) & (truths == label)))
        scores.append(2 * both / float(np.sum(guesses == label) + np.sum(truths == label)))
    return float(np.mean(scores))


def _args(settings: Settings) -> dict[str, Any]:
    files = {"data": settings.data, "heldout": settings.heldout}
    hashes = {name: file_hash(path) for name, path in files.items() if path}
    return {"settings": shown_config(settings.model_dump()), "data": hashes, "seed": settings.seed}


def _embedder() -> Embedder:
    from nodes.models.embedders import MiniLM
    from nodes.resources import Resources

    embedder: Embedder = MiniLM().build(Resources())
    return embedder


if __name__ == "__main__":
    command_line("trainers.state.next_action", __doc__, NextActionSettings, train)
