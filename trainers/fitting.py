"""The loop that all trainers share: epochs, early stopping, resuming, learning curves.

The run directory holds ``last.safetensors`` (weights, optimiser and history: one file, so that a kill
leaves an epoch done or not done), ``history.json`` (the same history, a row an epoch, to read),
``best.safetensors`` and ``curves.png``. Each epoch draws from its own seed, so a run
that was stopped and resumed ends in the same weights as one that was not.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.optim import Optimizer
from tqdm import tqdm

from stategate.stores.errors import UserError, describe_error
from stategate.stores.files import parse_json, write_bytes, write_json
from stategate.stores.plots import new_plot, save_plot
from stategate.stores.runs import mean
from stategate.trainers.settings import Settings

#: One row of figures an epoch, by name.
History = list[dict[str, Any]]
#: Figures by name.
Figures = Mapping[str, float]
#: Under which name the weights' file has the history.
_HISTORY = "history"


def pick_device(wanted: str) -> torch.device:
    """Return the device: ``auto`` is the GPU if there is one. Raises ``UserError``."""
    if wanted == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if wanted.startswith("cuda") and not torch.cuda.is_available():
        raise UserError("device cuda was asked for, but there is no GPU: set device=cpu")
    return torch.device(wanted)


def fit(
    model: nn.Module,
    settings: Settings,
    metric: str,
    train_epoch: Callable[[Optimizer, Generator], Iterator[Figures]],
    validate: Callable[[], Figures],
    weight_decay: float = 0.01,
) -> History:
    """Train ``model`` to its best ``metric`` (higher is better) on validation; load that in.

    ``train_epoch`` yields figures, of which the epoch's row has the means; the first row is made
    before any training (epoch 0), so curves show what training added.
    """
    folder = Path(settings.run)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=settings.learning_rate, weight_decay=weight_decay)
    history = _resume(model, optimizer, folder)
    if not history:
        model.eval()
        history = [{"epoch": 0, **validate()}]
        _keep(model, optimizer, folder, history, is_best=True)
    write_json(folder / "history.json", history, indent=1)  # a kill may have kept it from that
    with tqdm(
        total=settings.epochs, initial=history[-1]["epoch"], unit="epoch", disable=None
    ) as bar:
        while (
            history[-1]["epoch"] < settings.epochs and _waited(history, metric) < settings.patience
        ):
            epoch = history[-1]["epoch"] + 1
            decay = 0.5 * (1 + math.cos(math.pi * (epoch - 1) / settings.epochs))
            for group in optimizer.param_groups:  # from the epoch alone, so that it resumes
                group["lr"] = settings.learning_rate * decay
            torch.manual_seed(settings.seed * 100_003 + epoch)
            generator = Generator().manual_seed(settings.seed * 100_003 + epoch)
            model.train()
            figures: dict[str, list[float]] = {}
            for step in train_epoch(optimizer, generator):
                for name, value in step.items():
                    figures.setdefault(name, []).append(value)
            model.eval()
            row: dict[str, Any] = {"epoch": epoch, **{n: mean(v) for n, v in figures.items()}}
            row |= validate()
            history.append(row)
            is_best = row[metric] >= max(r[metric] for r in history)
            _keep(model, optimizer, folder, history, is_best)
            bar.set_postfix({metric: f"{row[metric]:.4f}"})
            bar.update()
    from safetensors.torch import load_file

    model.load_state_dict(load_file(folder / "best.safetensors"))
    model.eval()
    plot_history(history, folder / "curves.png", metric)
    return history


def descend(
    model: nn.Module, loss: Tensor, optimizer: Optimizer, clip: float | None = 1.0
) -> float:
    """Take one step down the gradient of ``loss``, clipped to the norm ``clip``; return the loss."""
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    if clip is not None:
        nn.utils.clip_grad_norm_(model.parameters(), clip)
    optimizer.step()
    return loss.item()


def plot_history(history: History, path: Path, metric: str) -> None:
    """Draw every figure of ``history`` over the epochs, losses apart from the rest."""
    figure, axes = new_plot(1, 2, figsize=(9, 3.2), layout="constrained")
    for name in dict.fromkeys(key for row in history for key in row if key != "epoch"):
        points = [(row["epoch"], row[name]) for row in history if name in row]
        axes[int("loss" not in name)].plot(*zip(*points, strict=True), marker=".", label=name)
    for axis, title in zip(axes, ("loss", metric), strict=True):
        axis.set(xlabel="epoch", title=title)
        axis.grid(alpha=0.3)
        axis.legend(fontsize=8)
    save_plot(figure, path)


def _waited(history: History, metric: str) -> int:
    best = max(range(len(history)), key=lambda i: (history[i][metric], i))
    return len(history) - 1 - best


def _keep(
    model: nn.Module, optimizer: Optimizer, folder: Path, history: History, is_best: bool
) -> None:
    from safetensors.torch import save

    weights = {k: t.detach().cpu().contiguous().clone() for k, t in model.state_dict().items()}
    state: dict[str, Tensor] = {f"model/{name}": t for name, t in weights.items()}
    for i, values in optimizer.state_dict()["state"].items():
        state |= {f"optimizer/{i}/{k}": v.detach().cpu().clone() for k, v in values.items()}
    # ``last`` is what counts: an epoch that was killed before it is done again, to the same weights.
    files = ({"best.safetensors": weights} if is_best else {}) | {"last.safetensors": state}
    for name, tensors in files.items():
        write_bytes(folder / name, save(tensors, {_HISTORY: json.dumps(history)}))
    write_json(folder / "history.json", history, indent=1)


def _resume(model: nn.Module, optimizer: Optimizer, folder: Path) -> History:
    """Load what a stopped run left, if its weights fit; return its history ([] if none)."""
    from safetensors import SafetensorError, safe_open

    last = folder / "last.safetensors"
    if not last.exists():
        return []
    try:
        with safe_open(last, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
            history: History = parse_json((file.metadata() or {})[_HISTORY])
    except (SafetensorError, OSError, ValueError, KeyError) as error:
        raise UserError(
            f"'{last}' is damaged ({describe_error(error)}): "
            "remove the folder, the training begins anew"
        ) from None
    moments: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        if name.startswith("optimizer/"):
            _, i, key = name.split("/")
            moments.setdefault(int(i), {})[key] = tensor
    weights = {k.removeprefix("model/"): t for k, t in tensors.items() if k.startswith("model/")}
    try:
        model.load_state_dict(weights)
        groups = optimizer.state_dict()["param_groups"]
        optimizer.load_state_dict({"state": moments, "param_groups": groups})
    except (RuntimeError, ValueError):
        raise UserError(
            f"'{folder}' holds another model's training: name another run, or remove the folder"
        ) from None
    return history
