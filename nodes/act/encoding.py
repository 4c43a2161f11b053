"""The feature table of the ``policy`` actor: named features of a context, put into columns.

A checkpoint names its columns, in order; a new training run uses those of the checkpoint that ships. A
feature without a column is not read, an absent one is 0.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from stategate.nodes.act.general import describe
from stategate.nodes.act.page_features import Features
from stategate.nodes.protocols import BuiltContext, Vector, WorldProfile
from stategate.stores.assets.weights import read_meta, require_match

SHIPPED = "policy"
RETRAIN = "train it again for these features (stategate train dagger)"


@dataclass(frozen=True)
class Encoded:
    """``rows`` (n, candidate features) and ``page`` (page features,), float32; n actions."""

    actions: tuple[str, ...]
    rows: Vector
    page: Vector


@dataclass(frozen=True)
class Encoder:
    """The columns of a feature table; ``version`` names them (with a hash) in checkpoints."""

    version: str
    row_features: tuple[str, ...]
    page_features: tuple[str, ...]

    @classmethod
    def of(cls, meta: Mapping[str, Any]) -> "Encoder":
        """Return the columns that a checkpoint names."""
        names = meta.get("features", {})
        return cls(
            str(meta.get("encoder", "")), tuple(names.get("row", ())), tuple(names.get("page", ()))
        )

    def encode(self, context: BuiltContext, step: int, profile: WorldProfile) -> Encoded:
        """Return the feature table of the candidates (empty where nothing is readable)."""
        described, page = describe(context, step, profile)
        rows = _table([*described.values()], self.row_features)
        return Encoded(tuple(described), rows, _table([page], self.page_features)[0])


def _table(rows: Sequence[Features], names: tuple[str, ...]) -> Vector:
    columns = _columns(names)
    table = np.zeros((len(rows), len(names)), dtype=np.float32)
    for i, row in enumerate(rows):
        for name, value in row.items():
            if (column := columns.get(name)) is not None:
                table[i, column] = value
    return table


@lru_cache(maxsize=16)
def _columns(names: tuple[str, ...]) -> dict[str, int]:
    return {name: i for i, name in enumerate(names)}


def shipped_encoder() -> Encoder:
    """Return the columns of the checkpoint that ships: every feature that there is."""
    return Encoder.of(read_meta(SHIPPED))


def encoder_of(name: str, meta: Mapping[str, Any]) -> Encoder:
    """Return the columns of checkpoint ``name``.

    Raises ``UserError`` where it was made for features that are no more.
    """
    own, now = Encoder.of(meta), shipped_encoder()
    is_known = {*own.row_features} <= {*now.row_features}
    if not own.row_features or not is_known or not {*own.page_features} <= {*now.page_features}:
        require_match(name, meta, "encoder", now.version, RETRAIN)
    return own
