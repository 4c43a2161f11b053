"""``retrieve``: chunks by a query that a trained network makes of the recurrent state.

``query_proj`` adds what the state knows to the instruction's own embedding, which the state need not
carry: ``q = unit(g(s) * e(instruction) + P(s))``. Chunks keep their frozen embeddings, so a source's
vector search serves any query. Frozen sentence embeddings hardly tell look-alike chunks apart, so the
state also weighs what they and the wish have in common: ``score = cos(q, chunk) + w(s) . match(chunk)``
(see ``nodes.retrieval.align``).
"""

from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import Field

from stategate.nodes.build_context.baselines import TopChunks
from stategate.nodes.protocols import BuiltContext, ContextBuilder, ContextRequest, Vector
from stategate.nodes.resources import Resources
from stategate.nodes.retrieval.align import FEATURES
from stategate.nodes.update_state.learned import StateUpdater
from stategate.stores.assets.weights import load_trained, small_inference
from stategate.stores.errors import UserError

if TYPE_CHECKING:
    from torch import nn


class Retrieve(TopChunks):
    """Only the parts of the page that a trained query finds, given the recurrent state.

    Those are the ``top_k`` chunks by ``query_proj(state)``, in page order. Nothing protects
    affordances: what the state does not expect to need can be lost.
    """

    kind: Literal["retrieve"] = "retrieve"
    checkpoint: str = Field(
        default="",
        description="of stategate train retriever; '' is the one that ships for the updater",
    )

    def checkpoints(self) -> tuple[str, ...]:
        """Name the projection."""
        return (self.checkpoint or "retriever-gru",)

    def build(self, resources: Resources) -> ContextBuilder:
        """Load the projection.

        Raises ``UserError`` without a learned updater, or if the checkpoint was trained for another
        updater or embedder.
        """
        import torch

        updater = resources.updater
        if not isinstance(updater, StateUpdater):
            raise UserError("context.kind=retrieve reads the recurrent state: set updater.kind=gru")
        d_state = updater.model.d_state
        fix = "train it again for this state model (stategate train retriever)"
        projection, _ = load_trained(
            self.checkpoints()[0],
            "retriever",
            make_projection,
            embedder=(resources.embedder.name, "set its embedder"),
            state_sha256=(updater.fingerprint, fix),
        )

        def build_context(request: ContextRequest) -> BuiltContext:
            wish = resources.embedder.embed([request.instruction])
            # Before the first event there is nothing to read out.
            state = np.zeros(d_state) if request.state is None else request.state[-d_state:]
            with small_inference():
                readout = torch.from_numpy(np.asarray(state, dtype=np.float32))
                query: Vector = projection(readout, torch.from_numpy(wish[0])).numpy()
                weights: Vector = projection.feature_weights(readout).numpy()  # type: ignore[operator]
            return self.nearest(request, query, weights)

        return build_context


def make_projection(
    d_state: int, d_text: int, hidden: int = 384, features: int = len(FEATURES)
) -> "nn.Module":
    """Return an untrained ``query_proj``: (readout, instruction embedding) to unit queries."""
    import torch
    from torch import Tensor, nn

    class QueryProjection(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.project = nn.Sequential(
                nn.LayerNorm(d_state),
                nn.Linear(d_state, hidden),
                nn.GELU(),
                nn.Linear(hidden, d_text),
            )
            self.gate = nn.Sequential(nn.LayerNorm(d_state), nn.Linear(d_state, d_text))
            self.features = nn.Sequential(
                nn.LayerNorm(d_state), nn.Linear(d_state, 64), nn.GELU(), nn.Linear(64, features)
            )

        def forward(self, readout: Tensor, instruction: Tensor) -> Tensor:
            mixed = 2 * torch.sigmoid(self.gate(readout)) * instruction + self.project(readout)
            return nn.functional.normalize(mixed, dim=-1)

        def feature_weights(self, readout: Tensor) -> Tensor:
            """Return w(s) (…, features), how much each match feature counts beside the cosine."""
            weights: Tensor = self.features(readout)
            return weights

    return QueryProjection()
