"""The feature encoder of the ``policy`` actor: named features of a context, put into columns.

A reader names the features of each candidate and of the page; it reads the context and nothing else.
A checkpoint names its reader and its columns, in order. A new training run uses the columns of the
reader's shipped checkpoint. A feature without a column is not read, an absent one is 0.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from stategate.nodes.act import general
from stategate.nodes.act.page_features import Features
from stategate.nodes.act.shop import lexical
from stategate.nodes.protocols import BuiltContext, Vector, WorldProfile
from stategate.stores.assets.weights import read_meta, require_match
from stategate.stores.errors import UserError

#: Returns the features of each candidate, by its action, and those of the page.
Describe = Callable[[BuiltContext, int, WorldProfile], tuple[dict[str, Features], Features]]
#: Readers by name, each with the checkpoint that ships for it.
READERS: Mapping[str, tuple[str, Describe]] = {
    "general": ("policy-joint", general.describe),
    "lexical": ("policy", lexical.describe),
}
RETRAIN = "train it again for these features (stategate train dagger)"


@dataclass(frozen=True)
class Encoded:
    """``rows`` (n, candidate features) and ``page`` (page features,), float32; n actions."""

    actions: tuple[str, ...]
    rows: Vector
    page: Vector


@dataclass(frozen=True)
class Encoder:
    """A reader and its columns; ``version`` is its name and a hash of the columns."""

    version: str
    describe: Describe
    row_features: tuple[str, ...]
    page_features: tuple[str, ...]

    def encode(self, context: BuiltContext, step: int, profile: WorldProfile) -> Encoded:
        """Return the feature table of the candidates (empty where nothing is readable)."""
        described, page = self.describe(context, step, profile)
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


def encoder(name: str) -> Encoder:
    """Return the encoder ``name`` with the columns of its shipped checkpoint. Raises ``UserError``."""
    reader = name.partition("-")[0]
    if reader not in READERS:
        raise UserError(f"no encoder '{reader}' of contexts: there are {', '.join(READERS)}")
    checkpoint, describe = READERS[reader]
    meta = read_meta(checkpoint)
    names = meta["features"]
    return Encoder(str(meta["encoder"]), describe, tuple(names["row"]), tuple(names["page"]))


def encoder_of(name: str, meta: Mapping[str, Any]) -> Encoder:
    """Return the encoder of checkpoint ``name`` with its own columns.

    Raises ``UserError`` where it was made for features that are no more.
    """
    version, names = str(meta.get("encoder", "")), meta.get("features", {})
    now = encoder(version)
    if version == now.version:
        return now
    row, page = tuple(names.get("row", ())), tuple(names.get("page", ()))
    if not row or not {*row} <= {*now.row_features} or not {*page} <= {*now.page_features}:
        require_match(name, meta, "encoder", now.version, RETRAIN)
    return Encoder(version, now.describe, row, page)
