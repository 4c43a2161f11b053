"""Text for the results that no fact is in: Python's own documentation, which every machine has."""

import random
import re
from functools import cache


@cache
def paragraphs(split: str) -> tuple[str, ...]:
    """Return paragraphs of prose; those of ``test`` are other ones than those of ``dev``."""
    from pydoc_data.topics import topics

    found = [
        " ".join(part.split())
        for name in sorted(topics)
        for part in re.split(r"\n\s*\n", topics[name])
        if 60 < len(part) < 700 and part.count("  ") < 40
    ]
    return tuple(found[::2] if split == "dev" else found[1::2])


def prose(rng: random.Random, split: str, size: int) -> list[str]:
    """Return paragraphs of about ``size`` characters together."""
    pool = paragraphs(split)
    parts: list[str] = []
    while sum(map(len, parts)) < size:
        parts.append(rng.choice(pool))
    return parts
