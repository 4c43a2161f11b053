"""Train gates: which earlier steps a decision needs; the state model stays frozen.

    stategate train gates --config gates_alfworld
    stategate train gates --config gates_alfworld --set state= --set checkpoint=… --set run=…

What is needed is found out, not guessed: at each recorded decision an actor reads the whole past,
then none of it. Where it would do something else, the steps that bring its decision back are the
needed ones: the latest that does so alone (others that would are left out of the loss), else what
remains when steps are taken away, oldest first, for as long as the decision stays. Reported on
held-out episodes: average precision over earlier steps, and how often all that was needed is shown
(and how much more) at one half.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.nn.utils.rnn import pad_sequence
from torch.optim import Optimizer
from tqdm import tqdm

from nodes.build_context.gates import FACTS, facts_of, make_gates, texts_of
from nodes.build_context.needed import LEFT_OUT, needed
from nodes.protocols import Actor
from nodes.registry import registry
from nodes.update_state.learned import load_model
from stores.assets.weights import require_match, save_weights
from stores.errors import UserError
from stores.runs import mean, standard_error
from stores.traces.trajectories import Trajectory
from trainers.episodes import Readers, decisions_of, read_sides, resources_of
from trainers.fitting import Figures, descend, fit, pick_device
from trainers.settings import GatesSettings, open_run, result
from trainers.state.data import TextTable, batches, sequence


@dataclass(frozen=True)
class Moments:
    """Decisions with a past.

    ``readouts`` (n, d), ``texts`` (n, m, 2) rows of the text table, ``facts`` (n, m, k), ``labels``
    (n, m): 1 needed, 0 not, -1 left out; padded with -1 rows behind.
    """

    readouts: Tensor
    texts: Tensor
    facts: Tensor
    labels: Tensor
    episodes: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.labels)


def moments(
    trajectories: Sequence[Trajectory], readers: Readers, actor: Actor, table: TextTable, name: str
) -> list[list[tuple[Tensor, Tensor, Tensor]]]:
    """Return for each episode, for each decision: (texts (m, 2), facts (m, k), labels (m,))."""
    reader = readers.draw(random.Random(0))
    found = []
    for trajectory in tqdm(trajectories, desc=name, unit="episode", disable=None):
        pages = decisions_of(trajectory)
        walk = readers.start(reader, trajectory.instruction)
        own = []
        for step, (page, action) in enumerate(pages):
            request = walk.request(page)
            past = [chunk for chunk in request.source.all() if chunk.role == "past"]
            rows = [[table.add(a), table.add(b)] for a, b in texts_of(request, past)]
            own.append(
                (
                    torch.tensor(rows, dtype=torch.long).reshape(len(past), 2),
                    torch.from_numpy(facts_of(request, past)),
                    torch.tensor(needed(actor, request, step)),
                )
            )
            walk.took(page, action, pages[min(step + 1, len(pages) - 1)][0])
        found.append(own)
    return found


def train(settings: GatesSettings) -> dict[str, Any]:
    """Train, report, write the checkpoint; return the summary."""
    device = pick_device(settings.device)
    sides = read_sides(settings)
    resources = resources_of(settings, sides)
    embedder, view = resources.embedder, resources.view
    model, state = load_model(settings.state) if settings.state else (None, {})
    if model is not None:
        require_match(settings.state, state, "embedder", embedder.name, "set its embedder")
    run = open_run(settings)
    readers = Readers({"full": 1.0}, resources, 4000, 4000, settings.memory)
    actor: Actor = registry().parse("actor", settings.actor).build(resources)
    table = TextTable()
    names = ("train", "validation", "heldout")
    told = [
        moments(side, readers, actor, table, name) for side, name in zip(sides, names, strict=True)
    ]
    sets = [[sequence(t, table, view) for t in side] for side in sides]
    table.embed(embedder)
    d_state = model.d_state if model is not None else 8
    data: list[Moments] = []
    for episodes, of in zip(sets, told, strict=True):
        readouts: dict[int, Tensor] = {}
        if model is not None:
            with torch.inference_mode():
                for batch in batches(episodes, table, 64, device):
                    states = model(batch.texts, batch.types)
                    for i, episode in enumerate(batch.episodes):
                        readouts[id(episode)] = states[i, list(episode.places)].cpu()
        parts = [
            (readouts[id(e)][j].clone() if e_known else torch.zeros(d_state), *moment, number)
            for number, (e, own) in enumerate(zip(episodes, of, strict=True))
            for e_known in [id(e) in readouts]
            for j, moment in enumerate(own)
            if len(moment[2])
        ]
        if not parts:
            continue
        state_rows, texts, facts, labels, numbers = zip(*parts, strict=True)
        data.append(
            Moments(
                torch.stack(state_rows),
                pad_sequence(list(texts), batch_first=True, padding_value=-1),
                pad_sequence(list(facts), batch_first=True),
                pad_sequence(list(labels), batch_first=True, padding_value=LEFT_OUT),
                numbers,
            )
        )
    if len(data) < 2 or not (data[0].labels > 0).any():
        raise UserError(f"'{settings.data}': nothing of the past was needed in these episodes")
    torch.manual_seed(settings.seed)
    sizes = {"d_state": d_state, "d_text": embedder.dimension, "facts": len(FACTS)}
    network = make_gates(**sizes).to(device)
    generator = Generator().manual_seed(settings.seed)
    chosen = torch.randint(len(data[0]), (len(network.others),), generator=generator)  # type: ignore[arg-type]
    network.others.copy_(data[0].readouts[chosen])  # type: ignore[operator]
    positive = (data[0].labels > 0).float().sum()
    weight = ((data[0].labels == 0).float().sum() / positive).sqrt()

    def logits(part: Moments, rows: Tensor) -> Tensor:
        vectors = table.vectors[part.texts[rows].clamp_min(0)].flatten(-2)
        found: Tensor = network(
            part.readouts[rows].to(device), vectors.to(device), part.facts[rows].to(device)
        )
        return found

    def train_epoch(optimizer: Optimizer, generator: Generator) -> Iterator[Figures]:
        order = torch.randperm(len(data[0]), generator=generator)
        for rows in torch.split(order, settings.batch):
            labels = data[0].labels[rows].to(device)
            counted = labels >= 0
            if not counted.any():
                continue
            scores = logits(data[0], rows)
            loss = binary_cross_entropy_with_logits(
                scores[counted], labels[counted], pos_weight=weight
            )
            yield {"train_loss": descend(network, loss, optimizer)}

    def judged(part: Moments) -> dict[str, list[float]]:
        with torch.inference_mode():
            scores = torch.cat(
                [logits(part, rows) for rows in torch.split(torch.arange(len(part)), 256)]
            )
        shown = (scores > 0) & (part.texts[..., 0] >= 0)
        needs = part.labels > 0
        asked = needs.any(-1)
        return {
            "precision": [_average_precision(scores[part.labels >= 0], needs[part.labels >= 0])],
            "all_shown": (shown | ~needs).all(-1)[asked].float().tolist(),
            "shown": shown.sum(-1).float().tolist(),
            "needed": asked.float().tolist(),
        }

    def validate() -> dict[str, float]:
        found = judged(data[1])
        return {"average_precision": found["precision"][0], "all_shown": mean(found["all_shown"])}

    history = fit(network, settings, "average_precision", train_epoch, validate)
    found = judged(data[-1])
    row: dict[str, Any] = {"agent": "gates", "n": len(set(data[-1].episodes))}
    row |= {"decisions": len(data[-1]), "average_precision": found["precision"][0]}
    for key in ("all_shown", "shown", "needed"):
        row |= {key: mean(found[key]), f"{key}_se": standard_error(found[key])}
    meta = {"kind": "gates", "architecture": sizes, "embedder": embedder.name, "world": view.name}
    if model is not None:
        meta |= {"state_sha256": state["sha256"], "state": state["architecture"]["kind"]}
        meta |= {"state_name": settings.state.rpartition("/")[2]}
    meta |= result(settings, len(history) - 1, row)
    save_weights(settings.checkpoint, network.state_dict(), meta)
    return run.summarise([row], [])


def _average_precision(scores: Tensor, needs: Tensor) -> float:
    from sklearn.metrics import average_precision_score

    return float(average_precision_score(needs.cpu().numpy(), scores.cpu().numpy()))
