"""How the ``policy`` actor turns a built context into numbers: named features, put into columns.

A reader names the features of each candidate and of the page; it reads the context and nothing else.
A checkpoint names its reader and its columns, in order. Training anew uses the columns of the
checkpoint that ships for the reader. A feature without a column is not read, an absent one is 0.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from stategate.envs.protocols import takes_text, target_of, verb_of
from stategate.nodes.act import general
from stategate.nodes.act.page_features import Features
from stategate.nodes.act.shop import lexical
from stategate.nodes.protocols import BuiltContext, Vector, WorldProfile
from stategate.stores.assets.weights import read_meta, require_match
from stategate.stores.errors import UserError
from stategate.stores.text import words_of

#: Returns the features of each candidate, by its action, and those of the page.
Describe = Callable[[BuiltContext, int, WorldProfile], tuple[dict[str, Features], Features]]
#: Readers by name, each with the checkpoint that ships for it.
READERS: Mapping[str, tuple[str, Describe]] = {
    "general": ("policy-joint", general.describe),
    "lexical": ("policy", lexical.describe),
}
RETRAIN = "train it again for these features (stategate train actor)"
_ENOUGH = 0.5  # shared words (Jaccard) for a text of ours to stand for an expert's


@dataclass(frozen=True)
class Encoded:
    """``rows`` (n, candidate features) and ``page`` (page features,), float32; equally many actions.

    ``written`` are those of the actions that were made where a command takes text.
    """

    actions: tuple[str, ...]
    rows: Vector
    page: Vector
    written: frozenset[str] = frozenset()

    def index_of(self, action: str) -> int | None:
        """Return the index of the candidate that matches an expert's action, or None.

        That is the action itself, else the written text with the same verb that is most like it.
        """
        if action in self.actions:
            return self.actions.index(action)
        words = {*words_of(target_of(action))}
        alike: dict[int, float] = {}
        for i, text in enumerate(self.actions):
            if text in self.written and verb_of(text) == verb_of(action):
                own = {*words_of(target_of(text))}
                alike[i] = len(own & words) / max(len(own | words), 1)
        best = max(alike, key=alike.__getitem__, default=None)
        return best if best is not None and alike[best] >= _ENOUGH else None


@dataclass(frozen=True)
class Encoder:
    """A reader and its columns; ``version`` is its name and a hash of the columns."""

    version: str
    describe: Describe
    row_features: tuple[str, ...]
    page_features: tuple[str, ...]

    def encode(self, context: BuiltContext, step: int, profile: WorldProfile) -> Encoded:
        """Return the candidates as numbers (none where nothing is readable)."""
        described, page = self.describe(context, step, profile)
        rows = _table([*described.values()], self.row_features)
        shown = set(context.actions)
        slots = {verb_of(action) for action in shown if takes_text(action)}
        made = frozenset(a for a in described if a not in shown and verb_of(a) in slots)
        return Encoded(tuple(described), rows, _table([page], self.page_features)[0], made)


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
    wanted = name.partition("-")[0]
    if wanted not in READERS:
        raise UserError(f"no encoder '{wanted}' of contexts: there are {', '.join(READERS)}")
    checkpoint, describe = READERS[wanted]
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
