"""Train the learned allocator: how much detail each chunk needs for the expert's next action.

A chunk with a share of the room is read as a mixture of its bare affordances' and its full text's
embeddings (and match features), by how much of its text the share pays for. The frozen retriever reads
the mixtures and must still pick the chunk that the expert acted on, at budgets drawn from 5 to 60 % of
the page: so the weights learn to spend tokens where the choice hangs on them. Reported: how often it
picks the expert's chunk (action sufficiency) with learned and with uniform shares, at fixed budgets.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import cross_entropy, dropout, normalize

from stategate.envs.protocols import Observation
from stategate.nodes.build_context.detail import chunk_ladder
from stategate.nodes.build_context.heads import make_projection, make_weigher
from stategate.nodes.retrieval.align import SEEN_BARE, Focus
from stategate.nodes.retrieval.page import describe, render, text_of
from stategate.stores.assets.weights import load_weights, require_match, save_weights
from stategate.stores.runs import mean, standard_error
from stategate.stores.tokens import count_tokens
from stategate.trainers.settings import AllocatorSettings, result
from stategate.trainers.state.data import Decisions, Frozen, freeze
from stategate.trainers.state.retriever import scored
from stategate.trainers.trainer import Trainer

#: How sharply the frozen reader chooses (inverse temperature of its cosines).
_SHARPNESS = 20.0
_FRACTIONS = (0.1, 0.25, 0.5)
_DIRECT = 0.3  # weight of foreseeing the right chunk
_DROPPED = 0.1  # share of the readout's numbers zeroed


def train(settings: AllocatorSettings) -> dict[str, Any]:
    """Train, report, write the checkpoint; return the summary."""
    tensors, meta = load_weights(settings.retriever, "retriever")
    frozen = freeze(settings)
    fix = "train the retriever again for this state model"
    require_match(settings.retriever, meta, "state_sha256", frozen.state["sha256"], fix)
    device, fitted = frozen.device, frozen.fitted
    retriever = make_projection(**meta["architecture"])
    retriever.load_state_dict(tensors)
    bare, tokens = details(frozen)
    torch.manual_seed(settings.seed)
    sizes = {"d_state": frozen.model.d_state, "d_text": frozen.embedder.dimension}
    weigher = make_weigher(**sizes).to(device)
    reading = Reading(weigher, retriever.to(device).eval(), frozen.table.vectors, bare, tokens)

    def data(generator: Generator) -> Iterator[tuple[Tensor, Tensor]]:
        order = torch.randperm(len(fitted), generator=generator)
        for rows in torch.split(order, settings.batch):
            yield rows, 0.05 + 0.55 * torch.rand(len(rows), generator=generator)

    def loss(batch: tuple[Tensor, Tensor]) -> Tensor:
        rows, fraction = batch
        first = torch.zeros(len(rows), dtype=torch.long, device=device)
        own = reading.weights(fitted, rows, dropout(fitted.readouts[rows], _DROPPED).to(device))
        chosen = cross_entropy(reading.picked(fitted, rows, fraction, own.softmax(-1)), first)
        return chosen + _DIRECT * cross_entropy(own, first)

    def metric() -> dict[str, float]:
        scores = [reading.sufficiency(frozen.validation, f, is_learned=True) for f in _FRACTIONS]
        return {"sufficiency": mean([mean(own) for own in scores])}

    history = Trainer(data, weigher, loss, metric, clip=None).fit(settings)
    rows = [
        _row(name + (f" on {world}" if len(frozen.reported) > 1 else ""), reading, decisions)
        for world, decisions in frozen.reported.items()
        for name in ("learned", "uniform")
    ]
    described = {"kind": "allocator", "architecture": sizes, **frozen.facts}
    described |= result(settings, len(history) - 1, rows[0])
    save_weights(settings.checkpoint, weigher.state_dict(), described)
    return frozen.run.summarise(rows, [])


@dataclass(frozen=True)
class Reading:
    """The frozen retriever reading a page whose chunks are partly shown, as the weigher shares room.

    ``vectors`` (n, d_text) is the text table; ``bare`` (n,) is the row of each chunk's bare text and
    ``tokens`` (n,) the size of its detail.
    """

    weigher: nn.Module
    retriever: nn.Module
    vectors: Tensor
    bare: Tensor
    tokens: Tensor

    def weights(self, decisions: Decisions, rows: Tensor, readouts: Tensor) -> Tensor:
        """Return the weigher's logits (B, m)."""
        device = readouts.device
        chunks = self.vectors[decisions.pages[rows].clamp_min(0)].to(device)
        logits: Tensor = self.weigher(readouts, decisions.wishes[rows].to(device), chunks)
        return logits.masked_fill(_absent(decisions, rows, device), -1e4)

    def picked(
        self, decisions: Decisions, rows: Tensor, fraction: Tensor, shares: Tensor
    ) -> Tensor:
        """Return the retriever's logits (B, m) at budgets of ``fraction`` (B,) of the pages' text."""
        device, page = shares.device, decisions.pages[rows].clamp_min(0)
        absent = _absent(decisions, rows, device)
        size = self.tokens[page].to(device).masked_fill(absent, 0.0)
        budget = fraction.to(device) * size.sum(-1)
        paid = (shares * budget.unsqueeze(-1) / size.clamp_min(1.0)).clamp(0.0, 1.0).unsqueeze(-1)
        whole, bare = self.vectors[page].to(device), self.vectors[self.bare[page]].to(device)
        mixed = normalize(paid * whole + (1 - paid) * bare, dim=-1)
        seen_bare = torch.tensor(SEEN_BARE, device=device)
        features = decisions.features[rows].to(device) * torch.where(seen_bare, 1.0, paid)
        readouts, wishes = decisions.readouts[rows].to(device), decisions.wishes[rows].to(device)
        scores = scored(self.retriever, readouts, wishes, mixed, features)
        return (_SHARPNESS * scores).masked_fill(absent, -1e4)

    def sufficiency(self, decisions: Decisions, fraction: float, is_learned: bool) -> list[float]:
        """Return, for each decision, whether the retriever still picks the expert's chunk."""
        device = next(self.weigher.parameters()).device
        with torch.inference_mode():
            rows = torch.arange(len(decisions))
            present = (decisions.pages >= 0).float().to(device)
            shares = present / present.sum(-1, keepdim=True)
            if is_learned:
                shares = self.weights(decisions, rows, decisions.readouts.to(device)).softmax(-1)
            logits = self.picked(decisions, rows, torch.full((len(rows),), fraction), shares)
            return [float(hit) for hit in logits.argmax(-1) == 0]


def _row(name: str, reading: Reading, decisions: Decisions) -> dict[str, Any]:
    """Return a summary row of learned or uniform shares."""
    row: dict[str, Any] = {"agent": name, "n": len(decisions)}
    for fraction in _FRACTIONS:
        hits = reading.sufficiency(decisions, fraction, name.startswith("learned"))
        key = f"sufficiency@{fraction:.0%}"
        row |= {key: mean(hits), f"{key}_se": standard_error(hits)}
    return row


def details(frozen: Frozen) -> tuple[Tensor, Tensor]:
    """Return, for each row of the text table: the row of its bare text, the tokens of its detail.

    A row that is no chunk is its own bare text, with one token.
    """
    table = frozen.table
    known: dict[int, tuple[int, int]] = {}
    for episode in frozen.episodes:
        trajectory, view = episode.trajectory, episode.view
        shown = [event for event in trajectory.events if event.kind == "OBS"]
        for event, actions in zip(shown, trajectory.actions, strict=False):
            for chunk in view.chunks(Observation(event.text, actions)):
                whole = render(view, chunk)
                if not whole or (row := table.add(describe(view, chunk))) in known:
                    continue
                bare = text_of(chunk_ladder(view, chunk, Focus()).show(())).strip()
                size = count_tokens(text_of(whole)) - count_tokens(bare)
                known[row] = (table.add(bare or chunk.kind), max(size, 1))
    table.embed(frozen.embedder)
    rows = torch.arange(len(table.vectors))
    tokens = torch.ones(len(table.vectors))
    for row, (bare_row, size) in known.items():
        rows[row], tokens[row] = bare_row, size
    return rows, tokens


def _absent(decisions: Decisions, rows: Tensor, device: torch.device) -> Tensor:
    return (decisions.pages[rows] < 0).to(device)
