"""Train gates: which earlier steps a decision needs; and a state model that knows it.

    stategate train gates --config gates_alfworld
    stategate train gates --config gates_alfworld --set tuned= --set checkpoint=… --set run=…

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
from torch import Generator, Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, dropout
from torch.nn.utils.rnn import pad_sequence
from torch.optim import Optimizer
from tqdm import tqdm

from stategate.nodes.build_context.gates import FACTS, facts_of, make_gates, texts_of
from stategate.nodes.build_context.needed import LEFT_OUT, needed
from stategate.nodes.protocols import Actor
from stategate.nodes.registry import registry
from stategate.nodes.update_state.learned import load_model, make_model
from stategate.stores.assets.weights import require_match, save_weights
from stategate.stores.errors import UserError
from stategate.stores.runs import mean, standard_error
from stategate.stores.traces.trajectories import Trajectory
from stategate.trainers.episodes import Readers, decisions_of, read_sides, resources_of
from stategate.trainers.fitting import Figures, descend, fit, pick_device
from stategate.trainers.settings import GatesSettings, open_run, result
from stategate.trainers.state.data import Batch, Sequenced, TextTable, batches, sequence
from stategate.trainers.state.model import classes_of, truth

#: Of a decision with a past: its place in the episode, texts (m, 2), facts (m, k), labels (m,).
Moment = tuple[int, Tensor, Tensor, Tensor]


@dataclass(frozen=True)
class Moments:
    """Decisions with a past, of a few episodes.

    ``readouts`` (n, d), ``texts`` (n, m, 2) rows of the text table, ``facts`` (n, m, k), ``labels``
    (n, m): 1 needed, 0 not, -1 left out; padded with -1 rows behind.
    """

    readouts: Tensor
    texts: Tensor
    facts: Tensor
    labels: Tensor


def moments(
    trajectories: Sequence[Trajectory], readers: Readers, actor: Actor, table: TextTable, name: str
) -> list[list[Moment]]:
    """Return the moments of each episode."""
    reader = readers.draw(random.Random(0))
    found = []
    for trajectory in tqdm(trajectories, desc=name, unit="episode", disable=None):
        pages = decisions_of(trajectory)
        walk = readers.start(reader, trajectory.instruction)
        own = []
        for step, (page, action) in enumerate(pages):
            request = walk.request(page)
            past = [chunk for chunk in request.source.all() if chunk.role == "past"]
            if past:
                rows = [[table.add(a), table.add(b)] for a, b in texts_of(request, past)]
                facts = torch.from_numpy(facts_of(request, past))
                labels = torch.tensor(needed(actor, request, step))
                own.append((step, torch.tensor(rows, dtype=torch.long), facts, labels))
            walk.took(page, action, pages[min(step + 1, len(pages) - 1)][0])
        found.append(own)
    return found


def train(settings: GatesSettings) -> dict[str, Any]:
    """Train, report, write the checkpoints; return the summary."""
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
    of = {
        id(e): own
        for side, m in zip(sets, told, strict=True)
        for e, own in zip(side, m, strict=True)
    }
    every = [labels for own in told[0] for *_, labels in own]
    known = torch.cat(every) if every else torch.zeros(0)
    if not (known > 0).any():
        raise UserError(f"'{settings.data}': nothing of the past was needed in these episodes")
    torch.manual_seed(settings.seed)
    classes = classes_of({view.name: view}, [e for side in sets for e in side])
    if settings.tuned:
        shape = {"d_event": settings.d_event, "d_state": settings.d_state}
        model = make_model(
            {"kind": "gru", "classes": len(classes), "d_text": embedder.dimension, **shape}
        ).to(device)
    d_state = model.d_state if model is not None else 8
    sizes = {"d_state": d_state, "d_text": embedder.dimension, "facts": len(FACTS)}
    network = make_gates(**sizes).to(device)
    learning = nn.ModuleList([network])
    if settings.tuned and model is not None:
        learning.append(model)
    weight = ((known == 0).float().sum() / (known > 0).float().sum()).sqrt()

    def states_of(batch: Batch) -> Tensor | None:
        """Return the readouts after each input (B, T, d), None without a model."""
        if model is None:
            return None
        if settings.tuned and model.training:
            return model(dropout(batch.texts, settings.drop_inputs), batch.types)  # type: ignore[no-any-return]
        with torch.no_grad():
            return model(batch.texts, batch.types)  # type: ignore[no-any-return]

    def gathered(batch: Batch, states: Tensor | None) -> Moments | None:
        """Return the moments of a batch, None where it has none."""
        parts = [
            (states[i, e.places[step]] if states is not None else torch.zeros(d_state), *rest)
            for i, e in enumerate(batch.episodes)
            for step, *rest in of[id(e)]
        ]
        if not parts:
            return None
        readouts, texts, facts, labels = zip(*parts, strict=True)
        return Moments(
            torch.stack(readouts).to(device),
            pad_sequence(list(texts), batch_first=True, padding_value=-1),
            pad_sequence(list(facts), batch_first=True).to(device),
            pad_sequence(list(labels), batch_first=True, padding_value=LEFT_OUT).to(device),
        )

    def logits(part: Moments) -> Tensor:
        vectors = table.vectors[part.texts.clamp_min(0)].flatten(-2).to(device)
        found: Tensor = network(part.readouts, vectors, part.facts)
        return found

    def train_epoch(optimizer: Optimizer, generator: Generator) -> Iterator[Figures]:
        for batch in batches(sets[0], table, settings.batch, device, generator):
            states = states_of(batch)
            part = gathered(batch, states)
            if part is None or not (part.labels >= 0).any():
                continue
            counted = part.labels >= 0
            loss = binary_cross_entropy_with_logits(
                logits(part)[counted], part.labels[counted], pos_weight=weight
            )
            if settings.tuned and model is not None and states is not None:
                right = torch.cat([torch.from_numpy(truth(e, classes)) for e in batch.episodes])
                guesses = model.classify(states[batch.rows, batch.places])
                loss = loss + settings.foresee * cross_entropy(guesses, right.to(device))
            yield {"train_loss": descend(learning, loss, optimizer)}

    def parts_of(episodes: Sequence[Sequenced]) -> Iterator[Moments]:
        with torch.inference_mode():
            for batch in batches(episodes, table, 64, device):
                if (part := gathered(batch, states_of(batch))) is not None:
                    yield part

    def judged(episodes: Sequence[Sequenced]) -> dict[str, list[float]]:
        figures: dict[str, list[float]] = {k: [] for k in ("all_shown", "shown", "needed")}
        scores, needs = [], []
        for part in parts_of(episodes):
            with torch.inference_mode():
                found = logits(part)
            shown = (found > 0) & (part.texts[..., 0] >= 0).to(device)
            wanted = part.labels > 0
            asked = wanted.any(-1)
            figures["all_shown"] += (shown | ~wanted).all(-1)[asked].float().tolist()
            figures["shown"] += shown.sum(-1).float().tolist()
            figures["needed"] += asked.float().tolist()
            scores += found[part.labels >= 0].tolist()
            needs += wanted[part.labels >= 0].tolist()
        return {"precision": [_average_precision(scores, needs)], **figures}

    def validate() -> dict[str, float]:
        found = judged(sets[1])
        return {"average_precision": found["precision"][0], "all_shown": mean(found["all_shown"])}

    history = fit(learning, settings, "average_precision", train_epoch, validate)
    pool = torch.cat([part.readouts for part in parts_of(sets[0])])
    generator = Generator().manual_seed(settings.seed)
    others: Tensor = network.others  # type: ignore[assignment]
    others.copy_(pool[torch.randint(len(pool), (len(others),), generator=generator)])
    reported = sets[2] or sets[1]
    found = judged(reported)
    row: dict[str, Any] = {"agent": "gates", "n": len(reported), "decisions": len(found["needed"])}
    row["average_precision"] = found["precision"][0]
    for key in ("all_shown", "shown", "needed"):
        row |= {key: mean(found[key]), f"{key}_se": standard_error(found[key])}
    made = result(settings, len(history) - 1, row)
    meta = {"kind": "gates", "architecture": sizes, "embedder": embedder.name, "world": view.name}
    name = settings.tuned or settings.state
    if settings.tuned and model is not None:
        own = {"kind": "state", "architecture": model.architecture, "embedder": embedder.name}
        own |= {"world": view.name, "classes": list(classes)}
        state = {**own, "sha256": save_weights(settings.tuned, model.state_dict(), {**own, **made})}
    if state:
        meta |= {"state_sha256": state["sha256"], "state": state["architecture"]["kind"]}
        meta |= {"state_name": name.rpartition("/")[2]}
    save_weights(settings.checkpoint, network.state_dict(), {**meta, **made})
    return run.summarise([row], [])


def _average_precision(scores: Sequence[float], needs: Sequence[bool]) -> float:
    from sklearn.metrics import average_precision_score

    return float(average_precision_score(needs, scores))
