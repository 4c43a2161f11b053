"""``policy``: a small learned scorer of every readable action, trained by ``stategate train dagger``.

It plays any world: a checkpoint names the features that contexts are turned into, in the order of its
columns. It reads only the built context and the step number: whatever a context builder drops, it does
not know (which is why it does not read the recurrent state either). A step costs a few milliseconds on
one core.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field

from stategate.language.instruction.parsed import parse
from stategate.nodes.act.general import ContextFeatures
from stategate.nodes.act.page_features import Features, amount_of
from stategate.nodes.act.simple import vain_actions
from stategate.nodes.protocols import (
    Actor,
    ActorParams,
    BuiltContext,
    Decision,
    EnvParams,
    Vector,
    WorldProfile,
)
from stategate.nodes.resources import Resources
from stategate.stores.assets.weights import (
    fitting,
    load_trained,
    read_meta,
    small_inference,
)
from stategate.stores.errors import UserError
from stategate.stores.text import one_line

if TYPE_CHECKING:
    from torch import nn

SHIPPED = "policy"
_RETRAIN = "train it again for these features (stategate train dagger)"


class Policy(ActorParams):
    """A small learned scorer picks the likeliest action, in milliseconds."""

    kind: Literal["policy"] = "policy"
    checkpoint: str = Field(default="", description="name or path; '' is the one that ships")

    @property
    def weights(self) -> str:
        """The checkpoint's name or path."""
        return self.checkpoint or SHIPPED

    def checkpoints(self) -> tuple[str, ...]:
        """Name the scorer."""
        return (self.weights,)

    def misfit(self, env: EnvParams) -> str:
        """Say which world the checkpoint was trained for, where it is another."""
        try:
            world = str(read_meta(self.weights).get("world", ""))
        except UserError:
            return ""  # said where it is built
        if not world or env.view().name in world.split(", "):
            return ""
        return (
            f"checkpoint '{self.weights}' of actor.kind=policy was trained for {world}, not for "
            f"{env.kind} (actor.checkpoint may name another)"
        )

    def build(self, resources: Resources) -> Actor:
        """Load the scorer. Raises ``UserError`` for a checkpoint of other features."""
        scorer, encoder, _ = load_scorer(self.weights)
        return scoring_actor(scorer, encoder, resources.profile)


@dataclass(frozen=True)
class Encoded:
    """``rows`` (n, candidate features) and ``page`` (page features,), float32; n actions."""

    actions: tuple[str, ...]
    rows: Vector
    page: Vector


@dataclass(frozen=True)
class Encoder:
    """The columns of a feature table: a feature without one is not read, an absent one is 0."""

    row_features: tuple[str, ...]
    page_features: tuple[str, ...]

    @classmethod
    def of(cls, meta: Mapping[str, Any]) -> "Encoder":
        """Return the columns that a checkpoint names."""
        names = meta.get("features", {})
        return cls(tuple(names.get("row", ())), tuple(names.get("page", ())))

    def encode(self, context: BuiltContext, step: int, profile: WorldProfile) -> Encoded:
        """Return the feature table of the candidates (empty where nothing is readable)."""
        described, page = ContextFeatures(context, step, profile).described()
        rows = _table([*described.values()], self.row_features)
        return Encoded(tuple(described), rows, _table([page], self.page_features)[0])


def _table(rows: Sequence[Features], names: Sequence[str]) -> Vector:
    values = [[row.get(name, 0.0) for name in names] for row in rows]
    return np.array(values, dtype=np.float32).reshape(len(rows), len(names))


def shipped_encoder() -> Encoder:
    """Return the columns of the checkpoint that ships: every feature that there is."""
    return Encoder.of(read_meta(SHIPPED))


def load_scorer(name: str) -> "tuple[nn.Module, Encoder, dict[str, Any]]":
    """Return (scorer, encoder, meta) of checkpoint ``name``.

    Raises ``UserError`` where it was made for features that are no more.
    """
    scorer, meta = load_trained(name, "policy", make_scorer, embedder=(None, _RETRAIN))
    now = shipped_encoder()
    with fitting(name):
        own = Encoder.of(meta)
        rows, page, sizes = own.row_features, own.page_features, meta["architecture"]
        if (len(rows), len(page)) != (sizes["d_row"], sizes["d_page"]):
            raise ValueError("not a name a column")
    if not {*rows, *page} <= {*now.row_features, *now.page_features}:
        raise UserError(f"checkpoint '{name}' was made for features that are no more: {_RETRAIN}")
    return scorer, own, meta


def make_scorer(d_row: int, d_page: int, hidden: int = 96) -> "nn.Module":
    """Return an untrained scorer: rows (B, n, d_row), page (B, d_page), absent (B, n) to logits.

    Each candidate is read beside the page's facts; the maximum and the mean over the page's candidates
    then tell each of them what it competes with (a set network: order does not matter). Absent
    candidates get ``-1e9``.
    """
    import torch
    from torch import Tensor, nn

    class Scorer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.row = nn.Linear(d_row, hidden)
            self.page = nn.Linear(d_page, hidden)
            self.mix = nn.Sequential(nn.GELU(), nn.Linear(hidden, hidden), nn.GELU())
            self.own = nn.Linear(hidden, hidden)
            self.others = nn.Linear(2 * hidden, hidden, bias=False)
            self.score = nn.Sequential(nn.GELU(), nn.Linear(hidden, 1))

        def forward(self, rows: Tensor, page: Tensor, absent: Tensor) -> Tensor:
            mixed = self.mix(self.row(rows) + self.page(page).unsqueeze(1))
            gone = absent.unsqueeze(-1)
            top = mixed.masked_fill(gone, -1e9).amax(1, keepdim=True)
            count = (~gone).sum(1, keepdim=True).clamp_min(1)
            middle = mixed.masked_fill(gone, 0.0).sum(1, keepdim=True) / count
            around = self.others(torch.cat([top, middle], dim=-1))
            logits: Tensor = self.score(self.own(mixed) + around).squeeze(-1)
            return logits.masked_fill(absent, -1e9)

    return Scorer()


def scoring_actor(scorer: "nn.Module", encoder: Encoder, profile: WorldProfile) -> Actor:
    """Return the policy at work: the likeliest action, texts that the encoder makes for a slot.

    Pure: equal contexts and steps give equal decisions.
    """
    import torch

    def act(context: BuiltContext, step: int) -> Decision:
        encoded = encoder.encode(context, step, profile)
        if not encoded.actions:
            problem = "no action is readable" if not context.actions else "nothing to write"
            safe = profile.view.actions.safe(context.actions, context.instruction)
            return Decision(safe, fallback=problem)
        with small_inference():
            rows = torch.from_numpy(encoded.rows).unsqueeze(0)
            absent = torch.zeros(1, len(encoded.actions), dtype=torch.bool)
            logits = scorer(rows, torch.from_numpy(encoded.page).unsqueeze(0), absent)[0]
        values = logits.double().numpy()
        # What is above the stated limit nobody may buy.
        forbids = parse(context.instruction).forbids
        dear = [p for p in context.pieces if p.role == "entry" and forbids(amount_of(p))]
        vain = {*vain_actions(context), *(one_line(a) for piece in dear for a in piece.actions)}
        is_vain = np.asarray([one_line(action) in vain for action in encoded.actions])
        if not is_vain.all():
            values[is_vain] = -np.inf
        chances = np.exp(values - values.max())
        chances /= chances.sum()
        probabilities = dict(zip(encoded.actions, map(float, chances), strict=True))
        return Decision(encoded.actions[int(values.argmax())], probabilities=probabilities)

    return act
