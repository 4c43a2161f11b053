"""What a page's chunks and the wish have in common, beyond what frozen embeddings can tell.

Sentence embeddings hardly tell look-alike products apart, nor which option group is still to be chosen.
These features say it in words; how much each counts, the state decides (``nodes.build_context.query``).
"""

import math
from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from nodes.act.shop.reading import Wish, dollars, overlap, read_wish, words_of
from nodes.build_context.render import describe
from nodes.protocols import Chunk

#: Columns of :func:`match`. Only append: checkpoints hold a weight for each.
FEATURES = ("asked words", "next option", "next product", "above the limit", "done before")
#: Whether a feature can be seen of a chunk's affordances alone, without its text.
SEEN_BARE = (False, True, False, False, True)


def match(instruction: str, chunks: Sequence[Chunk], done: Collection[str]) -> NDArray[np.float32]:
    """Return features (n, len(FEATURES)) of ``chunks``, in page order; ``done`` are past actions.

    Asked words: the share of asked stems that the chunk holds. Next option: 1 for the first group with
    an asked value that is not chosen yet, 1/2 for the second, ... Next product: likewise for products,
    by asked words in the title (rare ones on this page count more), without those opened before or
    above the price limit.
    """
    wish = read_wish(instruction)
    values = [word for _, value in wish.options for word in words_of(value)]
    asked = tuple(dict.fromkeys((*wish.words, *values)))
    found = np.zeros((len(chunks), len(FEATURES)), dtype=np.float32)
    for i, chunk in enumerate(chunks):
        found[i, 0] = overlap(asked, describe(chunk)) if asked else 0.0
        found[i, 3] = float(_is_dear(chunk, wish))
        found[i, 4] = float(chunk.kind == "product" and _is_open(chunk, done))
    waiting = [i for i, chunk in enumerate(chunks) if _is_waiting(chunk, wish, instruction, done)]
    for place, i in enumerate(waiting):
        found[i, 1] = 1 / (1 + place)
    fresh = [
        i
        for i, c in enumerate(chunks)
        if c.kind == "product" and not found[i, 3] and not found[i, 4]
    ]
    weights = _rarity(wish, [chunks[i] for i in fresh])
    scores = {i: _shared(chunks[i], weights) - 0.3 * place for place, i in enumerate(fresh)}
    for place, i in enumerate(sorted(fresh, key=lambda i: -scores[i])):
        found[i, 2] = 1 / (1 + place)
    return found


def _is_waiting(chunk: Chunk, wish: Wish, instruction: str, done: Collection[str]) -> bool:
    """Say whether an asked value of this option group is offered and not chosen."""
    if chunk.kind != "options":
        return False
    name = str(chunk.data["name"]).lower()
    goals = [set(words_of(value)) for group, value in wish.options if group.lower() == name]
    values = [str(value).lower() for value in chunk.data["values"]]
    if wish.options:
        asked = [v for v in values if v and set(words_of(v)) in goals]
    else:  # people do not name the group: any value whose words they said
        asked = [v for v in values if words_of(v) and overlap(words_of(v), instruction) == 1]
    chosen = str(chunk.data.get("chosen") or "").lower()
    return bool(asked) and not any(v == chosen or f"click[{v}]" in done for v in asked)


def _is_dear(chunk: Chunk, wish: Wish) -> bool:
    price = dollars(str(chunk.data.get("price") or "")) if chunk.kind == "product" else None
    return price is not None and wish.limit is not None and price > wish.limit


def _is_open(chunk: Chunk, done: Collection[str]) -> bool:
    return bool(chunk.data.get("seen")) or any(action in done for action in chunk.actions)


def _rarity(wish: Wish, products: Sequence[Chunk]) -> dict[str, float]:
    """Weigh each asked word by how few of ``products`` name it; words of option values count half."""
    titles = [set(words_of(str(chunk.data["title"]))) for chunk in products]
    weights = dict.fromkeys(wish.words, 1.0)
    for _, value in wish.options:
        for word in words_of(value):
            weights.setdefault(word, 0.5)
    total = len(titles) + 1
    return {
        word: weight * (math.log(total / (sum(word in title for title in titles) + 1)) + 0.2)
        for word, weight in weights.items()
    }


def _shared(chunk: Chunk, weights: dict[str, float]) -> float:
    return sum(weights.get(word, 0.0) for word in set(words_of(str(chunk.data["title"]))))
