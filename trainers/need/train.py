"""Train ``need``: fit on recorded threads and made-up tasks, report on tasks and sets held out.

The run directory gets ``fold-N`` (a checkpoint that saw no task of ``fold-N.jsonl``), ``without-SET``.
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
from stategate.stores.assets.weights import save_weights
from stategate.stores.errors import UserError
from stategate.stores.files import write_text
from stategate.stores.runs import provenance
from stategate.trainers.need.labels import LabelledThread, labelled
from stategate.trainers.need.model import (
    NeedNetwork,
    area_under_curve,
    calibrate,
    fit,
    predict,
)
from stategate.trainers.need.tool_tasks import tool_tasks
from stategate.trainers.settings import NeedSettings, files_of, open_run

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


@dataclass(frozen=True)
class Scored:
    """Logits of threads that a network had not seen, with their labels and weights."""

    logits: Vector
    labels: Vector
    weights: Vector


def train(settings: NeedSettings) -> dict[str, Any]:
    """Train, report what carries over, write the checkpoint; return the summary."""
    hashes = {"threads": [Path(path).name for path in files_of(settings.threads)]}
    run = open_run(settings, {"data": hashes})
    examples = _examples(settings)
    folder = Path(settings.run)
    folds = _folds(examples, settings.folds)
    networks: list[NeedNetwork] = []
    outside: dict[str, list[Scored]] = {}
    other: dict[str, list[Scored]] = {}
    for number in range(settings.folds):
        own = [e for e, fold in zip(examples, folds, strict=True) if fold == number]
        training = [e for e, fold in zip(examples, folds, strict=True) if fold != number]
        network = _fitted(training, settings, f"fold-{number}")
        for source in {e.source for e in own}:
            test = [e for e in own if e.source == source]
            outside.setdefault(source, []).append(_scored(network, test))
            other.setdefault(source, []).append(_scored(network, test, True))
        networks.append(network)
        _write_threads(folder / f"fold-{number}.jsonl", own)
    every = _joined([one for scored in outside.values() for one in scored])
    calibration = calibrate(every.logits, every.labels, every.weights)
    for number, network in enumerate(networks):
        _save(network, folder / f"fold-{number}", settings, calibration, {})
    rows = [
        _row(f"{source}, other tasks", _joined(scored), calibration)
        for source, scored in outside.items()
    ]
    rows += [
        _row(f"{source}, another thread's state", _joined(scored), calibration)
        for source, scored in other.items()
    ]
    for source in sorted({e.source for e in examples} - {_MADE_UP}):
        others = [e for e in examples if e.source != source]
        network = _fitted(others, settings, f"without-{source}")
        test = [e for e in examples if e.source == source]
        rows.append(_row(f"{source}, left out", _scored(network, test), calibration))
        _save(network, folder / f"without-{source}", settings, calibration, {})
    final = _fitted(examples, settings, "all")
    _save(
        final, Path(settings.checkpoint), settings, calibration, {"metrics": rows, "data": hashes}
    )
    return run.summarise(rows, [])


def _examples(settings: NeedSettings) -> list[Example]:
    """Return the labelled threads of every file, and of the made-up tasks."""
    examples = []
    for path in files_of(settings.threads):
        source = Path(path).name.split(".")[0]
        for name, task, messages in read_threads(path):
            if (thread := labelled(f"{source}-{name}", messages, settings.seed)) is not None:
                examples.append(Example(source, task, name, messages, thread))
    for family, name, messages in tool_tasks(settings.seed, settings.tool_tasks):
        if (thread := labelled(name, messages, settings.seed)) is not None:
            examples.append(Example(_MADE_UP, family, name, messages, thread))
    if not examples:
        raise UserError("there is no thread to learn from: name files with --threads")
    return examples


def _folds(examples: Sequence[Example], count: int) -> list[int]:
    """Return the fold of each example: tasks of one group hang together."""
    groups: dict[str, list[str]] = {}
    for example in examples:
        groups_of_source = groups.setdefault(example.source, [])
        if example.group not in groups_of_source:
            groups_of_source.append(example.group)
    return [groups[e.source].index(e.group) % count for e in examples]


def _fitted(examples: Sequence[Example], settings: NeedSettings, name: str) -> NeedNetwork:
    """Fit to examples, some tasks of which choose the best epoch; every set counts alike."""
    sizes = Counter(example.source for example in examples)
    weighed = [(e.thread, len(examples) / len(sizes) / sizes[e.source]) for e in examples]
    folds = _folds(examples, _CHOOSING)
    validation = [one for one, fold in zip(weighed, folds, strict=True) if not fold]
    training = [one for one, fold in zip(weighed, folds, strict=True) if fold]
    return fit(training or weighed, validation, settings, Path(settings.run) / "fits" / name)


def _scored(network: NeedNetwork, examples: Sequence[Example], is_mixed_up: bool = False) -> Scored:
    """Return the logits of examples; ``is_mixed_up``: each with the state of the next one."""
    threads = [e.thread for e in examples]
    others = [*threads[1:], threads[0]]
    return _joined(
        [
            Scored(predict(network, t, o if is_mixed_up else None), t.label, t.weight**2)
            for t, o in zip(threads, others, strict=True)
        ]
    )


def _joined(parts: Sequence[Scored]) -> Scored:
    return Scored(
        np.concatenate([part.logits for part in parts]),
        np.concatenate([part.labels for part in parts]),
        np.concatenate([part.weights for part in parts]),
    )


def _row(name: str, scored: Scored, calibration: tuple[float, float]) -> dict[str, Any]:
    """Return the area under the curve, and how far chances are from what happened (ECE)."""
    scale, shift = calibration
    chances = 1 / (1 + np.exp(-(scale * scored.logits + shift)))
    bins = np.digitize(chances, [0.003, 0.01, 0.03, 0.1, 0.3])
    total = scored.weights.sum()
    gaps = [
        abs(((chances - scored.labels) * scored.weights)[bins == i].sum()) / total for i in range(6)
    ]
    return {
        "agent": name,
        "n": len(scored.labels),
        "auc": area_under_curve(scored.logits, scored.labels, scored.weights),
        "needed": float((scored.labels * scored.weights).sum() / total),
        "calibration_error": float(sum(gaps)),
    }


def _save(
    network: NeedNetwork,
    path: Path,
    settings: NeedSettings,
    calibration: tuple[float, float],
    facts: dict[str, Any],
) -> None:
    architecture = {name: list(array.shape) for name, array in network.arrays(calibration).items()}
    meta = {
        "kind": KIND,
        "architecture": architecture,
        "embedder": None,
        "trained": "cross-entropy: is a part of a result used by a later call or the answer",
        "seed": settings.seed,
        **facts,
        **provenance(),
    }
    save_weights(str(path), network.arrays(calibration), meta)


def _write_threads(path: Path, examples: Sequence[Example]) -> None:
    lines = [
        json.dumps(
            {
                "id": f"{e.source}-{e.name}",
                "task": e.group,
                "messages": messages_to_dict(list(e.messages)),
            }
        )
        for e in examples
    ]
    write_text(path, "\n".join(lines) + "\n")
