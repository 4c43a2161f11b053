"""Train ``need``: fit on recorded threads and made-up tasks, report on tasks held out.

The run directory gets ``held-out``, a checkpoint that saw no task of ``held-out.jsonl``.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from langchain_core.messages import BaseMessage, messages_to_dict

from stategate.graph.exported import read_threads
from stategate.nodes.build_context.messages.need import KIND
from stategate.nodes.protocols import Vector
from stategate.stores.errors import UserError
from stategate.stores.files import write_text
from stategate.trainers.need.labels import LabelledThread, labelled
from stategate.trainers.need.model import NeedNetwork, fit, scored
from stategate.trainers.need.tool_tasks import tool_tasks
from stategate.trainers.settings import NeedSettings, open_run, save_checkpoint
from stategate.trainers.trainer import area_under_curve, calibrated

_MADE_UP = "made-up"
_CHOOSING = 8  # one task in so many chooses the epoch


@dataclass(frozen=True)
class Example:
    """A labelled thread, of which set, and what it must not be parted from in a split."""

    source: str
    group: str
    name: str
    messages: Sequence[BaseMessage]
    thread: LabelledThread


def train(settings: NeedSettings) -> dict[str, Any]:
    """Train, report on tasks held out, write the checkpoint; return the summary."""
    data = {"threads": [Path(path).name for path in settings.threads]}
    run = open_run(settings, {"data": data})
    examples, folder = _examples(settings), Path(settings.run)
    held, others = _split(examples, settings.folds)
    fits, apart = f"{settings.run}/fits", str(folder / "held-out")
    aside = settings.model_copy(update={"run": f"{fits}/held-out", "checkpoint": apart})
    network = _fitted(others, aside)
    sources = sorted({e.source for e in held})
    rows = {s: scored(network, [e.thread for e in held if e.source == s]) for s in sources}
    calibration = calibrated(np.concatenate([*rows.values()]))
    table = [_row(f"{source}, other tasks", own, calibration) for source, own in rows.items()]
    _save(network, aside, calibration, {})
    _write_threads(folder / "held-out.jsonl", held)
    final = _fitted(examples, settings.model_copy(update={"run": f"{fits}/all"}))
    _save(final, settings, calibration, {"metrics": table, "data": data})
    return run.summarise(table, [])


def _examples(settings: NeedSettings) -> list[Example]:
    """Return the labelled threads of every file, and of the made-up tasks."""
    threads = [
        (Path(path).name.split(".")[0], task, name, messages)
        for path in settings.threads
        for name, task, messages in read_threads(path)
    ]
    made = tool_tasks(settings.seed, settings.tool_tasks)
    threads += [(_MADE_UP, service, name, messages) for service, name, messages in made]
    examples = [
        Example(source, task, name, messages, thread)
        for source, task, name, messages in threads
        if (thread := labelled(f"{source}-{name}", messages, settings.seed)) is not None
    ]
    if not examples:
        raise UserError("there is no thread to learn from: name files with --threads")
    return examples


def _split(examples: Sequence[Example], count: int) -> tuple[list[Example], list[Example]]:
    """Return one of ``count`` parts, and the others; tasks of a group hang together."""
    groups: dict[str, dict[str, int]] = {}
    for e in examples:
        own = groups.setdefault(e.source, {})
        own.setdefault(e.group, len(own) % count)
    parts: tuple[list[Example], list[Example]] = ([], [])
    for e in examples:
        parts[groups[e.source][e.group] > 0].append(e)
    return parts


def _fitted(examples: Sequence[Example], settings: NeedSettings) -> NeedNetwork:
    """Fit to examples, some tasks of which choose the best epoch; every set counts alike."""
    sizes = Counter(example.source for example in examples)
    validation, training = (
        [(e.thread, len(examples) / len(sizes) / sizes[e.source]) for e in side]
        for side in _split(examples, _CHOOSING)
    )
    return fit(training or validation, validation, settings)


def _row(name: str, rows: Vector, calibration: tuple[float, float]) -> dict[str, Any]:
    """Return the area under the curve, and how far chances are from what happened (ECE)."""
    scale, shift = calibration
    logits, labels, weights = rows.T
    chances = 1 / (1 + np.exp(-(scale * logits + shift)))
    bins = np.digitize(chances, [0.003, 0.01, 0.03, 0.1, 0.3])
    gaps = [abs(((chances - labels) * weights)[bins == i].sum()) for i in range(6)]
    return {
        "agent": name,
        "n": len(rows),
        "auc": area_under_curve(rows),
        "needed": float((labels * weights).sum() / weights.sum()),
        "calibration_error": float(sum(gaps) / weights.sum()),
    }


def _save(
    network: NeedNetwork,
    settings: NeedSettings,
    calibration: tuple[float, float],
    facts: dict[str, Any],
) -> None:
    arrays = network.arrays(calibration)
    shapes = {name: list(array.shape) for name, array in arrays.items()}
    trained = "cross-entropy: is a part of a result used by a later call or the answer"
    save_checkpoint(settings, KIND, shapes, arrays, trained=trained, **facts)


def _write_threads(path: Path, examples: Sequence[Example]) -> None:
    rows = [
        {"id": f"{e.source}-{e.name}", "task": e.group, "messages": messages_to_dict([*e.messages])}
        for e in examples
    ]
    write_text(path, "".join(f"{json.dumps(row)}\n" for row in rows))
