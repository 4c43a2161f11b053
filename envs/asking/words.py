"""What each word of an instruction is: of the thing, a property of it, a value to choose, or talk."""

import math
import re
from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from stategate.envs.asking.meaning import SIZE, meaning_of
from stategate.envs.asking.request import Request
from stategate.envs.asking.text import Token, english
from stategate.envs.asking.weights import ROLES, WORD, Floats, network, on_install
from stategate.stores.tokens import encoding

_REACH = 4  # words that a negation reaches
_NAMED = re.compile(r"[:=]|\s-\s")
_REPAIR = 5  # words from one that is taken back to what says so


@lru_cache(maxsize=65536)
def rarity(word: str) -> tuple[float, float]:
    """Return how rare a word is (0 to 1) and how many pieces it has, by a byte-pair vocabulary.

    A vocabulary's merges are in order of frequency, so a piece's rank tells it without any corpus.
    """
    pieces = encoding().encode_ordinary(" " + word)
    rank = max(pieces) if len(pieces) == 1 else 100_000
    return math.log1p(rank) / math.log(100_001), min(len(pieces), 4) / 4


def word_features(request: Request) -> Floats:
    """Return (tokens, len(WORD)) of an instruction."""
    found = request.tokens
    n = len(found)
    rows = np.zeros((n, len(WORD)), dtype=np.float32)
    if not n:
        return rows
    asks, retracts = english()["asks"], english()["retracts"]
    sentences = sorted(set(request.sentence))
    asking = {request.sentence[i] for i, t in enumerate(found) if t.word in asks}
    limited = {request.sentence[i] for i in request.in_limit}
    size = {s: sum(x == s for x in request.sentence) for s in sentences}
    small = {
        s: sum(t.is_small for i, t in enumerate(found) if request.sentence[i] == s) / size[s]
        for s in sentences
    }
    seen_ask = False
    for i, token in enumerate(found):
        s = request.sentence[i]
        seen_ask = seen_ask or token.word in asks
        distance = min((abs(s - other) for other in asking | limited), default=3)
        before = found[i - 1] if i and request.clause[i - 1] == request.clause[i] else None
        after = found[i + 1] if i + 1 < n and request.clause[i + 1] == request.clause[i] else None
        rare, pieces = rarity(token.word)
        rows[i] = (
            token.is_small,
            rare,
            pieces,
            min(len(token.word), 12) / 12,
            token.value is not None,
            bool(token.unit),
            i in request.in_limit,
            negated(request, i, i)[0],
            s in asking,
            s in limited,
            1 / (1 + distance),
            min(len(sentences), 6) / 6,
            seen_ask,
            before is None,
            after is None,
            before is not None and before.is_small,
            after is not None and after.is_small,
            len(request.places[token.key]) > 1,
            sentences.index(s) / len(sentences),
            small[s],
            min(size[s], 30) / 30,
            i < n / 2,
            *(i > 0 and found[i - 1].word == word for word in ("in", "with", "for", "of")),
            i > 0 and bool(_NAMED.search(request.text[found[i - 1].end : token.start])),
            i > 0 and found[i - 1].value is not None,
            token.word in asks,
            token.word in english()["money"],
            token.word in retracts,
            _is_taken_back(request, i),
            token.value is None and any(c.isdigit() for c in token.word),
        )
    return rows


def _is_taken_back(request: Request, i: int) -> bool:
    """Say whether a word of self-repair follows closely, and something else to ask for behind it."""
    known = english()["retracts"]
    cue = next(
        (
            k
            for k in range(i + 1, min(i + 1 + _REPAIR, len(request.tokens)))
            if request.tokens[k].word in known
        ),
        None,
    )
    if cue is None or request.clause[cue] - request.clause[i] > 2:
        return False
    return any(not token.is_small for token in request.tokens[cue + 1 : cue + 1 + _REPAIR])


def word_rows(request: Request) -> Floats:
    """Return each word's features and meaning: (tokens, len(WORD) + SIZE).

    What a word means tells talk ("committee", "select") from things, also where nobody said it
    while this was learned; no word itself is a feature.
    """
    meanings = [meaning_of(token.key) for token in request.tokens]
    return np.concatenate(
        [word_features(request), np.asarray(meanings).reshape(-1, SIZE)], axis=1, dtype=np.float32
    )


@lru_cache(maxsize=4096)
def word_roles(request: Request) -> Floats:
    """Return (tokens, len(ROLES)): how probable it is that a word says what kind of thing is asked.

    A recurrent network reads the instruction from both ends, so a word is told by all that stands
    around it.
    """
    net = network("word")
    if not request.tokens:
        return np.zeros((0, len(ROLES)), dtype=np.float32)
    seen = np.tanh(word_rows(request) @ net["w1"] + net["b1"])
    read = np.tanh(_read_both_ways(seen, net) @ net["w3"] + net["b3"])
    logits = read @ net["w4"] + net["b4"]
    chances = np.exp(logits - logits.max(axis=1, keepdims=True))
    chances /= chances.sum(axis=1, keepdims=True)
    for i, token in enumerate(request.tokens):
        if token.is_small or i in request.in_limit:
            chances[i] = (0.0, 0.0, 0.0, 1.0)
    return np.asarray(chances, dtype=np.float32)


def _read_both_ways(seen: Floats, net: Mapping[str, Floats]) -> Floats:
    """Return the states (n, 2 H) of a gated recurrent unit that reads ``seen`` forwards, and backwards.

    The weights have both directions, (2, ..., 3 H); the gates come in the order reset, update, new.
    """
    ways = np.stack([seen, seen[::-1]])
    inputs = ways @ net["w2"] + net["b2"][:, None]
    size = net["u2"].shape[1]
    state = np.zeros((2, 1, size), dtype=np.float32)
    states = np.empty((2, len(seen), size), dtype=np.float32)
    for i in range(len(seen)):
        own, now = state @ net["u2"] + net["c2"][:, None], inputs[:, i : i + 1]
        gates = 1 / (1 + np.exp(-(now + own)[..., : 2 * size]))
        new = np.tanh(now[..., 2 * size :] + gates[..., :size] * own[..., 2 * size :])
        state = new + gates[..., size:] * (state - new)
        states[:, i] = state[:, 0]
    return np.concatenate([states[0], states[1][::-1]], axis=1)


@lru_cache(maxsize=4096)
def matters(request: Request) -> tuple[float, ...]:
    """Return how much (0 to 1) each token of an instruction belongs to what is asked."""
    return tuple((1 - word_roles(request)[:, -1]).tolist())


def negated(request: Request, first: int, last: int) -> tuple[float, float, float]:
    """Return how far a negation is of a stretch: before it (same clause), before (any), and behind.

    Nothing but small words may stand between: in "not red and blue" red is negated. Behind a stretch a
    negation counts in full after a verb ("red is no good"), else it most likely is of what follows.
    """
    inside = earlier = after = 0.0
    for place in request.negators:
        if place < first and first - place <= _REACH + 1:
            if all(_is_light(token) for token in request.tokens[place + 1 : first]):
                if request.clause[place] == request.clause[first]:
                    inside = 1.0
                else:
                    earlier = 1.0
        elif last < place <= last + _REACH and request.clause[place] == request.clause[last]:
            between = request.tokens[last + 1 : place]
            if all(_is_light(token) for token in between):
                after = max(
                    after, 1.0 if any(t.word in english()["verbs"] for t in between) else 0.3
                )
    return inside, earlier, after


def _is_light(token: Token) -> bool:
    return token.is_small or token.word in english()["asks"]


@lru_cache(maxsize=4096)
def runs(request: Request, roles: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
    """Return the runs of words that most likely are of ``roles``, as places of tokens."""
    chances = word_roles(request)
    best = chances.argmax(axis=1) if len(chances) else []
    found: list[list[int]] = []
    last = -2
    for i, role in enumerate(best):
        if ROLES[role] not in roles:
            continue
        if last == i - 1 and best[last] == role and request.clause[last] == request.clause[i]:
            found[-1].append(i)
        else:
            found.append([i])
        last = i
    return tuple(tuple(run) for run in found)


on_install += [word_roles.cache_clear, matters.cache_clear, runs.cache_clear]
