"""Train ``need``: which parts of a thread's results later turns will need.

It fits to recorded threads and made-up tasks, and reports on held-out tasks: the run directory gets
``held-out``, a checkpoint that saw no task of ``held-out.jsonl``.
"""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from langchain_core.messages import BaseMessage, ToolMessage, messages_to_dict
from numpy.typing import NDArray
from torch import Generator, Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from stategate.envs.messages.history import bounded, text_of, tool_of, tools_called
from stategate.envs.messages.needs import PartKey, calls_in, needed_parts
from stategate.graph.exported import Thread, read_threads
from stategate.nodes.build_context.messages.features import (
    BUCKETS,
    FEATURES,
    KEY_WORDS,
    ThreadFacts,
    features,
    hashes,
    parts_of,
)
from stategate.nodes.build_context.messages.need import (
    KIND,
    MESSAGE_WORDS,
    message_words,
    padded,
)
from stategate.nodes.protocols import Vector
from stategate.stores.errors import UserError
from stategate.stores.files import write_lines
from stategate.trainers.settings import NeedSettings
from stategate.trainers.trainer import (
    Figures,
    Trainer,
    TrainingRun,
    area_under_curve,
    calibrated,
    shuffled,
)

#: Threads of 33 made-up services by three writers: long results, values needed late.
MADE_UP = sorted((Path(__file__).parent / "data").glob("made-up*.jsonl.gz"))

# Labels

Indices = NDArray[np.int64]
_MAX_NEGATIVES = 20  # parts of one result, sampled of those that no later turn needs
_MAX_DECISIONS = 8  # of one thread, so that long threads do not outweigh others
_VALIDATION_FOLDS = 8  # one task in so many chooses the epoch
_TEST_FOLDS = 4  # one task in so many is held out


@dataclass(frozen=True)
class LabelledThread:
    """A thread's messages as hashed words, and a row for each part of a result at each decision.

    ``decision`` counts the messages before it; ``weight`` makes up for parts that are not sampled.
    ``source`` is the data set; no split parts its threads of one task.
    """

    source: str
    thread: Thread
    words: tuple[tuple[int, ...], ...]
    decision: Indices
    features: Vector
    keys: Indices
    tools: Indices
    label: Vector
    weight: Vector


def labelled(source: str, thread: Thread, seed: int = 0) -> LabelledThread | None:
    """Label each part by whether a later turn needs it; None for a thread without such a turn.

    A part that shares a needed value with others gets its share of the label.
    """
    messages = thread.messages
    rng = random.Random(f"{seed}-{source}-{thread.id}")
    needs, tools = needed_parts(messages, True), tools_called(messages)
    turns = [turn for turn in calls_in(messages) if _results(messages[:turn])]
    matrices: list[Vector] = []
    rows: list[tuple[int, tuple[int, ...], tuple[int, ...], float, float]] = []
    for turn in sorted(rng.sample(turns, min(len(turns), _MAX_DECISIONS))):
        facts = ThreadFacts.of(messages[:turn])
        labels: dict[PartKey, float] = {}
        for later, _, holders in needs:
            for holder in holders if later >= turn else ():
                labels[holder] = labels.get(holder, 0.0) + 1 / len(holders)
        for age, place in enumerate(reversed(_results(messages[:turn]))):
            parts = parts_of(bounded(text_of(messages[place])))
            positive = [k for k in range(len(parts)) if (place, k) in labels]
            others = sorted(set(range(len(parts))) - set(positive))
            sampled = rng.sample(others, min(len(others), _MAX_NEGATIVES))
            matrices.append(features(parts, facts, age)[[*positive, *sampled]])
            tool = hashes("t", [tool_of(messages[place], tools)], 6)
            share = len(others) / max(len(sampled), 1)
            for k in (*positive, *sampled):
                label = min(labels.get((place, k), 0.0), 1.0)
                rows.append((turn, parts[k].keys, tool, label, share if k in sampled else 1.0))
    if not rows:
        return None
    decisions, keys, tool_words, targets, weights = zip(*rows, strict=True)
    return LabelledThread(
        source,
        thread,
        tuple(message_words(message, tools) for message in messages),
        np.asarray(decisions),
        np.concatenate(matrices),
        padded(keys, KEY_WORDS),
        padded(tool_words, 6),
        np.asarray(targets, dtype=np.float32),
        np.asarray(weights, dtype=np.float32) ** 0.5,
    )


def _results(messages: Sequence[BaseMessage]) -> list[int]:
    return [i for i, message in enumerate(messages) if isinstance(message, ToolMessage)]


# The network

_D_WORD, _D_STATE, _D_HIDDEN = 16, 24, 64
_UNKNOWN = 0.6  # share of the words that training hides: another agent's tools have other names


class NeedNetwork(nn.Module):
    """Hashed words, a GRU over messages, and a scorer of parts; ``NeedScorer`` is the same in NumPy."""

    def __init__(self, center: Tensor, scale: Tensor) -> None:
        super().__init__()
        self.words = nn.EmbeddingBag(BUCKETS, _D_WORD, mode="mean", padding_idx=0)
        nn.init.normal_(self.words.weight, std=0.3)
        self.reader = nn.GRU(_D_WORD, _D_STATE)
        self.query = nn.Parameter(torch.randn(_D_STATE, 2 * _D_WORD) * 0.1)
        self.hidden = nn.Linear(FEATURES + 2 * _D_WORD + 2 + _D_STATE, _D_HIDDEN)
        self.out = nn.Linear(_D_HIDDEN, 1)
        self.drop = nn.Dropout(0.2)
        self.center: Tensor
        self.scale: Tensor
        self.register_buffer("center", center)
        self.register_buffer("scale", scale)

    def forward(self, thread: LabelledThread) -> Tensor:
        """Return the logit of each row of ``thread``."""
        words = self.words(self._known(padded(thread.words, MESSAGE_WORDS)))
        # Before each message and after the last: (messages + 1, d_state).
        states = torch.cat([torch.zeros(1, _D_STATE), self.reader(words)[0]])
        state = states[torch.from_numpy(thread.decision)]
        key = self.words(self._known(thread.keys))
        tool = self.words(self._known(thread.tools))
        query = state @ self.query
        matches = [(key * query[:, :_D_WORD]).sum(1), (tool * query[:, _D_WORD:]).sum(1)]
        inputs = (torch.from_numpy(thread.features) - self.center) / self.scale
        joined = torch.cat([inputs, key, tool, torch.stack(matches, 1), state], 1)
        logits: Tensor = self.out(self.drop(torch.relu(self.hidden(self.drop(joined))))).squeeze(1)
        return logits

    def _known(self, rows: Indices) -> Tensor:
        """Return rows of hashed words; in training some of them are hidden."""
        words = torch.from_numpy(rows)
        return words.masked_fill(torch.rand(words.shape) < _UNKNOWN * self.training, 0)

    def arrays(self, calibration: tuple[float, float]) -> dict[str, Tensor]:
        """Return the weights under the names that ``NeedScorer`` reads."""
        gru = dict(self.reader.named_parameters())
        return {
            "words": self.words.weight,
            "state.input": gru["weight_ih_l0"],
            "state.input_bias": gru["bias_ih_l0"],
            "state.recurrent": gru["weight_hh_l0"].T,
            "state.recurrent_bias": gru["bias_hh_l0"],
            "query": self.query,
            "hidden.weight": self.hidden.weight,
            "hidden.bias": self.hidden.bias,
            "out.weight": self.out.weight,
            "out.bias": self.out.bias,
            "center": self.center,
            "scale": self.scale,
            "calibration": torch.tensor(calibration),
        }


@torch.no_grad()
def scored(network: NeedNetwork, threads: Sequence[LabelledThread]) -> Vector:
    """Return rows (logit, label, weight), one for each row of ``threads``."""
    rows = []
    for thread in threads:
        logits = network(thread).numpy()
        rows.append(np.stack([logits, thread.label, thread.weight**2], axis=1))
    return np.concatenate(rows)


# Training


def fit(examples: Sequence[LabelledThread], settings: NeedSettings) -> NeedNetwork:
    """Return the network fitted to examples, the best epoch chosen on some of their tasks.

    The loss is the weighted cross-entropy of a thread's rows; every source counts alike.
    """
    torch.manual_seed(settings.seed)
    validation, others = _split(examples, _VALIDATION_FOLDS)
    training = others or validation
    sizes = Counter(example.source for example in examples)
    rows = np.concatenate([example.features for example in training])
    center, spread = rows.mean(0), rows.std(0)
    scale = np.where(spread > 1e-3, spread, 1.0).astype(np.float32)
    network = NeedNetwork(torch.from_numpy(center), torch.from_numpy(scale))

    def batches(generator: Generator) -> Iterator[Sequence[LabelledThread]]:
        return shuffled(training, settings.batch, generator)

    def loss(batch: Sequence[LabelledThread]) -> Tensor:
        losses = []
        for thread in batch:
            logits = network(thread)
            target, weight = torch.from_numpy(thread.label), torch.from_numpy(thread.weight)
            each = binary_cross_entropy_with_logits(logits, target, reduction="none")
            share = len(examples) / len(sizes) / sizes[thread.source]
            losses.append(share * (each * weight).sum() / weight.sum())
        return torch.stack(losses).mean()

    @torch.inference_mode()
    def metric() -> Figures:
        return {"held_likelihood": -float(loss(validation))}

    Trainer(batches, network, loss, metric).fit(settings)
    return network


def train(settings: NeedSettings) -> dict[str, Any]:
    """Train, report on tasks held out, write the checkpoint; return the summary."""
    folder, data = Path(settings.run), {"threads": [Path(path).name for path in settings.threads]}
    paths = {"run": str(folder / "fits" / "held-out"), "checkpoint": str(folder / "held-out")}
    test_settings = settings.model_copy(update=paths)
    run, test_run = TrainingRun(settings, data), TrainingRun(test_settings, data)
    examples = _examples(settings)
    heldout, training = _split(examples, _TEST_FOLDS)
    network = fit(training, test_settings)
    sources = sorted({e.source for e in heldout})
    rows = {s: scored(network, [e for e in heldout if e.source == s]) for s in sources}
    calibration = calibrated(np.concatenate([*rows.values()]))
    table = [
        {"agent": f"{source}, other tasks", "n": len(part), "auc": area_under_curve(part)}
        for source, part in rows.items()
    ]
    test_run.finish(KIND, {}, network.arrays(calibration), table, {})
    write_lines(
        folder / "held-out.jsonl",
        (
            {
                "id": f"{e.source}-{e.thread.id}",
                "task": e.thread.task,
                "messages": messages_to_dict(e.thread.messages),
            }
            for e in heldout
        ),
    )
    final = fit(examples, settings.model_copy(update={"run": str(folder / "fits" / "all")}))
    return run.finish(KIND, {}, final.arrays(calibration), table, {})


def _examples(settings: NeedSettings) -> list[LabelledThread]:
    """Return the labelled threads of the files and of the made-up tasks."""
    examples: list[LabelledThread] = []
    for path in (*settings.threads, *map(str, MADE_UP)):
        source = Path(path).name.split(".")[0]
        threads = [labelled(source, thread, settings.seed) for thread in read_threads(path)]
        if not any(threads):
            raise UserError(f"'{path}' teaches nothing: no call follows a tool's result")
        examples += filter(None, threads)
    return examples


def _split(
    examples: Sequence[LabelledThread], count: int
) -> tuple[list[LabelledThread], list[LabelledThread]]:
    """Return (one of ``count`` folds, the others); folds take each source's tasks in turn."""
    tasks = dict.fromkeys((e.source, e.thread.task) for e in examples)
    first = {
        task
        for source in {e.source for e in examples}
        for task in [task for task in tasks if task[0] == source][::count]
    }
    return (
        [e for e in examples if (e.source, e.thread.task) in first],
        [e for e in examples if (e.source, e.thread.task) not in first],
    )
