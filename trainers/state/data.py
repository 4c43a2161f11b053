"""Trajectories as tensors: inputs of a state model, and what it knew where decisions were made."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from stategate.envs.protocols import Observation, View
from stategate.nodes.build_context.heads import done_in
from stategate.nodes.protocols import Embedder
from stategate.nodes.retrieval.align import match
from stategate.nodes.retrieval.page import describe
from stategate.nodes.update_state.learned import load_model, type_of
from stategate.nodes.update_state.state_models import StateModel
from stategate.stores.assets.weights import require_match
from stategate.stores.errors import UserError
from stategate.stores.progress import Progress
from stategate.stores.runs import RunDirectory
from stategate.stores.traces import Event
from stategate.stores.traces.trajectories import Trajectory
from stategate.trainers.episodes import embedder_of, group_of, read_sides, views_of
from stategate.trainers.settings import RetrieverSettings, open_run
from stategate.trainers.trainer import pick_device

T = TypeVar("T")


@dataclass(frozen=True)
class Sequenced:
    """One episode: inputs (rows of the text table, types), and where decisions were made.

    ``places[i]`` is the input after which the i-th decision was made (the state has then seen that
    decision's own page, as at inference), ``labels[i]`` its action class, ``pages[i]`` its page,
    ``before[i]`` how many events came before that page, ``choices[i]`` the action itself.
    """

    trajectory: Trajectory
    view: View
    texts: tuple[int, ...]
    types: tuple[int, ...]
    places: tuple[int, ...]
    labels: tuple[str, ...]
    pages: tuple[Observation, ...]
    before: tuple[int, ...]
    choices: tuple[str, ...]


class TextTable:
    """Every text of a data set once, with its embedding (float32, (n, d))."""

    def __init__(self) -> None:
        self.index: dict[str, int] = {}
        self.vectors = torch.zeros(0, 0)

    def add(self, text: str) -> int:
        """Return the row of ``text``, a new one if need be."""
        return self.index.setdefault(text, len(self.index))

    def embed(self, embedder: Embedder) -> None:
        """Embed the texts that were added since the last time."""
        texts = list(self.index)[len(self.vectors) :]
        rows = [self.vectors] if len(self.vectors) else []
        with Progress(what="embed texts", total=len(texts), unit="text") as bar:
            for start in range(0, len(texts), 64):
                vectors = embedder.embed(texts[start : start + 64])
                rows.append(torch.from_numpy(vectors))
                bar.update(len(vectors))
        self.vectors = torch.cat(rows)


def sequence(trajectory: Trajectory, table: TextTable, view: View) -> Sequenced:
    """Read one trajectory; only decisions on a page that is shown count."""
    texts: list[int] = []
    types: list[int] = []
    decisions: list[tuple[int, str, Observation, int, str]] = []
    page, before = Observation("", ()), 0
    affordances = iter(trajectory.actions)
    waiting: list[Event] = []
    for number, recorded in enumerate(trajectory.events):
        event = Event(recorded.kind, recorded.text, recorded.t, trajectory.instruction)
        if event.kind == "ACT":  # read as the agent reads it: together with the page it leads to
            if page.text:
                label = view.actions.class_of(page.text, event.text)
                decisions.append((len(texts) - 1, label, page, before, event.text))
            waiting.append(event)
            continue
        for row in (row for one in (*waiting, event) for row in view.inputs(one)):
            texts.append(table.add(row.text))
            types.append(type_of(row))
        waiting.clear()
        if event.kind == "OBS":
            page, before = Observation(event.text, next(affordances, ())), number
    columns = zip(*decisions, strict=True) if decisions else [()] * 5
    return Sequenced(trajectory, view, tuple(texts), tuple(types), *(tuple(c) for c in columns))


@dataclass(frozen=True)
class Batch:
    """Padded episodes: ``texts`` (B, T, d), ``types`` (B, T); decisions flat over the batch."""

    texts: Tensor
    types: Tensor
    rows: Tensor
    places: Tensor
    episodes: tuple[Sequenced, ...]


def batches(
    episodes: Sequence[Sequenced],
    table: TextTable,
    size: int,
    device: torch.device,
    generator: torch.Generator | None = None,
) -> Iterator[Batch]:
    """Yield batches, in random order if there is a ``generator``."""
    order = list(range(len(episodes)))
    if generator is not None:
        order = torch.randperm(len(episodes), generator=generator).tolist()
    for start in range(0, len(order), size):
        chosen = tuple(episodes[i] for i in order[start : start + size])
        texts = pad_sequence([table.vectors[list(e.texts)] for e in chosen], batch_first=True)
        types = pad_sequence([torch.tensor(e.types) for e in chosen], batch_first=True)
        rows = torch.tensor([i for i, e in enumerate(chosen) for _ in e.places])
        places = torch.tensor([p for e in chosen for p in e.places])
        yield Batch(texts.to(device), types.to(device), rows.to(device), places.to(device), chosen)


@dataclass(frozen=True)
class Decisions:
    """Decisions as tensors: ``readouts`` (n, d_state), ``wishes`` (n, d_text), ``pages`` (n, m).

    A row of ``pages`` names rows of the text table, the right chunk first, -1 behind; ``features``
    (n, m, k) are what each chunk and the wish have in common (``nodes.retrieval.align``); ``groups``
    are what each decision's episode hangs together with.
    """

    readouts: Tensor
    wishes: Tensor
    pages: Tensor
    features: Tensor
    groups: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.readouts)


#: A decision's number, the chunks' rows with the right one first, their features (m, k).
Choice = tuple[int, list[int], Tensor]


@dataclass(frozen=True)
class Frozen:
    """What the second phase starts from: a trained state model, and what it knew at each decision.

    ``reported`` has a world's decisions by its name.
    """

    device: torch.device
    model: StateModel
    state: dict[str, Any]
    embedder: Embedder
    worlds: tuple[str, ...]
    run: RunDirectory
    table: TextTable
    episodes: tuple[Sequenced, ...]
    fitted: Decisions
    validation: Decisions
    reported: dict[str, Decisions]

    @property
    def facts(self) -> dict[str, Any]:
        """What a checkpoint says of the state model and the world that it was trained for."""
        return {
            "embedder": self.embedder.name,
            "world": ", ".join(self.worlds),
            "state_sha256": self.state["sha256"],
            "state": self.state["architecture"]["kind"],
        }


def freeze(settings: RetrieverSettings) -> Frozen:
    """Read episodes, run the state model over them. Raises ``UserError`` where they hold too little."""
    device = pick_device(settings.device)
    model, state = load_model(settings.state)
    sides = read_sides(settings)
    embedder, view_of = embedder_of(settings), views_of(settings, sides)
    require_match(settings.state, state, "embedder", embedder.name, "set its embedder")
    run = open_run(settings)
    table = TextTable()
    sets = [[sequence(t, table, view_of(t)) for t in side] for side in sides]
    choices = {id(e): choices_of(e, table) for side in sets for e in side}
    for trajectory in (t for side in sides for t in side):
        table.add(trajectory.instruction)
    table.embed(embedder)
    model.to(device)

    def decisions_of(episodes: Sequence[Sequenced]) -> Decisions | None:
        if not any(choices[id(e)] for e in episodes):
            return None
        return _gather(episodes, choices, model, table, device, settings.group)

    fitted, validation = decisions_of(sets[0]), decisions_of(sets[1])
    if fitted is None or validation is None:
        raise UserError(
            f"'{settings.data}' holds no decision on a page whose actions are known, or too few: "
            "record more episodes"
        )
    last = sets[2] if any(choices[id(e)] for e in sets[2]) else sets[1]
    by_world = {
        name: decisions_of([e for e in last if e.view.name == name])
        for name in dict.fromkeys(e.view.name for e in last)
    }
    return Frozen(
        device,
        model,
        state,
        embedder,
        tuple(dict.fromkeys(e.view.name for e in sets[0])),
        run,
        table,
        tuple(episode for side in sets for episode in side),
        fitted,
        validation,
        {name: decisions for name, decisions in by_world.items() if decisions is not None},
    )


def choices_of(episode: Sequenced, table: TextTable) -> list[Choice]:
    """Return each decision for an action that a chunk of its page carries."""
    trajectory, view = episode.trajectory, episode.view
    choices: list[Choice] = []
    for i, (page, action) in enumerate(zip(episode.pages, episode.choices, strict=True)):
        if action not in page.actions:
            continue
        candidates = [c for c in view.chunks(page) if c.role != "frame" and describe(view, c)]
        right = next((j for j, c in enumerate(candidates) if action in c.actions), None)
        if right is None:
            continue
        done = done_in(trajectory.events[: episode.before[i]])
        features = match(view, trajectory.instruction, candidates, done)
        order = [right, *(j for j in range(len(candidates)) if j != right)]
        rows = [table.add(describe(view, candidates[j])) for j in order]
        choices.append((i, rows, torch.from_numpy(features[order])))
    return choices


def _gather(
    episodes: Sequence[Sequenced],
    choices: Mapping[int, list[Choice]],
    model: StateModel,
    table: TextTable,
    device: torch.device,
    group: str,
) -> Decisions:
    """Run the frozen state model over ``episodes`` and keep what was known at each decision."""
    readouts: list[Tensor] = []
    wishes: list[int] = []
    rows: list[list[int]] = []
    features: list[Tensor] = []
    groups: list[str] = []
    with torch.inference_mode():
        for batch in batches(episodes, table, 64, device):
            states = model(batch.texts, batch.types)
            for i, episode in enumerate(batch.episodes):
                for decision, page, matched in choices[id(episode)]:
                    readouts.append(states[i, episode.places[decision]].cpu())
                    wishes.append(table.add(episode.trajectory.instruction))
                    rows.append(page)
                    features.append(matched)
                    groups.append(group_of(episode.trajectory, group))
    width = max(len(page) for page in rows)
    padded = torch.tensor([[*page, *[-1] * (width - len(page))] for page in rows])
    matches = pad_sequence(features, batch_first=True)
    tensors = torch.stack(readouts).clone(), table.vectors[wishes], padded, matches
    return Decisions(*tensors, tuple(groups))


def error_over_groups(
    items: Sequence[T],
    groups: Sequence[str],
    measure: Callable[[Sequence[T]], float],
    draws: int = 200,
) -> float:
    """Return the standard error of ``measure`` of ``items``, whole ``groups`` of them drawn anew."""
    by_group: dict[str, list[T]] = {}
    for item, group in zip(items, groups, strict=True):
        by_group.setdefault(group, []).append(item)
    own, rng = list(by_group.values()), np.random.default_rng(0)
    values = [
        measure([item for j in rng.integers(0, len(own), len(own)) for item in own[j]])
        for _ in range(draws)
    ]
    return float(np.std(values, ddof=1))
