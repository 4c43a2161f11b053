"""One trainer for all checkpoints: data, model, loss, metric.

The run directory holds ``last.safetensors`` (the last and the best weights, optimiser and history in
one file, so that a kill leaves an epoch done or not done) and ``history.json`` (a row an epoch). Each
epoch has a random seed of its own, so a resumed run ends in the same weights as an uninterrupted one.
"""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from scipy.optimize import minimize
from torch import Generator, Tensor, nn
from torch.optim import Optimizer

from stategate.nodes.protocols import Vector
from stategate.stores.assets.downloads import sha256
from stategate.stores.assets.weights import save_weights
from stategate.stores.errors import user_error_context
from stategate.stores.files import parse_json, write_bytes, write_json
from stategate.stores.progress import Progress
from stategate.stores.runs import RunDirectory, mean, provenance, public_config, public_path
from stategate.trainers.settings import Settings

B = TypeVar("B")  # a batch
E = TypeVar("E")  # an example
#: One row of figures an epoch, the first (epoch 0) from before any training.
History = list[dict[str, Any]]
Figures = Mapping[str, float]
Weights = dict[str, Tensor]
_EVAL_BATCH = 64  # examples at once without gradients: enough to be fast, few enough for memory
_LAST = "last.safetensors"


def shuffled(
    examples: Sequence[E], size: int, generator: Generator, length: Callable[[E], int] | None = None
) -> Iterator[list[E]]:
    """Yield an epoch's batches: ``examples`` shuffled, those of like ``length`` batched (bucketing)."""
    order = torch.randperm(len(examples), generator=generator).tolist()
    batches: list[list[E]] = []
    for start in range(0, len(order), 32 * size):
        bucket = [examples[i] for i in order[start : start + 32 * size]]
        if length is not None:
            bucket.sort(key=length)
        batches += [bucket[i : i + size] for i in range(0, len(bucket), size)]
    for i in torch.randperm(len(batches), generator=generator).tolist():
        yield batches[i]


def in_batches(items: Sequence[Any]) -> Iterator[Any]:
    """Yield ``items`` in order, in batches for evaluation."""
    return (items[i : i + _EVAL_BATCH] for i in range(0, len(items), _EVAL_BATCH))


class Trainer(Generic[B]):
    """Fits a model by AdamW with early stopping; afterwards the model has the best epoch's weights.

    ``data(generator)`` yields an epoch's batches; ``loss`` of one is a scalar to minimise; ``metric``
    returns validation figures, the first of which (higher is better) decides which epoch is best.
    Gradients are clipped to the norm ``clip``; the learning rate falls to 0 by a cosine.
    """

    def __init__(
        self,
        data: Callable[[Generator], Iterable[B]],
        model: nn.Module,
        loss: Callable[[B], Tensor],
        metric: Callable[[], Figures],
        clip: float | None = 1.0,
    ) -> None:
        self.data, self.model, self.loss, self.metric, self.clip = data, model, loss, metric, clip
        #: The weights after the last epoch, set by :meth:`fit`.
        self.last: Weights = {}

    def fit(self, settings: Settings) -> History:
        """Train, or resume in the run directory ``settings.run``; return the history."""
        folder, model = Path(settings.run), self.model
        trained = [p for p in model.parameters() if p.requires_grad]
        optimizer = torch.optim.AdamW(trained, lr=settings.learning_rate, weight_decay=0.01)
        history, best = _resume(model, optimizer, folder)
        if not history:
            model.eval()
            history, best = [{"epoch": 0, **self.metric()}], _weights(model)
        _save(model, best, optimizer, folder, history)  # a kill may have lost history.json
        metric = next(key for key in history[0] if key != "epoch")
        epoch = len(history) - 1
        with Progress(what="train", total=settings.epochs, initial=epoch, unit="epoch") as bar:
            while epoch < settings.epochs:
                best_epoch = max(range(len(history)), key=lambda i: (history[i][metric], i))
                if epoch - best_epoch >= settings.patience:
                    break
                epoch += 1
                history.append(self._epoch(epoch, optimizer, settings))
                if history[epoch][metric] >= history[best_epoch][metric]:
                    best = _weights(model)
                _save(model, best, optimizer, folder, history)
                bar.set_postfix({metric: f"{history[epoch][metric]:.4f}"})
                bar.update()
        self.last = _weights(model)
        model.load_state_dict(best)
        model.eval()
        return history

    def _epoch(self, epoch: int, optimizer: Optimizer, settings: Settings) -> dict[str, Any]:
        """Train one epoch; return its row of the history."""
        decay = 0.5 * (1 + math.cos(math.pi * (epoch - 1) / settings.epochs))
        for group in optimizer.param_groups:  # the epoch alone decides, also in a resumed run
            group["lr"] = settings.learning_rate * decay
        torch.manual_seed(settings.seed * 100_003 + epoch)
        generator = Generator().manual_seed(settings.seed * 100_003 + epoch)
        self.model.train()
        losses = []
        for batch in self.data(generator):
            loss = self.loss(batch)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            if self.clip is not None:
                nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
            optimizer.step()
            losses.append(loss.item())
        self.model.eval()
        return {"epoch": epoch, "train_loss": mean(losses), **self.metric()}


def _weights(model: nn.Module) -> Weights:
    return {name: t.detach().contiguous().clone() for name, t in model.state_dict().items()}


def _save(
    model: nn.Module, best: Weights, optimizer: Optimizer, folder: Path, history: History
) -> None:
    """Write all that :func:`_resume` needs, a tensor as "model/NAME", "best/NAME" or "NUMBER/NAME".

    The number is a parameter's, as the optimiser's state numbers them ("0/exp_avg").
    """
    moments: dict[int, Weights] = optimizer.state_dict()["state"]
    groups = {"model": _weights(model), "best": best, **{str(i): m for i, m in moments.items()}}
    tensors = {f"{group}/{name}": t for group in groups for name, t in groups[group].items()}
    write_bytes(folder / _LAST, save(tensors, {"history": json.dumps(history)}))
    write_json(folder / "history.json", history, indent=1)


def _resume(model: nn.Module, optimizer: Optimizer, folder: Path) -> tuple[History, Weights]:
    """Load a stopped run into ``model`` and ``optimizer``; return its history and best weights.

    Returns ``([], {})`` where no run was stopped. Raises ``UserError`` for a damaged run, or another
    model's.
    """
    last = folder / _LAST
    if not last.exists():
        return [], {}
    groups: dict[str, Weights] = {}
    what = f"'{last}' is damaged, or of another model"
    fix = "name another run, or remove the folder: the training begins anew"
    kinds = (SafetensorError, OSError, ValueError, KeyError, RuntimeError)
    with user_error_context(what, fix, kinds), safe_open(last, "pt") as file:
        history: History = parse_json((file.metadata() or {})["history"])
        for key in file.keys():  # noqa: SIM118 - no mapping
            group, _, name = key.partition("/")
            groups.setdefault(group, {})[name] = file.get_tensor(key)
        weights, best = groups.pop("model", {}), groups.pop("best", {})
        moments = {int(number): tensors for number, tensors in groups.items()}
        model.load_state_dict(weights)
        optimizer.load_state_dict({**optimizer.state_dict(), "state": moments})
    return history, best


def file_hashes(*files: str | Path) -> dict[str, str]:
    """Return the SHA-256 of each file that is named ("" is none), by its path."""
    return {public_path(str(file)): sha256(Path(file)) for file in files if str(file)}


class TrainingRun(RunDirectory):
    """A trainer's run directory, which ends with a checkpoint and a summary; it seeds torch.

    ``data`` identifies what is learned from, mostly by hashes. A run of other settings or data is
    refused.
    """

    def __init__(self, settings: Settings, data: Mapping[str, object]) -> None:
        self._checkpoint = settings.checkpoint
        self._facts = {"settings": public_config(settings.model_dump()), "data": data}
        super().__init__(settings.run, {**provenance(), **self._facts})
        torch.manual_seed(settings.seed)

    def finish(
        self,
        kind: str,
        architecture: Mapping[str, Any],
        tensors: Mapping[str, Tensor],
        rows: Sequence[Mapping[str, object]],
        facts: Mapping[str, object],
        half: bool = True,
    ) -> dict[str, Any]:
        """Write the checkpoint, with all ``facts`` of its making, and the summary; return the latter.

        ``rows`` are the figures of both; ``half`` as in ``save_weights``.
        """
        made = {**facts, "metrics": rows, **self._facts, **provenance()}
        meta = {"kind": kind, "architecture": architecture, **made}
        save_weights(self._checkpoint, tensors, meta, half)
        return self.summarise(rows, [])


# Logits: rows are (logit, label, weight) ----------------------------------------------------


def calibrated(rows: Vector) -> tuple[float, float]:
    """Return the scale and the bias that calibrate logits (Platt 1999)."""
    logits, labels, weights = rows.T.astype(np.float64)

    def loss(parameters: Vector) -> float:
        scores = parameters[0] * logits + parameters[1]
        return float(np.average(np.logaddexp(0, scores) - labels * scores, weights=weights))

    scale, bias = minimize(loss, np.array([1.0, 0.0]), method="Nelder-Mead").x
    return float(scale), float(bias)


def area_under_curve(rows: Vector) -> float:
    """Return the weighted area under the ROC curve; a label of .5 and more is positive."""
    _, labels, weights = rows[np.argsort(-rows[:, 0], kind="stable")].T
    positive, negative = weights * (labels >= 0.5), weights * (labels < 0.5)
    total = positive.sum() * negative.sum()
    return float((negative * np.cumsum(positive)).sum() / total) if total else float("nan")
