"""What each word of an instruction is: of the thing, a property of it, a value to choose, or talk."""

import re
from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from stategate.envs.asking.request import Request
from stategate.envs.asking.text import Token, english
from stategate.envs.asking.weights import ROLES, Floats, in_columns, meaning_of, network, rarity

_REACH = 4  # words that a negation reaches
_NAMED = re.compile(r"[:=]|\s-\s")
_REPAIR = 5  # words from one that is taken back to what says so


def _features(request: Request) -> list[dict[str, float]]:
    """Return the named features of each word of an instruction."""
    found, known = request.tokens, english()
    n = len(found)
    sentences = sorted(set(request.sentence))
    inside = {
        s: [t for t, own in zip(found, request.sentence, strict=True) if own == s]
        for s in sentences
    }
    asking = {request.sentence[i] for i, t in enumerate(found) if t.word in known["asks"]}
    limited = {request.sentence[i] for i in request.in_limit}
    first_ask = next((i for i, token in enumerate(found) if token.word in known["asks"]), n)
    rows: list[dict[str, float]] = []
    for i, token in enumerate(found):
        s = request.sentence[i]
        distance = min((abs(s - other) for other in asking | limited), default=3)
        before = found[i - 1] if i and request.clause[i - 1] == request.clause[i] else None
        after = found[i + 1] if i + 1 < n and request.clause[i + 1] == request.clause[i] else None
        rare, pieces = rarity(token.word)
        last = found[i - 1] if i else None
        row = {
            "small word": token.is_small,
            "rarity": rare,
            "pieces": pieces,
            "letters": min(len(token.word), 12) / 12,
            "is number": token.value is not None,
            "has unit": bool(token.unit),
            "in limit": i in request.in_limit,
            "negated": negated(request, i, i)[0],
            "sentence asks": s in asking,
            "sentence has limit": s in limited,
            "near asking": 1 / (1 + distance),
            "sentences": min(len(sentences), 6) / 6,
            "asks before": i >= first_ask,
            "mark before": before is None,
            "mark after": after is None,
            "small before": before is not None and before.is_small,
            "small after": after is not None and after.is_small,
            "twice": len(request.places[token.key]) > 1,
            "sentence place": sentences.index(s) / len(sentences),
            "small share": sum(t.is_small for t in inside[s]) / len(inside[s]),
            "long sentence": min(len(inside[s]), 30) / 30,
            "first half": i < n / 2,
            "after colon": last is not None
            and bool(_NAMED.search(request.text[last.end : token.start])),
            "after a number": last is not None and last.value is not None,
            "asks": token.word in known["asks"],
            "money": token.word in known["money"],
            "retracts": token.word in known["retracts"],
            "taken back": _is_taken_back(request, i),
            "holds a digit": token.value is None and any(c.isdigit() for c in token.word),
        }
        for word in ("in", "with", "for", "of"):
            row[f"after {word}"] = last is not None and last.word == word
        rows.append(row)
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


@lru_cache(maxsize=4096)
def word_roles(request: Request) -> Floats:
    """Return (tokens, len(ROLES)): how probable it is that a word says what kind of thing is asked.

    A recurrent network reads the instruction from both ends, so a word is told by all that stands
    around it. What a word means tells talk ("committee", "select") from things, also where nobody
    said it while this was learned; no word itself is a feature.
    """
    net = network("word")
    if not request.tokens:
        return np.zeros((0, len(ROLES)), dtype=np.float32)
    meanings = np.stack([meaning_of(token.key) for token in request.tokens])
    rows = np.concatenate([in_columns("word", _features(request)), meanings], axis=1)
    seen = np.tanh(rows @ net["w1"] + net["b1"])
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
