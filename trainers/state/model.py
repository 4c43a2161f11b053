"""Phase 1: train a state model to foresee the class of the next action.

Reports accuracy on held-out episodes beside the majority class. Resumes after a stop; runs
on the GPU if there is one.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor
from torch.nn.functional import cross_entropy, dropout

from stategate.nodes.update_state.state_models import StateModel
from stategate.trainers.episodes import embedder_of, group_of
from stategate.trainers.settings import StateSettings, data_hashes, open_run, save_checkpoint
from stategate.trainers.state.data import Batch, Sequenced, batches, read_sequences, summary_row
from stategate.trainers.trainer import Trainer, pick_device


def train(settings: StateSettings) -> dict[str, Any]:
    """Train, report, and write the checkpoint; return the summary."""
    device = pick_device(settings.device)
    embedder = embedder_of(settings)
    view, table, (fitted, validation, heldout) = read_sequences(settings)
    run = open_run(settings, {"data": data_hashes(settings)})
    table.embed(embedder)
    reported = heldout or validation
    seen = {c.label for e in (*fitted, *validation, *heldout) for c in e.choices}
    classes = tuple(view.actions.classes) or tuple(sorted(seen))
    torch.manual_seed(settings.seed)
    sizes = {"d_text": embedder.dimension, "d_event": settings.d_event, "d_state": settings.d_state}
    model = StateModel(classes=len(classes), **sizes)
    model.to(device)

    def labels_of(episodes: Sequence[Sequenced]) -> NDArray[np.int64]:
        """Return the class (its place in ``classes``) of each decision."""
        return np.array([classes.index(c.label) for e in episodes for c in e.choices], np.int64)

    def logits(batch: Batch, texts: Tensor) -> Tensor:
        return model.classify(model(texts, batch.types)[batch.rows, batch.places])

    def data(generator: Generator) -> Iterator[Batch]:
        return batches(fitted, table, settings.batch, device, generator)

    def loss(batch: Batch) -> Tensor:
        texts = dropout(batch.texts, settings.drop_inputs, training=True)
        labels = torch.from_numpy(labels_of(batch.episodes))
        return cross_entropy(logits(batch, texts), labels.to(device))

    def hits(episodes: Sequence[Sequenced]) -> NDArray[np.float64]:
        """Return 1 for each decision that the model foresees, else 0."""
        with torch.inference_mode():
            parts = [logits(b, b.texts).argmax(-1) for b in batches(episodes, table, 64, device)]
        return np.asarray(torch.cat(parts).cpu().numpy() == labels_of(episodes), np.float64)

    def metric() -> dict[str, float]:
        return {"accuracy": float(hits(validation).mean())}

    history = Trainer(data, model, loss, metric).fit(settings)
    commonest = np.bincount(labels_of([*fitted, *validation])).argmax()
    of_commonest = np.asarray(labels_of(reported) == commonest, np.float64)
    groups = [group_of(episode.trajectory) for episode in reported for _ in episode.choices]
    rows = [
        summary_row("gru", {"accuracy": hits(reported)}, groups),
        summary_row("majority class", {"accuracy": of_commonest}, groups),
    ]
    save_checkpoint(
        settings,
        "state",
        model.architecture,
        model.state_dict(),
        embedder=embedder.name,
        world=view.name,
        classes=list(classes),
        data=data_hashes(settings),
        metrics=rows[0],
        epochs=len(history) - 1,
    )
    return run.summarise(rows, [])
