"""The aligner's weights: their columns, and where they come from.

Three small networks with general features only (what a word means is one, no word is): of each word of
an instruction what it is; of each of several exclusive values whether it is asked for or excluded; of
what a page is about whether it can be what is asked. Trained on many wordings (``stategate train
aligner``); they run without torch.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
CHECKPOINT = "aligner"
WORD = (
    "small word",
    "rarity",
    "pieces",
    "letters",
    "is number",
    "has unit",
    "in limit",
    "negated",
    "sentence asks",
    "sentence has limit",
    "near asking",
    "sentences",
    "asks before",
    "mark before",
    "mark after",
    "small before",
    "small after",
    "twice",
    "sentence place",
    "small share",
    "long sentence",
    "first half",
    "after in",
    "after with",
    "after for",
    "after of",
    "after colon",
    "after a number",
    "asks",
    "money",
    "retracts",
    "taken back",
    "holds a digit",
)
#: What a word of an instruction is: of the thing itself, a property of it, a value to choose, or talk.
ROLES = ("thing", "property", "value", "talk")
VALUE = (
    "coverage",
    "plain coverage",
    "all found",
    "verbatim",
    "words found",
    "words missing",
    "numbers missing",
    "told apart",
    "swallowed",
    "margin",
    "best",
    "ties",
    "in title",
    "taken by others",
    "name near",
    "name said",
    "negated before",
    "negated earlier",
    "negated after",
    "in limit",
    "many",
    "matters",
    "letters alike",
    "said twice",
    "has number",
    "rarity",
    "slips",
    "last of two",
    "other excluded",
    "nothing found",
    "gap",
    "beside",
    "taken back",
    "replaces",
    "said before",
    "said after",
    "meant",
    "meant most",
    "of a value",
    "of the thing",
    "of a property",
    "of a value most",
    "glued",
)
NONE = (
    "best coverage",
    "any whole",
    "name said",
    "many",
    "best letters",
    "best matters",
    "any number",
    "one",
    "meant",
    "of a value",
)
SUBJECT = (
    "values missing",
    "sure values missing",
    "worst missing",
    "value words",
    "choices",
    "open",
    "open share",
    "least asked",
    "title says it",
    "title says the thing",
    "title says properties",
    "least phrase",
    "excluded",
    "alike only",
    "gaps",
    "beside",
)
#: What forgets that was computed with other weights.
on_install: list[Callable[[], None]] = []
_installed: dict[str, Mapping[str, Floats]] = {}


def network(part: str) -> Mapping[str, Floats]:
    """Return the weights of "word", "value", "subject" or "meaning": the shipped checkpoint's."""
    if not _installed:
        install(_shipped())
    return _installed[part]


def install(arrays: Mapping[str, Floats]) -> None:
    """Use these weights from now on, as a trainer does; what was computed with others is forgotten."""
    for part in ("word", "value", "subject", "meaning"):
        lead = f"{part}/"
        _installed[part] = {
            k.removeprefix(lead): v for k, v in arrays.items() if k.startswith(lead)
        }
    for forget in on_install:
        forget()


def _shipped() -> dict[str, Floats]:
    from stategate.stores.assets.weights import load_arrays

    arrays, meta = load_arrays(CHECKPOINT, "aligner")
    columns: dict[str, Any] = meta["architecture"]
    known = {"word": (*WORD, "meaning"), "value": VALUE, "none": NONE, "subject": SUBJECT}
    is_known = all(tuple(columns.get(name, ())) == names for name, names in known.items())
    if not is_known or "word/u2" not in arrays:  # an earlier network of words was not recurrent
        from stategate.stores.errors import UserError

        raise UserError(
            "checkpoint 'aligner' has other features: remove it, and the one that ships is read"
        )
    return arrays
