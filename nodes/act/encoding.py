"""How the ``policy`` actor turns a built context into numbers: what an encoder is, and which there are.

An encoder reads the context and nothing else. It comes by an entry point of the group
``stategate.encoders``; a checkpoint names the one that it was trained for, with a hash of its features.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any, Protocol

from stategate.envs.protocols import target_of, verb_of
from stategate.nodes.protocols import BuiltContext, Vector, WorldProfile
from stategate.stores.errors import UserError
from stategate.stores.text import words_of

GROUP = "stategate.encoders"
_ENOUGH = 0.5  # shared words (Jaccard) for a text of ours to stand for an expert's


@dataclass(frozen=True)
class Encoded:
    """``rows`` (n, candidate features) and ``page`` (page features,), float32; equally many actions."""

    actions: tuple[str, ...]
    rows: Vector
    page: Vector


class Encoder(Protocol):
    """One way to read a context. ``name`` holds a hash of the features: "general-1a2b3c4d"."""

    name: str
    row_features: Sequence[str]
    page_features: Sequence[str]

    def encode(self, context: BuiltContext, step: int, profile: WorldProfile) -> Encoded:
        """Return the candidates as numbers (none where nothing is readable)."""
        ...

    def stands_for(self, action: str, candidates: Sequence[str]) -> int | None:
        """Return the candidate that an expert's ``action`` comes to, None for none."""
        ...

    def is_mistake(self, action: str, agent: Mapping[str, Any]) -> bool:
        """Say whether an expert did this on purpose to be seen, not to be imitated."""
        ...

    def sort_of(self, encoded: Encoded, index: int) -> str:
        """Return what sort of action a candidate is, for reports."""
        ...


def most_alike(action: str, candidates: Sequence[str]) -> int | None:
    """Return the place of ``action`` itself, or of the text with the same verb that is most like it."""
    if action in candidates:
        return candidates.index(action)
    verb, wanted = verb_of(action), {*words_of(target_of(action))}
    made = {
        i: {*words_of(target_of(text))}
        for i, text in enumerate(candidates)
        if verb_of(text) == verb and wanted and text.endswith("]")
    }
    alike = {i: len(w & wanted) / max(len(w | wanted), 1) for i, w in made.items()}
    best = max(alike, key=alike.__getitem__, default=None)
    return best if best is not None and alike[best] >= _ENOUGH else None


def encoder(name: str) -> Encoder:
    """Return the encoder ``name``; a hash behind it is not looked at. Raises ``UserError``."""
    wanted = name.partition("-")[0]
    found = {point.name: point for point in entry_points(group=GROUP)}
    if wanted not in found:
        known = ", ".join(sorted(found)) or "none"
        raise UserError(f"no encoder '{wanted}' of contexts: there are {known}")
    loaded: Encoder = found[wanted].load()
    return loaded
