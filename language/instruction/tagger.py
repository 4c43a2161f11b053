"""The token tagger: what each word of an instruction is, as calibrated probabilities.

A linear model over hashed words, letters and neighbours reads the sentence; a second one reads it
again beside the first one's tags of the words around. Trained on several writers' sentences for
several worlds (``stategate train instruction``).
"""

import itertools
from functools import lru_cache

import numpy as np

from stategate.language.amounts import Token, tokens
from stategate.language.instruction.weights import Floats, array, hashed, meaning_of, softmax

#: The thing itself, a property of it, a value to choose, the place it goes to, what is not wanted, an
#: amount's upper and lower end, the words that make it one, and talk.
TAGS = ("thing", "property", "value", "place", "excluded", "high", "low", "limit", "talk")
WINDOW = 4  # words on each side whose first tags the second model reads
_NEAR = 3  # words on each side that the first model reads


def shape_of(token: Token) -> str:
    """Return the sort of a token: a number with its unit, a code, a mark or a word."""
    if token.value is not None:
        return f"number {token.unit}"
    if not token.word.isalnum():
        return token.word
    return "code" if any(c.isdigit() for c in token.word) else "word"


def token_features(text: str, words: tuple[Token, ...], i: int) -> list[str]:
    """Return the hashed features of token ``i``: its letters, its neighbours, the marks between."""
    token = words[i]
    word = shape_of(token) if token.value is not None else token.word
    features = [f"w{word}", f"k{token.key if token.value is None else ''}", f"s{shape_of(token)}"]
    if token.value is None:
        features += [f"<{token.word[:3]}", f"{token.word[-3:]}>", f"{token.word[-2:]}>"]
    around: list[str] = []
    for offset in range(-_NEAR, _NEAR + 1):
        if offset:
            j = i + offset
            other = words[j] if 0 <= j < len(words) else None
            around.append(
                "^" if other is None else shape_of(other) if other.value is not None else other.word
            )
            features.append(f"{offset}{around[-1]}")
    for side, (a, b) in {"-": (i - 1, i), "+": (i, i + 1)}.items():
        start = words[a].end if a >= 0 else 0
        end = words[b].start if b < len(words) else len(text)
        mark = text[start:end].strip()[:3]
        features += [f"{side}{mark}", f"{side}{mark}{around[2 if side == '-' else 3]}"]
    before2, before, after, after2 = around[1:5]
    features += [
        f"a{before} {word}",
        f"b{word} {after}",
        f"c{before2} {before}",
        f"d{after} {after2}",
        f"e{before} {after}",
        f"f{shape_of(token)} {before2} {before}",
        f"g{shape_of(token)} {after} {after2}",
        f"p{min(i, 4)}",
        f"q{min(len(words) - 1 - i, 4)}",
    ]
    for j in range(max(0, i - 9), min(len(words), i + 8)):
        if j != i and words[j].value is None:
            features.append(f"{'near-' if j < i else 'near+'}{words[j].word}")
    return features


def dense_features(words: tuple[Token, ...]) -> Floats:
    """Return (tokens, 3 d): the meaning of each word and of those beside it."""
    own = np.stack([meaning_of(token.key) for token in words])
    zero = np.zeros_like(own[:1])
    sides = np.concatenate([zero, own[:-1]]), np.concatenate([own[1:], zero])
    return np.concatenate([own, *sides], axis=1)


def window_of(first: Floats) -> Floats:
    """Return (tokens, (2 W + 2) tags): the first model's tags around each word, and on average."""
    count, tags = first.shape
    padded = np.concatenate([np.zeros((WINDOW, tags)), first, np.zeros((WINDOW, tags))])
    shifted = [padded[offset : offset + count] for offset in range(2 * WINDOW + 1)]
    mean = np.repeat(first.mean(axis=0, keepdims=True), count, axis=0)
    return np.asarray(np.concatenate([*shifted, mean], axis=1), dtype=np.float32)


#: Tags that another reader gave, by text.
ADOPTED_TAGS: dict[str, Floats] = {}


def tag(text: str) -> Floats:
    """Return (tokens, TAGS): the probability of each tag for each token of ``text``."""
    adopted = ADOPTED_TAGS.get(text)
    return _tagged(text) if adopted is None else adopted


@lru_cache(maxsize=4096)
def _tagged(text: str) -> Floats:
    words = tokens(text)
    if not words:
        return np.zeros((0, len(TAGS)), dtype=np.float32)
    sparse = hashed("tag", (token_features(text, words, i) for i in range(len(words))))
    logits = sparse + dense_features(words) @ array("tag/meaning") + array("tag/bias")
    first = softmax(logits[:, : len(TAGS)])
    return softmax(logits[:, len(TAGS) :] + window_of(first) @ array("tag/window"))


def runs(best: list[int], classes: frozenset[int], joints: list[bool]) -> list[tuple[int, ...]]:
    """Return the runs of neighbouring tokens that share one best tag, which is of ``classes``."""
    groups: list[tuple[int, ...]] = []
    cuts = [0, *(i for i in range(1, len(best)) if best[i] != best[i - 1] or not joints[i])]
    for start, end in itertools.pairwise([*cuts, len(best)]):
        if start < end and best[start] in classes:
            groups.append(tuple(range(start, end)))
    return groups
