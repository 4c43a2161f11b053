"""Whether what a page is about can be what an instruction asks, by its title and its choices."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from stategate.envs.asking.request import Request
from stategate.envs.asking.text import content
from stategate.envs.asking.values import Asked, covered, left_over
from stategate.envs.asking.weights import ROLES, Floats, network
from stategate.envs.asking.words import runs, word_roles

VALUED = 0.4  # probability from which a word is one of a value


def missing_values(request: Request, choices: Sequence[Asked], title: str) -> Floats:
    """Return for each token how surely it is of a value that a page does not offer (0 to 1).

    ``choices`` are the page's, ``title`` says what it is about.
    """
    chances = word_roles(request)[:, ROLES.index("value")]
    said = np.asarray(covered(request, title), dtype=np.float32)
    for places in request.places.values():
        # A word that is said of the thing and as a value is not offered because the title has it.
        for i in sorted(places, key=lambda i: chances[i])[1:]:
            said[i] = 0.0
    for asked in choices:
        said = np.maximum(said, covered(request, asked.name))
        for i, (chance, out) in enumerate(zip(asked.asked, asked.excluded, strict=True)):
            # A value that is excluded is what its words are about, too.
            for place, quality in zip(asked.spans[i].places, asked.spans[i].quality, strict=False):
                said[place] = max(said[place], quality * max(chance, out))
    return np.asarray(chances * (1 - said), dtype=np.float32)


def subject_features(request: Request, choices: Sequence[Asked], title: str) -> Floats:
    """Return (len(SUBJECT),) of a page about ``title`` with ``choices``."""
    roles = word_roles(request)
    missing = missing_values(request, choices, title)
    cover = np.asarray(covered(request, title), dtype=np.float32)
    thing, properties, values, _ = roles.T if len(roles) else np.zeros((4, 0))

    def share(weights: Any) -> float:
        total = float(weights.sum())
        return float(weights @ cover) / total if total > 0.3 else 1.0

    best = [max(asked.asked, default=0.0) for asked in choices]
    is_open = [asked.none > top for asked, top in zip(choices, best, strict=True)]
    alike = [
        asked.spans[asked.best].is_whole is False
        for asked, top in zip(choices, best, strict=True)
        if top >= asked.none
    ]
    titled = frozenset(token.key for token in content(title))
    sure = [a for a, top in zip(choices, best, strict=True) if top >= a.none]
    picked = _keys_at(request, frozenset(p for a in sure for p in a.spans[a.best].places))
    left = [
        left_over(request, frozenset(a.spans[a.best].places), titled | picked, set()) for a in sure
    ]
    phrases = [
        float(np.mean([cover[i] for i in run])) for run in runs(request, ("thing", "property"))
    ]
    return np.asarray(
        [
            missing.sum() / 3,
            missing[missing > VALUED].sum() / 3,
            missing.max(initial=0.0),
            values.sum() / 5,
            len(choices) / 3,
            sum(is_open) / 2,
            sum(is_open) / max(len(choices), 1),
            min(best, default=1.0),
            share(thing + properties),
            share(thing),
            share(properties),
            min(phrases, default=1.0),
            max((e for a in choices for e in a.excluded), default=0.0),
            sum(alike) / 2,
            sum(gap for gap, _ in left),
            sum(beside for _, beside in left),
        ],
        dtype=np.float32,
    )


def _keys_at(request: Request, places: frozenset[int]) -> frozenset[str]:
    return frozenset(request.tokens[p].key for p in places)


def meets(request: Request, choices: Sequence[Asked], title: str) -> float:
    """Return the probability that the thing of a page can be all that is asked, as far as it shows."""
    net = network("subject")
    hidden = np.tanh(subject_features(request, choices, title) @ net["w1"] + net["b1"])
    return float(1 / (1 + np.exp(-(hidden @ net["w2"] + net["b2"])[0])))
